"""Differences between what was seen and what is possible are shown where they are."""

from typing import Any

from kchaos.checkers.model.follow.matching import files_differ
from kchaos.checkers.model.follow.observations import Files
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.shared import Shared

SOME_BROKER: Any = object()


def differ(seen: tuple[int, ...], possible: tuple[int, ...]) -> str:
    """How files with batches of one record differ from a replica, of which both have offsets."""
    log = Log(
        batches=Shared(
            PredictedBatch(base_offset=at, last_offset=at, leader_epoch=0, magic=2, payload="")
            for at in possible
        )
    )
    files = Files(batches=tuple((at, at, 0, 2) for at in seen), epoch_entries=None)
    return files_differ(SOME_BROKER, Replica(log=log), files)


def test_the_first_batch_that_differs_is_shown_on_both_sides() -> None:
    behind = tuple(range(20, 30))

    assert differ((0, 1, 4, *behind), (0, 1, 2, *behind)) == (
        "batches …, 1-1 of epoch 0, 4-4 of epoch 0, 20-20 of epoch 0, 21-21 of epoch 0, 22-22 of "
        "epoch 0, 23-23 of epoch 0, … 29-29, possible was …, 1-1 of epoch 0, 2-2 of epoch 0, 20-20 "
        "of epoch 0, 21-21 of epoch 0, 22-22 of epoch 0, 23-23 of epoch 0, … 29-29"
    )


def test_batches_that_are_too_many_or_too_few_are_shown() -> None:
    assert differ((0, 1), (0,)) == (
        "batches 0-0 of epoch 0, 1-1 of epoch 0, possible was 0-0 of epoch 0"
    )
    assert differ((), (0,)) == "batches none, possible was 0-0 of epoch 0"
