"""Known bugs with the decisive fact of an unsafe run: a section of its report."""

import re
import tomllib
from importlib.resources import files

from kchaos.checkers.errors import ModelError
from kchaos.checkers.findings import Question
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.harness.catalogue import entries_there
from kchaos.harness.catalogue.entry import Entry
from kchaos.harness.report.cause.causes import cause_of_run
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.sections import Section, SectionRow

_NOTE = (
    "They have the same kind of finding and of decisive fact, on this release line or on a later "
    "one. That one of them is the cause of this run is not proved."
)
DECISIVE: dict[str, str] = tomllib.loads(
    files("kchaos.harness.catalogue").joinpath("decisive.toml").read_text("utf-8")
)
"""Name of an entry to the expression in which its decisive fact is recognised."""


def alike_section(loaded: Loaded) -> Section | None:
    """Return known bugs that the release may have, with such a finding and the same decisive fact.

    Each has the first release after the last one on which it shows, if such a release is known.
    None if there are none.
    """
    kinds = {each.kind for each in loaded.findings if each.question is Question.SAFETY}
    try:
        line = parse_version(loaded.run.release)[:2]
    except ModelError:
        return None
    if loaded.results is None or loaded.results.safe is not False:
        return None
    alike = [
        entry
        for entry in entries_there().values()
        if entry.name != loaded.run.entry and _is_red(entry, line, kinds)
    ]
    decided = [step.text for step in cause_of_run(loaded) if step.is_fatal] if alike else []
    rows = [_row(entry) for entry in alike if _was_seen(entry, decided)]
    if not rows:
        return None
    return Section(
        name="alike",
        title="Known bugs with the same decisive fact",
        note=_NOTE,
        columns=("bug", "gone in", "title"),
        rows=tuple(rows),
        lead=f"Known bugs with the same decisive fact: {', '.join(row.text for row in rows)}.",
    )


def _is_red(entry: Entry, line: tuple[int, ...], kinds: set[str]) -> bool:
    """Return whether an entry has such a finding on the line, or on a later one and not on this."""
    known = {parse_version(release)[:2] for _, release in entry.expectations}
    red = {
        parse_version(release)[:2]
        for (_, release), expectation in entry.expectations.items()
        if kinds & {found[0] for found in expectation.findings}
    }
    return line in red or (line not in known and line < max(red, default=line))


def _was_seen(entry: Entry, decided: list[str]) -> bool:
    """Return whether one of the run's decisive facts is of the entry's kind."""
    fact = DECISIVE.get(entry.name)
    return fact is not None and any(re.search(fact, text) for text in decided)


def _row(entry: Entry) -> SectionRow:
    gone = gone_in(entry)
    text = f"{entry.name} (gone in {gone})" if gone else entry.name
    return SectionRow(group=entry.name, cells=(gone or "-", entry.title), text=text)


def gone_in(entry: Entry) -> str:
    """Return the first release known to be free of a bug, after the last that shows it; else ""."""
    red = [release for (_, release), each in entry.expectations.items() if not each.is_green]
    green = [release for (_, release), each in entry.expectations.items() if each.is_green]
    last = max(map(parse_version, red))
    return min(
        (each for each in green if parse_version(each) > last), key=parse_version, default=""
    )
