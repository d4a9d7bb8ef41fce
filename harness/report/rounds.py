"""Questions for leader epochs as they passed the links, beside the predicted ones."""

import difflib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kchaos.checkers.evidence.epoch_rounds import AskedRound, asked_rounds
from kchaos.harness.report.loading import Loaded

_NONE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A predicted round beside an observed one; either may be missing."""

    predicted: AskedRound | None
    observed: AskedRound | None

    @property
    def agree(self) -> bool:
        """Whether both are there; they are paired only when question and answer are the same."""
        return self.predicted is not None and self.observed is not None


def observed_rounds(loaded: Loaded) -> tuple[AskedRound, ...]:
    """Return every question that a link saw, in the order in which they were asked."""
    return asked_rounds(loaded.evidence.links or ())


def predicted_rounds(loaded: Loaded) -> tuple[AskedRound, ...]:
    """Return the prediction's rounds, in order."""
    rounds = () if loaded.prediction is None else loaded.prediction.rounds
    return tuple(AskedRound(time=None, **asdict(epoch_round)) for epoch_round in rounds)


def side_by_side(
    predicted: Sequence[AskedRound], observed: Sequence[AskedRound]
) -> tuple[Pair, ...]:
    """Merge both lists in the order of the observed ones; equal rounds share a pair."""
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


def _answer(each: AskedRound) -> tuple[Any, ...]:
    return (
        each.follower,
        each.leader,
        each.topic,
        each.partition,
        each.requested_epoch,
        each.answered_epoch,
        each.end_offset,
    )
