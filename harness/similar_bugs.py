"""Known bugs that end as an unsafe run does: a section of its report."""

from kchaos.checkers.errors import ModelError
from kchaos.checkers.findings import Question
from kchaos.checkers.model.releases.versions import Version, parse_version
from kchaos.harness.catalogue import entries_there
from kchaos.harness.catalogue.entry import Entry
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.sections import Section, SectionRow

_NOTE = (
    "They have the same kind of finding on a release of the same line. That one of them is the "
    "cause of this run is not proved."
)


def alike_section(loaded: Loaded) -> Section | None:
    """Return known bugs with a finding of the same kind on the release line; None if none.

    Each has the first later release on which it is known not to show.
    """
    kinds = {each.kind for each in loaded.findings if each.question is Question.SAFETY}
    try:
        release = parse_version(loaded.run.release)
    except ModelError:
        return None
    if loaded.results is None or loaded.results.safe is not False or not kinds:
        return None
    rows = []
    for entry in entries_there().values():
        if entry.name != loaded.run.entry and _is_red(entry, release, kinds):
            gone = _gone(entry, release)
            text = f"{entry.name}{f' (gone in {gone})' if gone else ''}"
            rows.append(SectionRow(group=entry.name, cells=(gone or "-", entry.title), text=text))
    columns = ("bug", "gone in", "title")
    return (
        Section(
            name="alike",
            title="Known bugs that end alike",
            note=_NOTE,
            columns=columns,
            rows=tuple(rows),
        )
        if rows
        else None
    )


def _is_red(entry: Entry, release: Version, kinds: set[str]) -> bool:
    return any(
        parse_version(other)[:2] == release[:2]
        and kinds & {found[0] for found in expectation.findings}
        for (_, other), expectation in entry.expectations.items()
    )


def _gone(entry: Entry, release: Version) -> str:
    """Return the first later release on which all cases are known to be green, or ""."""
    green = [other for (_, other), each in entry.expectations.items() if each.is_green]
    return min(
        (each for each in green if parse_version(each) > release), key=parse_version, default=""
    )
