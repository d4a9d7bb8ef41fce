"""The three answers of a judgement, in words and in a form that can be drawn."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.findings import KINDS, Kind, Question
from kchaos.checkers.occasions import OCCASIONS
from kchaos.checkers.rules.as_sent import NOT_COMPARED
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.witness import Witness
from kchaos.harness.report.loading import Loaded

Answer = Literal["yes", "no", "unknown", "none"]

_TICKET = re.compile(r"KAFKA-\d+")

SYMBOLS: dict[Answer, str] = {"yes": "✓", "no": "✗", "unknown": "?", "none": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerView:
    """One question with its answer.

    Attributes:
        question: "conforms", "safe" or "expected".
        answer: "yes", "no", "unknown", or "none" where nobody judged.
        words: The answer in one or two words.
        meaning: What was asked.
    """

    question: str
    answer: Answer
    words: str
    meaning: str

    @property
    def symbol(self) -> str:
        """A sign for the answer; the words stand beside it, since a sign alone says little."""
        return SYMBOLS[self.answer]


_WORDS = {
    "conforms": (
        "conformance ",
        {"yes": "conforms", "no": "does not conform"},
        "Did the real replicas do what the model of this release predicts?",
    ),
    "safe": (
        "safety ",
        {"yes": "safe", "no": "unsafe"},
        "Do in-sync replicas agree, is every promised record there, does replication go on?",
    ),
    "expected": (
        "expectation ",
        {"yes": "as expected", "no": "not expected"},
        "Did we know that this release does this?",
    ),
}


def answers_of(loaded: Loaded) -> tuple[AnswerView, ...]:
    """Return the three answers, in reading order."""
    return tuple(_answer(loaded, question) for question in _WORDS)


def _answer(loaded: Loaded, question: str) -> AnswerView:
    noun, words, meaning = _WORDS[question]
    answer: Answer = "none"
    if loaded.results is not None and not loaded.directory.is_sealed:
        answer = "unknown"
    elif loaded.results is not None:
        value = getattr(loaded.results, question)
        answer = "unknown" if value is None else ("yes" if value else "no")
    spoken = words.get(answer, f"{noun}{'unknown' if answer == 'unknown' else 'not judged'}")
    return AnswerView(question=question, answer=answer, words=spoken, meaning=meaning)


def headline(loaded: Loaded) -> str:
    """Return the verdict in one line, for the page's title and the text's first line."""
    if loaded.judgement is None:
        return "not judged yet"
    conforms, safe, expected = answers_of(loaded)
    notes = [conforms.words, safe.words]
    if conforms.answer == safe.answer == "unknown":
        notes = ["unknown"]
    return f"{', '.join(notes)}; {expected.words}"


def unknown_reasons(loaded: Loaded) -> tuple[str, ...]:
    """Return why questions have no answer, a sentence or a traceback each."""
    results, outcome = loaded.results, loaded.evidence.outcome
    notes = (results.unknown if results is not None else None, outcome.unknown)
    reasons = [reason for reason in notes if reason]
    if results is not None and not reasons:
        missing = [q for q in ("conforms", "safe") if getattr(results, q) is None]
        if missing:
            reasons.append(f"the judgement does not say why {' and '.join(missing)} is unknown")
    return tuple(dict.fromkeys(reasons))


def tracebacks(loaded: Loaded) -> tuple[str, ...]:
    """Return the tracebacks that the run and the judgement recorded."""
    crashes = () if loaded.results is None else loaded.results.crashes
    traces = (*crashes, loaded.evidence.outcome.traceback)
    return tuple(dict.fromkeys(trace for trace in traces if trace))


def _not_as_sealed(run: RunDirectory) -> Iterator[str]:
    """Yield evidence that was removed after the seal; a judgement also compares its bytes."""
    try:
        sealed = run.read(MANIFEST).get("files")
    except RunDirectoryError as error:
        yield f"The seal of this run cannot be read: {error}"
        return
    changed = [
        name
        for name, file in (sealed.items() if isinstance(sealed, Mapping) else ())
        if isinstance(file, Mapping) and _size_bytes(run.path / name) != file.get("size_bytes")
    ]
    if changed:
        more = f" and {len(changed) - 1} more files" if len(changed) > 1 else ""
        yield (
            f"The evidence is not as it was sealed: {changed[0]}{more} are missing or have another "
            "size. What follows may be of other evidence than was judged."
            if more
            else f"The evidence is not as it was sealed: {changed[0]} is missing or has another "
            "size. What follows may be of other evidence than was judged."
        )


def _size_bytes(file: Path) -> int:
    return file.stat().st_size if file.is_file() else -1


def warnings(loaded: Loaded) -> tuple[str, ...]:
    """Return warnings to read first, a sentence each."""
    notes = []
    if not loaded.directory.is_sealed:
        notes.append(
            "This run is not sealed: it was interrupted, or it is still going on. Its evidence is "
            "incomplete, and nothing below is a verdict on it."
        )
    else:
        notes += _not_as_sealed(loaded.directory)
    if loaded.judgement is None:
        notes.append(
            "Nobody has judged this run yet. What follows is what was found, with nothing beside "
            f"it. To judge it: kchaos judge {loaded.directory.name}"
        )
    elif loaded.prediction is None:
        notes.append("This judgement has no prediction, so every replica stands alone below.")
    not_checked = () if loaded.results is None else loaded.results.not_checked
    notes += [f"Not checked: {each}" for each in not_checked if each not in NOT_COMPARED]
    return tuple(notes)


def not_compared(loaded: Loaded) -> tuple[str, ...]:
    """Return the comparisons that the judgement omits for every run."""
    not_checked = () if loaded.results is None else loaded.results.not_checked
    return tuple(each for each in not_checked if each in NOT_COMPARED)


def occasions_of(loaded: Loaded) -> tuple[tuple[str, int], ...]:
    """Return each kind of occasion in words, with how often the run had it; empty if unjudged."""
    if loaded.results is None:
        return ()
    had = loaded.results.occasions
    return tuple((sentence, had.get(kind, 0)) for kind, sentence in OCCASIONS.items())


def expectation_of(loaded: Loaded) -> str:
    """Return the source of the expectation, and why it was not met; "" if unjudged."""
    if loaded.results is None:
        return ""
    where = loaded.results.expectation_from
    source = (loaded.scenario.expectation or {}).get("source")
    if where == "scenario" and source:
        where = f"{where} ({source.replace('`', '')})"
    reason = loaded.results.reason
    expected = f"Expected by the {where}."
    if where == "safety":
        expected = "Expected to be safe: nothing is predicted of this run."
    return expected + (f" Not met: {reason}" if reason else "")


def witnesses_of(loaded: Loaded) -> tuple[Witness, ...]:
    """Return the expectation's witnesses, each with its observations."""
    return () if loaded.results is None else loaded.results.witness


def summary(loaded: Loaded) -> str:
    """Return the scenario in one sentence."""
    run = loaded.run
    count = len(run.brokers)
    text = ", ".join([run.entry or "a scenario", *([f"case {run.case}"] if run.case else [])])
    ran = loaded.evidence.ran
    text += f", on Kafka {ran}{',' if loaded.evidence.rolled_to else ''}"
    if count:
        text += f" with {count} broker{'s' if count != 1 else ''}"
    seconds = loaded.results.seconds if loaded.results is not None else None
    seconds = seconds or loaded.evidence.outcome.seconds
    if seconds is not None:
        text += f", ran for {seconds:.1f} s"
    if loaded.results is not None and loaded.results.stood_still:
        text += f"; {loaded.results.stood_still}"
    return text + "."


def outcome_of(loaded: Loaded) -> str:
    """Return the outcome as the page's first words."""
    if not loaded.directory.is_sealed:
        return "This run has not ended: nothing is known"
    return "This run has not been judged" if loaded.results is None else loaded.results.outcome


def replay_of(loaded: Loaded) -> str:
    """Return the command that replays the run from its current path."""
    here = shlex.quote(str(loaded.directory.path))
    recorded = loaded.run.replay
    if not recorded:
        return f"kchaos replay {here}"
    # The last word is the path of the day on which it was played.
    return recorded.removesuffix(shlex.quote(shlex.split(recorded)[-1])) + here


def tickets_of(loaded: Loaded) -> tuple[str, ...]:
    """Return the Jira tickets that the entry's name and the expectation's source name."""
    source = (loaded.scenario.expectation or {}).get("source", "")
    named = _TICKET.findall(f"{loaded.run.entry} {source}")
    return tuple(dict.fromkeys(named))


def title_of(loaded: Loaded) -> str:
    """Return the entry's title, if the run has one."""
    return loaded.scenario.title or loaded.run.title


def held(loaded: Loaded) -> tuple[Kind, ...]:
    """Return the kinds of findings that the judge looked for and did not find.

    A question that is unknown has none, and tiers and a quorum are looked at where there are any.
    """
    results = loaded.results
    if results is None:
        return ()
    answer = {Question.SAFETY: results.safe, Question.CONFORMANCE: results.conforms}
    found = {finding.kind for finding in loaded.findings}
    return tuple(
        kind
        for kind in KINDS.values()
        if answer.get(kind.question) is not None
        and kind.name not in found
        and (loaded.evidence.is_tiered or not kind.name.startswith("tier-"))
        and (loaded.evidence.is_kraft or kind.name not in ("fenced-leader", "two-controllers"))
    )
