"""Log cleaning that was seen, beside the checkpoint in the snapshot that follows."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import StopBroker
from kchaos.checkers.cross_checks.cleaning import cleaning_disagreements
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import LogCleaned, Snapshot

CLEANED = LogCleaned(broker=1, topic="t", partition=0, cleaned_until=4, kept=((2, 3),))
OTHER = LogCleaned(broker=2, topic="t", partition=0, cleaned_until=6, kept=())
TAKEN = Snapshot(label="after")


def told(offset: int | None, *events: object) -> list[str]:
    """What is said where broker 1's checkpoint has this offset, and broker 2's has 6."""

    def cleaned(_label: str, broker: int) -> dict[tuple[str, int], int]:
        if offset is None and broker == 1:
            return {}
        if offset == -1:
            raise CheckpointError("cleaner-offset-checkpoint, line 1: no version")
        return {("t", 0): 6 if broker == 2 else cast(int, offset)}

    evidence: Any = SimpleNamespace(
        events=tuple(SimpleNamespace(event=event) for event in events),
        copied=SimpleNamespace(cleaned=cleaned),
        snapshots=(),
        scenario=SimpleNamespace(steps=()),
        broker_properties={},
    )
    return list(cleaning_disagreements(cast(RunEvidence, evidence)))


@pytest.mark.parametrize(
    "events",
    [(CLEANED, TAKEN), (CLEANED, OTHER, TAKEN), (CLEANED,), (TAKEN,)],
    ids=["the same", "two brokers", "no snapshot follows", "nothing was cleaned"],
)
def test_a_checkpoint_that_says_the_same_agrees(events: tuple[object, ...]) -> None:
    assert told(4, *events) == []


def test_a_broker_that_has_ended_since_may_say_something_else() -> None:
    assert told(9, CLEANED, StopBroker(broker=1, clean=True), TAKEN) == []


def test_a_cleaner_may_go_on_before_the_snapshot() -> None:
    assert told(5, CLEANED, TAKEN) == []


@pytest.mark.parametrize("offset", [None, 3])
def test_an_earlier_offset_or_none_does_not_agree(offset: int | None) -> None:
    (said,) = told(offset, CLEANED, TAKEN)

    assert said == (
        f"broker 1's log of t-0 was seen to be cleaned up to 4; snapshot 'after' has {offset}"
    )


def test_a_checkpoint_that_cannot_be_read_does_not_agree() -> None:
    assert told(-1, CLEANED, TAKEN) == ["cleaner-offset-checkpoint, line 1: no version"]
