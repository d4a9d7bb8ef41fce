"""Whose an unsafe run is, and the commands that come next."""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.errors import CheckError
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.checkers.outcome import worst_first
from kchaos.harness.report.answers import outcome_of, replay_of
from kchaos.harness.report.cause.causes import cause_of_run
from kchaos.harness.report.cause.unavoidable import decisive_step
from kchaos.harness.report.cause.wording import listed
from kchaos.harness.report.loading import Loaded, load_at
from kchaos.harness.report.sections import sections_of

_MOST_SENTENCES = 6
_MOST_RUNS = 3
"""So many unsafe runs have words at the end of a command's output."""
_WHOSE = {
    True: "Kafka's own: Kafka {ran} does this by its rules, which the model predicts. It is no "
    "regression of yours.",
    False: "Not by the rules of Kafka {ran}: the run is not as the model predicts. It is a "
    "regression, a change of a build, or a bug that no rule describes.",
    None: "Unsafe by its bytes. Whether Kafka {ran} does this by its rules is unknown.",
}


def whose(loaded: Loaded) -> str:
    """Return a sentence that says whose an unsafe run is; "" of any other run."""
    results = loaded.results
    if results is None or results.safe is not False or not worst_first(loaded.findings):
        return ""
    if PLANTED in results.build:
        return "By a planted bug, or in spite of it: nothing here is known of Kafka's own code."
    return _WHOSE[results.conforms].format(ran=results.ran or loaded.run.release)


def spared(loaded: Loaded) -> str:
    """Return a sentence with the later release that spares a run its harm; "" if not known.

    The model computed it when the run was judged (`checkers.model.follow.other_rules`).
    """
    results = loaded.results
    is_by_rules = bool(whose(loaded)) and results is not None and results.conforms is True
    since = decisive_step(loaded) if is_by_rules else None
    if since is None or not since.spared_in:
        return ""
    text = f"By the rules of Kafka {since.spared_in} this schedule ends without that harm"
    if not since.spared_by:
        return f"{text}."
    rules = listed(since.spared_by)
    return f"{text}. {rules} {'decide' if len(since.spared_by) > 1 else 'decides'} it."


def lead_of(loaded: Loaded) -> tuple[str, ...]:
    """Return the sentences at the head of a report: whose the run is, and those of sections."""
    sentences = (
        _planted(loaded),
        whose(loaded),
        spared(loaded),
        *(section.lead for section in sections_of(loaded)),
    )
    return tuple(filter(None, sentences))


def _planted(loaded: Loaded) -> str:
    """Return a sentence about the bugs planted in the brokers; "" of any other run."""
    results = loaded.results
    names = [] if results is None else results.build.split("; ")
    bugs = ", ".join(sorted({name.removeprefix(PLANTED) for name in names if PLANTED in name}))
    return (
        f"The brokers ran with a bug planted on purpose: {bugs}. This is no run of Kafka."
        * bool(bugs)
    )


def next_commands(loaded: Loaded) -> Sequence[tuple[str, str]]:
    """Return commands with the purpose of each, the likeliest first."""
    here = shlex.quote(str(loaded.directory.path))
    commands = [(replay_of(loaded), "run it again")]
    if whose(loaded):
        commands.append((f"kchaos shrink {here}", "remove steps while it shows the same"))
        worst = worst_first(loaded.findings)[0].kind
        commands.append((f"kchaos list {worst}", "list known bugs that end so"))
        commands.append((f"kchaos report --jira {here}", "write a comment for a ticket"))
        commands.append((f"kchaos pack {here}", "make one small file to attach"))
    return commands


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What a summary says about an unsafe run.

    Attributes:
        lead: Whose the run is, and which known bugs have the same decisive fact.
        commands: Those that come next, the likeliest first.
    """

    run: str
    lead: str
    commands: tuple[str, ...]


def advice(places: Iterable[str | None]) -> Iterator[Advice]:
    """Yield whose the first unsafe runs are, and what is next.

    `places` are run directories; None, or one that cannot be read any more, is passed over.
    """
    shown = 0
    for place in filter(None, places):
        try:
            loaded = load_at(Path(place))
        except CheckError:
            continue
        if whose(loaded) and shown < _MOST_RUNS:
            shown += 1
            yield Advice(
                run=loaded.name,
                lead=" ".join(lead_of(loaded)),
                commands=tuple(command for command, _ in next_commands(loaded)),
            )


def last_words(places: Iterable[str | None]) -> Iterator[str]:
    """Yield the same as lines for the end of a command's output."""
    for each in advice(places):
        yield f"{each.run}: {each.lead}"
        yield f"next: {' · '.join(each.commands)}"


def jira_text(loaded: Loaded) -> str:
    """Return a comment for a ticket in Jira's markup, ending in a newline."""
    lines = [f"h3. {outcome_of(loaded)}", *lead_of(loaded)]
    for step in cause_of_run(loaded)[-_MOST_SENTENCES:]:
        since = "" if step.time is None else f"{step.time - loaded.started_at:.3f} s: "
        lines.append(f"# {since}{step.text}{' *This decided it.*' if step.is_fatal else ''}")
    name = shlex.quote(loaded.directory.name)
    lines += [
        f"Attach {loaded.directory.name}.tar.xz (kchaos pack) and report.html. To run it again:",
        "{noformat}",
        f"kchaos unpack {name}.tar.xz && kchaos replay {name}",
        "{noformat}",
    ]
    return "\n".join(lines) + "\n"
