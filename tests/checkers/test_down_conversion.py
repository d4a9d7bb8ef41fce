from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED
from kchaos.checkers.rules.down_conversion import not_down_converted
from tests.support.rule_evidence import batch, evidence, replica


def fetched(version: int, *magics: int, readable: int = 4, outcome: str = "ok") -> Operation:
    return Operation(
        operation=f"client-v{version}",
        function="fetch",
        broker=0,
        topic="t",
        partition=0,
        acks=1,
        outcome=outcome,
        promised=False,
        payloads=(),
        fetch_version=version,
        magics=magics,
        readable=readable,
    )


def messages_of(*operations: Operation, side: Any = OBSERVED, **more: Any) -> list[str]:
    judged = evidence(replica(0, batch(0, 0, "a")), operations=operations, **more)
    return [finding.message for finding in not_down_converted(judged, side)]


@pytest.mark.parametrize(
    "operation",
    [
        fetched(0, 0, 0),
        fetched(1, 0),
        fetched(2, 1, 1),
        fetched(3, 0, 1),
        fetched(4, 2, 1),
        fetched(2, readable=0),
        fetched(2, 2, outcome="fail"),
        replace(fetched(2, 2), fetch_version=None),
    ],
)
def test_what_an_old_client_reads_is_no_finding(operation: Operation):
    assert messages_of(operation) == []


def test_a_newer_format_than_the_client_reads_is_found():
    (said,) = messages_of(fetched(1, 0), fetched(2, 2, 1), fetched(3, 2, 1))
    assert said == (
        "broker 0: a Fetch of version 2, which reads magic 1 at best, was answered in magic "
        "[2, 1]; a Fetch of version 3, which reads magic 1 at best, was answered in magic [2, 1]"
    )
    assert len(messages_of(fetched(0, 1))) == 1


def test_nothing_at_all_without_an_error_is_found():
    assert messages_of(fetched(3)) == [
        "broker 0: a Fetch of version 3 got nothing and no error, with 4 offsets to read"
    ]


def test_the_prediction_and_earlier_snapshots_say_nothing():
    assert messages_of(fetched(2, 2), side=PREDICTED) == []
    assert messages_of(fetched(2, 2), is_final=False) == []
