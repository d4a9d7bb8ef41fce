"""Each anomaly: a history in which it was planted, and one like it without it that must pass."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.findings import KINDS
from kchaos.checkers.histories.anomalies import (
    NOT_KEPT_APART,
    REBALANCED,
    Anomaly,
    anomalies,
    doubts,
)
from kchaos.checkers.histories.operations import HistoryOperation, Poll, Send, Value
from kchaos.checkers.histories.version_order import values_read, version_orders


def did(process: int, *actions: Send | Poll, outcome: Any = "ok", **more: Any) -> HistoryOperation:
    return HistoryOperation(
        index=0, process=str(process), outcome=outcome, function="txn", actions=actions, **more
    )


def sent(key: str, *values: Value, first: int | None = None) -> tuple[Send, ...]:
    offsets = [None] * len(values) if first is None else range(first, first + len(values))
    return tuple(
        Send(key=key, value=value, offset=offset)
        for value, offset in zip(values, offsets, strict=True)
    )


def at(key: str, offset: int, value: Value) -> Send:
    return Send(key=key, value=value, offset=offset)


def polled(key: str, *records: tuple[int, Value]) -> Poll:
    return Poll(records={key: records})


def chose(process: int, function: Any, *keys: str, outcome: Any = "ok") -> HistoryOperation:
    return HistoryOperation(
        index=0, process=str(process), outcome=outcome, function=function, keys=keys
    )


def judged(*operations: HistoryOperation) -> list[Anomaly]:
    return anomalies(
        [replace(operation, index=index) for index, operation in enumerate(operations)]
    )


def names(*operations: HistoryOperation) -> dict[str, int]:
    """The anomalies by name, without what is only not read yet."""
    told = Counter(anomaly.name for anomaly in judged(*operations))
    del told["unseen"]
    return dict(told)


ABCD = did(0, *sent("x", "a", "b", "c", "d", first=1))
LOOSE = did(0, *sent("x", "a", "b", "c", "d"))

PAIRS: dict[str, list[tuple[list[HistoryOperation], list[HistoryOperation]]]] = {
    "inconsistent-offsets": [
        # Two acknowledged sends at one offset, and at two.
        (
            [did(0, at("x", 4, "a")), did(1, at("x", 4, "b"))],
            [did(0, at("x", 4, "a")), did(1, at("x", 5, "b"))],
        ),
        # A send of unknown end: only a read of its other record shows that it is there.
        (
            [
                did(0, at("x", 0, "a"), Send(key="y", value="a"), outcome="info"),
                did(1, at("x", 0, "b")),
                did(2, polled("y", (5, "a"))),
            ],
            [
                did(0, at("x", 0, "a"), Send(key="y", value="a"), outcome="info"),
                did(1, at("x", 0, "b")),
            ],
        ),
    ],
    "duplicate": [
        (
            [did(0, at("x", 1, "a"), at("x", 2, "b")), did(2, polled("x", (2, "b"), (3, "a")))],
            [did(0, at("x", 1, "a"), at("x", 2, "b")), did(2, polled("x", (1, "a"), (2, "b")))],
        ),
        # What an aborted poll returned counts, the offset of a failed send does not.
        (
            [did(0, at("x", 1, "a")), did(1, polled("x", (11, "a")), outcome="fail")],
            [
                did(0, at("x", 1, "a"), outcome="fail"),
                did(1, polled("x", (11, "a")), outcome="fail"),
            ],
        ),
    ],
    "lost-write": [
        (
            [did(0, *sent("x", "a", "b", first=0)), did(1, polled("x", (1, "b")))],
            [did(0, *sent("x", "a", "b", first=0)), did(1, polled("x", (0, "a")))],
        ),
        # Of a transaction of unknown end one record was read: then the other should have been too.
        (
            [
                did(0, Send(key="x", value="a"), at("y", 0, "b"), outcome="info"),
                did(1, at("y", 1, "c"), outcome="info"),
                did(2, polled("x", (0, "a"))),
                did(3, polled("y", (1, "c"))),
            ],
            [
                did(0, Send(key="x", value="a"), at("y", 0, "b"), outcome="info"),
                did(1, at("y", 1, "c"), outcome="info"),
                did(3, polled("y", (1, "c"))),
            ],
        ),
        # It was overwritten, and the winner was read.
        (
            [
                did(0, at("x", 0, "a")),
                did(0, at("x", 0, "b"), at("x", 2, "c")),
                did(1, polled("x", (0, "b"), (2, "c"))),
            ],
            [did(0, at("x", 0, "b"), at("x", 2, "c")), did(1, polled("x", (0, "b"), (2, "c")))],
        ),
        # Who reads from offset 5 on has not passed offset 4.
        (
            [
                did(0, *sent("x", "a", "b", first=4)),
                did(1, Poll(records={"x": ((5, "b"),)}, from_offsets={"x": 4})),
            ],
            [
                did(0, *sent("x", "a", "b", first=4)),
                did(1, Poll(records={"x": ((5, "b"),)}, from_offsets={"x": 5})),
            ],
        ),
    ],
    "G1a": [
        (
            [did(0, *sent("x", "a"), outcome="fail"), did(1, polled("x", (0, "a")))],
            [did(0, *sent("x", "a"), outcome="info"), did(1, polled("x", (0, "a")))],
        )
    ],
    "precommitted-read": [
        (
            [did(0, at("x", 0, "a"), polled("x", (0, "a")))],
            [did(0, at("x", 0, "a"), polled("x")), did(0, polled("x", (0, "a")))],
        ),
        # The poll ended first, second, before the commit was asked for, and after it.
        (
            [did(1, polled("x", (0, "a"))), did(0, at("x", 0, "a"), commit_asked_at=1)],
            [did(1, polled("x", (0, "a"))), did(0, at("x", 0, "a"), commit_asked_at=0)],
        ),
    ],
    "poll-skip": [
        (
            [ABCD, did(1, polled("x", (1, "a"))), did(1, polled("x", (3, "c")))],
            [ABCD, did(1, polled("x", (1, "a"))), did(1, polled("x", (2, "b"), (3, "c")))],
        ),
        # A poll that failed is read again from where the last done one left off.
        (
            [
                ABCD,
                did(1, polled("x", (1, "a"))),
                did(1, polled("x", (2, "b")), outcome="fail"),
                did(1, polled("x", (3, "c"), (4, "d")), outcome="info"),
            ],
            [
                ABCD,
                did(1, polled("x", (1, "a"))),
                did(1, polled("x", (2, "b")), outcome="fail"),
                did(1, polled("x", (2, "b"), (3, "c")), outcome="info"),
                did(1, polled("x", (2, "b"), (3, "c"))),
            ],
        ),
        # An assign keeps the place in a key that it names, and in no other.
        (
            [
                ABCD,
                did(1, polled("x", (1, "a"))),
                chose(1, "assign", "x", "y"),
                did(1, polled("x", (3, "c"))),
            ],
            [
                ABCD,
                did(1, polled("x", (1, "a"))),
                chose(1, "assign", "y"),
                did(1, polled("x", (3, "c"))),
                did(2, polled("x", (2, "b"))),
            ],
        ),
    ],
    "nonmonotonic-poll": [
        (
            [
                ABCD,
                did(1, polled("x", (1, "a"), (2, "b"), (3, "c"))),
                did(1, polled("x", (2, "b"), (3, "c"))),
            ],
            [
                ABCD,
                did(1, polled("x", (1, "a"), (2, "b"), (3, "c"))),
                did(2, polled("x", (2, "b"), (3, "c"))),
            ],
        )
    ],
    "int-poll-skip": [
        (
            [LOOSE, did(1, polled("x", (1, "a"), (4, "d"))), did(2, polled("x", (2, "b")))],
            [LOOSE, did(1, polled("x", (1, "a"), (4, "d"))), did(2, polled("x", (4, "d")))],
        ),
        (
            [
                LOOSE,
                did(1, polled("x", (1, "a")), polled("x", (4, "d"))),
                did(2, polled("x", (2, "b"))),
            ],
            [
                LOOSE,
                did(1, polled("x", (1, "a")), polled("x", (4, "d")), rebalanced=frozenset({"x"})),
                did(2, polled("x", (2, "b"))),
            ],
        ),
    ],
    "int-nonmonotonic-poll": [
        (
            [LOOSE, did(1, polled("x", (3, "c"), (1, "a")))],
            [LOOSE, did(1, polled("x", (1, "a"), (3, "c")))],
        ),
        (
            [LOOSE, did(1, polled("x", (3, "c")), polled("x", (3, "c")))],
            [LOOSE, did(1, polled("x", (3, "c")), polled("x"))],
        ),
    ],
    "nonmonotonic-send": [
        (
            [did(0, *sent("x", "c", "d", first=3)), did(0, *sent("x", "a", "b", first=1))],
            [did(0, *sent("x", "c", "d", first=3)), did(1, *sent("x", "a", "b", first=1))],
        ),
        (
            [
                did(0, *sent("x", "c", first=3)),
                chose(0, "subscribe", "x"),
                did(0, *sent("x", "a", first=1)),
            ],
            [
                did(0, *sent("x", "c", first=3)),
                chose(0, "subscribe", "y"),
                did(0, *sent("x", "a", first=1)),
            ],
        ),
    ],
    "int-nonmonotonic-send": [
        ([did(0, at("x", 3, "c"), at("x", 1, "a"))], [did(0, at("x", 1, "c"), at("x", 3, "a"))]),
        # Where it was sent to is only known by who read it.
        (
            [did(0, *sent("x", "d", "b"), outcome="info"), did(1, polled("x", (2, "b"), (4, "d")))],
            [did(0, *sent("x", "b", "d"), outcome="info"), did(1, polled("x", (2, "b"), (4, "d")))],
        ),
    ],
    "int-send-skip": [
        (
            [did(0, at("x", 1, "a"), at("x", 3, "c")), did(1, at("x", 2, "b"))],
            [did(0, at("x", 1, "a"), at("x", 3, "c")), did(1, at("x", 4, "b"))],
        )
    ],
    "G0": [
        (
            [did(0, at("x", 0, "a"), at("y", 1, "a")), did(1, at("x", 1, "b"), at("y", 0, "b"))],
            [did(0, at("x", 0, "a"), at("y", 0, "a")), did(1, at("x", 1, "b"), at("y", 1, "b"))],
        )
    ],
    "G1c": [
        (
            [
                did(0, at("x", 0, "a"), polled("y", (0, "b"))),
                did(1, at("y", 0, "b"), polled("x", (0, "a"))),
            ],
            [did(0, at("x", 0, "a"), polled("y")), did(1, at("y", 0, "b"), polled("x", (0, "a")))],
        ),
        # Three in a circle, of which two edges are reads and one is the order of writes.
        (
            [
                did(0, at("x", 0, "a"), at("z", 1, "a")),
                did(1, at("y", 0, "b"), polled("x", (0, "a"))),
                did(2, at("z", 0, "c"), polled("y", (0, "b"))),
            ],
            [
                did(0, at("x", 0, "a"), at("z", 0, "a")),
                did(1, at("y", 0, "b"), polled("x", (0, "a"))),
                did(2, at("z", 1, "c"), polled("y", (0, "b"))),
            ],
        ),
    ],
}
CASES = [
    pytest.param(name, planted, clean, id=f"{name}-{number}")
    for name, pairs in PAIRS.items()
    for number, (planted, clean) in enumerate(pairs)
]


@pytest.mark.parametrize(("name", "planted", "clean"), CASES)
def test_what_was_planted_is_found_and_what_is_like_it_passes(
    name: str, planted: list[HistoryOperation], clean: list[HistoryOperation]
) -> None:
    assert names(*planted).get(name) == 1
    assert names(*clean) == {}


def test_unseen_is_what_nobody_has_read_at_the_end() -> None:
    read = did(1, polled("x", (1, "a"), (2, "b"), (3, "c"), (4, "d")))
    assert judged(ABCD, read) == []

    (anomaly,) = judged(ABCD, did(1, polled("x", (1, "a"))))

    assert (anomaly.name, anomaly.key, anomaly.values) == ("unseen", "x", ("b", "c", "d"))
    assert (anomaly.first_offset, anomaly.last_offset) == (2, 4)
    assert "'b', 'c' and 'd' of key x" in anomaly.message


def test_every_anomaly_is_a_kind_of_finding_and_only_what_kafka_permits_is_no_fault() -> None:
    assert {*PAIRS, "unseen"} <= set(KINDS)
    harmless = {name for name in {*PAIRS, "unseen"} if KINDS[name].question.value == "neither"}
    # Kafka mixes the records of several transactions in a log.
    assert harmless == {"G0", "int-send-skip"}


def test_a_lost_write_names_who_sent_it_and_who_read_beyond() -> None:
    (lost, *_) = judged(
        did(0, *sent("x", "a", "b", first=0)), did(1, polled("x", (1, "b"))), did(2, polled("y"))
    )
    assert (lost.operations, lost.values, lost.first_offset) == ((0, 1), ("a",), 0)
    assert "operation 0" in lost.message


def test_a_skip_says_what_was_passed_over_and_how_far() -> None:
    told = judged(ABCD, did(1, polled("x", (1, "a"))), did(1, polled("x", (4, "d"))))
    (skip,) = (anomaly for anomaly in told if anomaly.name == "poll-skip")
    assert skip.evidence == {"delta": 3, "skipped": ["b", "c"]}
    assert (skip.values, skip.operations, skip.permitted) == (("a", "d"), (1, 2), "")


def test_gaps_that_nobody_ever_saw_a_value_at_are_no_skip() -> None:
    """Markers of transactions take offsets, and no client ever sees them."""
    assert (
        judged(
            did(0, at("x", 1, "a"), at("x", 7, "b")),
            did(1, polled("x", (1, "a"))),
            did(1, polled("x", (7, "b"))),
        )
        == []
    )


def test_who_subscribes_may_be_rebalanced_between_two_polls() -> None:
    told = judged(
        chose(1, "subscribe", "x"),
        ABCD,
        did(1, polled("x", (1, "a"), (3, "c"))),
        did(1, polled("x", (2, "b"), (4, "d"))),
    )
    permitted = {anomaly.name: anomaly.permitted for anomaly in told}
    assert permitted["nonmonotonic-poll"] == REBALANCED
    assert permitted["int-poll-skip"] == ""


def test_a_circle_that_needs_the_order_of_writes_is_permitted() -> None:
    planted = PAIRS["G1c"][1][0]
    (circle,) = (anomaly for anomaly in judged(*planted) if anomaly.name == "G1c")
    assert (circle.permitted, circle.operations) == (NOT_KEPT_APART, (0, 1, 2))

    (circle,) = (anomaly for anomaly in judged(*PAIRS["G1c"][0][0]) if anomaly.name == "G1c")
    assert (circle.permitted, circle.operations) == ("", (0, 1))
    assert circle.message == (
        "operation 0, which sent 'a' to key x, which was read by operation 1, "
        "which sent 'b' to key y, which was read by operation 0"
    )


@pytest.mark.slow
def test_a_circle_of_thousands_of_transactions_is_found() -> None:
    """No recursion: each transaction reads what the one before sent, and the first the last."""
    many = 5_000
    told = names(
        *(
            did(number, at(f"k{number}", 0, 1), polled(f"k{(number - 1) % many}", (0, 1)))
            for number in range(many)
        )
    )
    assert told == {"G1c": 1}


def test_conflicting_values_leave_an_order_of_those_that_are_certain() -> None:
    history = [
        did(0, polled("x", (0, "a"), (1, "b"))),
        did(1, at("x", 1, "c"), at("x", 3, "b"), at("x", 4, "d"), outcome="info"),
    ]
    order = version_orders(history, values_read(history))["x"]
    assert order.log == {0: ["a"], 1: ["b", "c"], 3: ["b"], 4: ["d"]}
    assert order.offsets == [0, 1, 3, 4]
    assert (order.first_index["b"], order.last_index["b"]) == (1, 2)


def test_many_values_at_the_same_two_offsets_are_each_a_duplicate() -> None:
    told = judged(
        *(
            operation
            for value in range(10)
            for operation in (did(0, at("x", 0, value)), did(1, polled("x", (1, value))))
        )
    )
    duplicates = [anomaly for anomaly in told if anomaly.name == "duplicate"]
    conflicts = [anomaly for anomaly in told if anomaly.name == "inconsistent-offsets"]
    assert sorted(anomaly.values for anomaly in duplicates) == [(value,) for value in range(10)]
    assert [anomaly.first_offset for anomaly in conflicts] == [0, 1]


def test_a_value_without_a_sender_and_one_with_two_are_doubts() -> None:
    assert [*doubts([ABCD, did(1, polled("x", (1, "a")))])] == []
    (unsent,) = doubts([did(1, polled("x", (1, "a")))])
    assert "no producer sent it" in unsent
    (twice,) = doubts([did(0, *sent("x", "a")), did(1, *sent("x", "a"))])
    assert "sent twice" in twice
