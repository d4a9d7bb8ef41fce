"""Rounds of OffsetForLeaderEpoch as they passed the links, beside the predicted ones."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.loading import Line, Loaded

_EPOCH_API, _FETCH_API = 23, 1
_NONE = object()

Answer = tuple[int, int, str, int, int, int | None, int]
"""Follower, leader, topic, partition, asked epoch, answered epoch, end offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One question for the end of a leader epoch, and its answer.

    Attributes:
        time: When it was asked, in seconds since 1970; None for a prediction, or if unknown.
        requested_epoch: None where the relay did not read it.
        answered_epoch: None where the answer has none, or none came.
        end_offset: None while no answer came.
        error: The answer's error code; 0 if all was well.
        fate: "", or how a link treated it: "cut", "held", "delayed", "abandoned".
        by_fetch: Whether the answer came as a diverging epoch in a Fetch response (2.8+).
    """

    time: float | None
    follower: int | None
    leader: int | None
    topic: str
    partition: int
    requested_epoch: int | None
    answered_epoch: int | None
    end_offset: int | None
    error: int = 0
    fate: str = ""
    by_fetch: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether an answer without error came."""
        return self.end_offset is not None and self.error == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A predicted round beside an observed one; either may be missing."""

    predicted: Round | None
    observed: Round | None

    @property
    def agree(self) -> bool:
        """Whether both are there; they are paired only when question and answer are the same."""
        return self.predicted is not None and self.observed is not None


def observed_rounds(loaded: Loaded) -> tuple[Round, ...]:
    """Every question that a link saw, in the order in which they were asked."""
    asked: dict[tuple[Any, ...], Line] = {}
    fates: dict[tuple[Any, ...], str] = {}
    answered: dict[tuple[Any, ...], Line] = {}
    for record in loaded.links:
        if record.get("api_key") not in (_EPOCH_API, _FETCH_API):
            continue
        key = (record["connection"], record["api_key"], record["correlation_id"])
        if record["direction"] == "request":
            asked.setdefault(key, record)
            if record["fate"] not in ("passed", "released"):
                fates.setdefault(key, record["fate"])
        elif record["fate"] in ("passed", "released", "delayed"):
            answered[key] = record
        elif record["fate"] == "abandoned":
            fates.setdefault(key, record["fate"])
    rounds: list[Round] = []
    for key, request in asked.items():
        response = answered.get(key)
        if request["api_key"] == _EPOCH_API:
            rounds.extend(_asked(request, response, fates.get(key, "")))
        elif response is not None:
            rounds.extend(_diverged(request, response, fates.get(key, "")))
    return tuple(rounds)


def _partitions(record: Line | None) -> dict[tuple[str, int], Mapping[str, Any]]:
    detail = (record or {}).get("detail") or {}
    return {
        (str(entry.get("topic")), int(entry["partition"])): entry
        for entry in detail.get("partitions") or ()
        if "partition" in entry
    }


def _asked(request: Line, response: Line | None, fate: str) -> Iterable[Round]:
    answers = _partitions(response)
    for (topic, partition), question in _partitions(request).items():
        answer = answers.get((topic, partition), {})
        yield Round(
            time=request.get("wall_time_s"),
            follower=request["source"],
            leader=request["target"],
            topic=topic,
            partition=partition,
            requested_epoch=question.get("leader_epoch"),
            answered_epoch=answer.get("leader_epoch"),
            end_offset=answer.get("end_offset"),
            error=answer.get("error_code") or 0,
            fate=fate,
        )


def _diverged(request: Line, response: Line, fate: str) -> Iterable[Round]:
    questions = _partitions(request)
    for (topic, partition), answer in _partitions(response).items():
        diverging = answer.get("diverging_epoch")
        if not isinstance(diverging, Mapping) or diverging.get("end_offset", -1) < 0:
            continue
        yield Round(
            time=request.get("wall_time_s"),
            follower=request["source"],
            leader=request["target"],
            topic=topic,
            partition=partition,
            requested_epoch=questions.get((topic, partition), {}).get("last_fetched_epoch"),
            answered_epoch=diverging.get("epoch"),
            end_offset=diverging["end_offset"],
            fate=fate,
            by_fetch=True,
        )


def predicted_rounds(loaded: Loaded) -> tuple[Round, ...]:
    """The rounds that the prediction has, in its order."""
    return tuple(
        Round(
            time=None,
            follower=line["follower"],
            leader=line["leader"],
            topic=line["topic"],
            partition=line["partition"],
            requested_epoch=line["requested_epoch"],
            answered_epoch=line["answered_epoch"],
            end_offset=line["end_offset"],
            by_fetch=line.get("by_fetch", False),
        )
        for line in loaded.prediction.get("rounds", ())
    )


def side_by_side(predicted: Sequence[Round], observed: Sequence[Round]) -> tuple[Pair, ...]:
    """Both lists in one, in the order of the observed ones; equal rounds share a pair."""
    foreseen = [_answer(each) for each in predicted]
    seen = [_answer(each) if each.is_answered else _NONE for each in observed]
    pairs: list[Pair] = []
    matcher = difflib.SequenceMatcher(None, foreseen, seen, autojunk=False)
    for tag, a, a_end, b, b_end in matcher.get_opcodes():
        if tag == "equal":
            pairs += [
                Pair(predicted=p, observed=o)
                for p, o in zip(predicted[a:a_end], observed[b:b_end], strict=True)
            ]
            continue
        pairs += [Pair(predicted=each, observed=None) for each in predicted[a:a_end]]
        pairs += [Pair(predicted=None, observed=each) for each in observed[b:b_end]]
    return tuple(pairs)


def _answer(each: Round) -> tuple[Any, ...]:
    return (
        each.follower,
        each.leader,
        each.topic,
        each.partition,
        each.requested_epoch,
        each.answered_epoch,
        each.end_offset,
    )
