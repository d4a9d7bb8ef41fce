"""The three answers of a judgement, in words and in a form that can be drawn."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from harness.report.loading import Loaded

Answer = Literal["yes", "no", "unknown", "none"]

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
        "Is this what the scenario, or else the model, says of this release?",
    ),
}


def answers_of(loaded: Loaded) -> tuple[AnswerView, ...]:
    """The three answers, in the order in which they are read."""
    return tuple(_answer(loaded, question) for question in _WORDS)


def _answer(loaded: Loaded, question: str) -> AnswerView:
    noun, words, meaning = _WORDS[question]
    answer: Answer = "none"
    if loaded.judgement is not None:
        value = loaded.results.get(question)
        answer = "unknown" if value is None else ("yes" if value else "no")
    spoken = words.get(answer, f"{noun}{'unknown' if answer == 'unknown' else 'not judged'}")
    return AnswerView(question=question, answer=answer, words=spoken, meaning=meaning)


def headline(loaded: Loaded) -> str:
    """The verdict in one line, as the page's title and the first line of the text have it."""
    if loaded.judgement is None:
        return "not judged yet"
    conforms, safe, expected = answers_of(loaded)
    said = [conforms.words, safe.words]
    if conforms.answer == safe.answer == "unknown":
        said = ["unknown"]
    return f"{', '.join(said)}; {expected.words}"


def unknown_reasons(loaded: Loaded) -> tuple[str, ...]:
    """Why a question has no answer, a sentence or a traceback each; empty if all have one."""
    reasons = [*_flat(loaded.results.get("unknown")), *_flat(loaded.outcome.get("unknown"))]
    if loaded.judgement is not None and not reasons:
        missing = [q for q in ("conforms", "safe") if loaded.results.get(q) is None]
        if missing:
            reasons.append(f"the judgement does not say why {' and '.join(missing)} is unknown")
    return tuple(dict.fromkeys(reasons))


def tracebacks(loaded: Loaded) -> tuple[str, ...]:
    """The tracebacks that the run and the judgement recorded."""
    found = [*_flat(loaded.results.get("crashes")), *_flat(loaded.outcome.get("traceback"))]
    return tuple(dict.fromkeys(found))


def warnings(loaded: Loaded) -> tuple[str, ...]:
    """What a reader must know before believing anything below, a sentence each."""
    said = []
    if not loaded.directory.is_sealed:
        said.append(
            "This run is not sealed: it was interrupted, or it is still going on. Its evidence is "
            "incomplete, and nothing below is a verdict on it."
        )
    if loaded.judgement is None:
        said.append(
            "Nobody has judged this run yet. What follows is what was found, with nothing beside "
            f"it. To judge it: kchaos judge {loaded.directory.name}"
        )
    elif not loaded.prediction:
        said.append("This judgement has no prediction, so every replica stands alone below.")
    said += [f"Not checked: {each}" for each in _flat(loaded.results.get("not_checked"))]
    return tuple(said)


def expectation_of(loaded: Loaded) -> str:
    """Where the expectation comes from, and why it was not met if it was not; "" if unjudged."""
    if loaded.judgement is None:
        return ""
    where = str(loaded.results.get("expectation_from") or "the model")
    source = (loaded.scenario.get("expectation") or {}).get("source")
    if where == "scenario" and source:
        where = f"{where} ({source})"
    reason = loaded.results.get("reason")
    return f"Expected by the {where.removeprefix('the ')}." + (
        f" Not met: {reason}" if reason else ""
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessView:
    """One thing that shows that the mechanism ran: what was looked for, and what was seen."""

    wanted: str
    found: bool
    seen: str


def witnesses_of(loaded: Loaded) -> tuple[WitnessView, ...]:
    """The expectation's witnesses with what was seen of each."""
    return tuple(
        WitnessView(
            wanted=json.dumps(each.get("wanted")),
            found=bool(each.get("found")),
            seen=str(each.get("seen") or ""),
        )
        for each in loaded.results.get("witness") or ()
    )


def summary(loaded: Loaded) -> str:
    """What was played, in one sentence."""
    run = loaded.run
    releases = sorted({str(each.get("release")) for each in (run.get("brokers") or {}).values()})
    count = len(run.get("brokers") or {})
    parts = [str(run.get("entry") or "a scenario")]
    if run.get("case"):
        parts.append(f"case {run['case']}")
    text = ", ".join(parts)
    text += f", on Kafka {' and '.join(releases) or run.get('release')}"
    if count:
        text += f" with {count} broker{'s' if count != 1 else ''}"
    seconds = loaded.results.get("seconds") or loaded.outcome.get("seconds")
    if seconds is not None:
        text += f", played in {float(seconds):.1f} s"
    return text + "."


def title_of(loaded: Loaded) -> str:
    """The entry's title, where the run's data has one."""
    return str(loaded.scenario.get("title") or loaded.run.get("title") or "")


def _flat(value: Any) -> Iterable[str]:
    if value is None or value == "" or value is False:
        return
    if isinstance(value, list | tuple):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from (f"{key}: {text}" for text in _flat(item))
    else:
        yield str(value)
