"""Judging twice as much takes about twice the work, and never four times as much."""

from types import SimpleNamespace
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.rules import apply_rules
from kchaos.checkers.rules.foreign import foreign_at_links
from tests.support.rule_evidence import acknowledged, batch, evidence, replica
from tests.support.work import calls_of

_MOST = 2.5
"""Twice as much work, and what sorting takes."""


def writes(count: int) -> dict[str, Any]:
    """Writes one after the other, and two replicas that have them."""
    batches = [batch(offset, 3, f"value {offset}") for offset in range(count)]
    return {
        "batches": batches,
        "operations": tuple(
            acknowledged(
                f"write {offset}",
                offset,
                f"value {offset}",
                invoked_at=float(offset),
                ended_at=offset + 0.5,
            )
            for offset in range(count)
        ),
    }


def test_the_rules_of_a_partition_take_no_square_of_its_writes():
    def judge(count: int) -> None:
        written = writes(count)
        replicas = [replica(broker, *written["batches"]) for broker in (0, 1)]
        judged = apply_rules(evidence(*replicas, operations=written["operations"]))
        assert not judged.crashes

    judge(10)
    assert calls_of(lambda: judge(200)) < _MOST * calls_of(lambda: judge(100))


def test_writes_of_others_are_looked_for_without_a_square_of_the_writes():
    def judge(count: int) -> None:
        held: Any = SimpleNamespace(
            clients=None,
            partitions=(TopicPartition("t", 0),),
            operations=writes(count)["operations"],
            links=(),
        )
        assert not [*foreign_at_links(held)]

    judge(10)
    assert calls_of(lambda: judge(400)) < _MOST * calls_of(lambda: judge(200))
