"""Each anomaly: a history in which it was planted, and one like it without it that must pass.

A history is written as its operations with " | " between them: a process, what it sent (KEY=VALUE,
KEY:OFFSET=VALUE if the offset is known) and polled (KEY[OFFSET:VALUE ...], of a poll that was asked
to read from an offset KEY[... from OFFSET]), and how it ended if that is not ok.
"""

import re
from collections import Counter
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
from kchaos.checkers.histories.operations import HistoryOperation, Poll, Send
from kchaos.checkers.histories.version_order import values_read, version_orders

_ACTION = re.compile(r"(\w+)(?::(\d+))?=(\w+)|(\w+)\[([^]]*?)(?: ?from (\d+))?\]")


def history(text: str) -> list[HistoryOperation]:
    return [_operation(index, each) for index, each in enumerate(text.split(" | "))]


def _operation(index: int, text: str) -> HistoryOperation:
    process, *words = text.split()
    named: dict[str, Any] = {"index": index, "process": process, "outcome": "ok"}
    if words[0] in ("assign", "subscribe"):
        return HistoryOperation(function=words[0], keys=tuple(words[1:]), **named)  # type: ignore[arg-type]
    actions: list[Send | Poll] = []
    for key, offset, value, polled, records, first in _ACTION.findall(text):
        if key:
            actions.append(Send(key=key, value=value, offset=int(offset) if offset else None))
            continue
        pairs = (record.split(":") for record in records.split())
        read = {polled: tuple((int(at), value) for at, value in pairs)}
        actions.append(Poll(records=read, from_offsets={polled: int(first)} if first else {}))
    if words[-1] in ("fail", "info"):
        named["outcome"] = words[-1]
    if asked := re.search(r"commit asked at (\d+)", text):
        named["commit_asked_at"] = int(asked[1])
    if moved := re.search(r"(\w+) rebalanced", text):
        named["rebalanced"] = frozenset({moved[1]})
    return HistoryOperation(function="txn", actions=tuple(actions), **named)


def judged(text: str) -> list[Anomaly]:
    return anomalies(history(text))


def names(text: str) -> dict[str, int]:
    """The anomalies by name, without what is only not read yet."""
    told = Counter(anomaly.name for anomaly in judged(text))
    del told["unseen"]
    return dict(told)


ABCD = "0 x:1=a x:2=b x:3=c x:4=d"
LOOSE = "0 x=a x=b x=c x=d"
READ = "1 x[1:a] x[4:d]"
CIRCLE = "0 x:0=a y[0:b] | 1 y:0=b x[0:a]"
BY_WRITES = "0 x:0=a z:1=a | 1 y:0=b x[0:a] | 2 z:0=c y[0:b]"

# By the anomaly's name; the first history has it, and the second is like it without it.
PAIRS = [
    ("inconsistent-offsets", "0 x:4=a | 1 x:4=b", "0 x:4=a | 1 x:5=b"),
    # A send of unknown end: only a read of its other record shows that it is there.
    ("inconsistent-offsets", "0 x:0=a y=a info | 1 x:0=b | 2 y[5:a]", "0 x:0=a y=a info | 1 x:0=b"),
    ("duplicate", "0 x:1=a x:2=b | 2 x[2:b 3:a]", "0 x:1=a x:2=b | 2 x[1:a 2:b]"),
    # What an aborted poll returned counts, the offset of a failed send does not.
    ("duplicate", "0 x:1=a | 1 x[11:a] fail", "0 x:1=a fail | 1 x[11:a] fail"),
    ("lost-write", "0 x:0=a x:1=b | 1 x[1:b]", "0 x:0=a x:1=b | 1 x[0:a]"),
    # Of a transaction of unknown end one record was read: then the other should have been too.
    (
        "lost-write",
        "0 x=a y:0=b info | 1 y:1=c info | 2 x[0:a] | 3 y[1:c]",
        "0 x=a y:0=b info | 1 y:1=c info | 3 y[1:c]",
    ),
    # It was overwritten, and the winner was read.
    ("lost-write", "0 x:0=a | 0 x:0=b x:2=c | 1 x[0:b 2:c]", "0 x:0=b x:2=c | 1 x[0:b 2:c]"),
    # Who reads from offset 5 on has not passed offset 4.
    ("lost-write", "0 x:4=a x:5=b | 1 x[5:b from 4]", "0 x:4=a x:5=b | 1 x[5:b from 5]"),
    ("G1a", "0 x=a fail | 1 x[0:a]", "0 x=a info | 1 x[0:a]"),
    ("precommitted-read", "0 x:0=a x[0:a]", "0 x:0=a x[] | 0 x[0:a]"),
    # The poll ended first, second, before the commit was asked for, and after it.
    (
        "precommitted-read",
        "1 x[0:a] | 0 x:0=a, commit asked at 1",
        "1 x[0:a] | 0 x:0=a, commit asked at 0",
    ),
    ("poll-skip", f"{ABCD} | 1 x[1:a] | 1 x[3:c]", f"{ABCD} | 1 x[1:a] | 1 x[2:b 3:c]"),
    # A poll that failed is read again from where the last done one left off.
    (
        "poll-skip",
        f"{ABCD} | 1 x[1:a] | 1 x[2:b] fail | 1 x[3:c 4:d] info",
        f"{ABCD} | 1 x[1:a] | 1 x[2:b] fail | 1 x[2:b 3:c] info | 1 x[2:b 3:c]",
    ),
    # An assign keeps the place in a key that it names, and in no other.
    (
        "poll-skip",
        f"{ABCD} | 1 x[1:a] | 1 assign x y | 1 x[3:c]",
        f"{ABCD} | 1 x[1:a] | 1 assign y | 1 x[3:c] | 2 x[2:b]",
    ),
    (
        "nonmonotonic-poll",
        f"{ABCD} | 1 x[1:a 2:b 3:c] | 1 x[2:b 3:c]",
        f"{ABCD} | 1 x[1:a 2:b 3:c] | 2 x[2:b 3:c]",
    ),
    ("int-poll-skip", f"{LOOSE} | 1 x[1:a 4:d] | 2 x[2:b]", f"{LOOSE} | 1 x[1:a 4:d] | 2 x[4:d]"),
    ("int-poll-skip", f"{LOOSE} | {READ} | 2 x[2:b]", f"{LOOSE} | {READ}, x rebalanced | 2 x[2:b]"),
    ("int-nonmonotonic-poll", f"{LOOSE} | 1 x[3:c 1:a]", f"{LOOSE} | 1 x[1:a 3:c]"),
    ("int-nonmonotonic-poll", f"{LOOSE} | 1 x[3:c] x[3:c]", f"{LOOSE} | 1 x[3:c] x[]"),
    ("nonmonotonic-send", "0 x:3=c x:4=d | 0 x:1=a x:2=b", "0 x:3=c x:4=d | 1 x:1=a x:2=b"),
    ("nonmonotonic-send", "0 x:3=c | 0 subscribe x | 0 x:1=a", "0 x:3=c | 0 subscribe y | 0 x:1=a"),
    ("int-nonmonotonic-send", "0 x:3=c x:1=a", "0 x:1=c x:3=a"),
    # Where it was sent to is only known by who read it.
    ("int-nonmonotonic-send", "0 x=d x=b info | 1 x[2:b 4:d]", "0 x=b x=d info | 1 x[2:b 4:d]"),
    ("int-send-skip", "0 x:1=a x:3=c | 1 x:2=b", "0 x:1=a x:3=c | 1 x:4=b"),
    ("G0", "0 x:0=a y:1=a | 1 x:1=b y:0=b", "0 x:0=a y:0=a | 1 x:1=b y:1=b"),
    ("G1c", CIRCLE, "0 x:0=a y[] | 1 y:0=b x[0:a]"),
    # Three in a circle, of which two edges are reads and one is the order of writes.
    ("G1c", BY_WRITES, "0 x:0=a z:0=a | 1 y:0=b x[0:a] | 2 z:1=c y[0:b]"),
]


@pytest.mark.parametrize(("name", "planted", "clean"), PAIRS)
def test_what_was_planted_is_found_and_what_is_like_it_passes(name: str, planted: str, clean: str):
    assert names(planted).get(name) == 1
    assert names(clean) == {}


def test_unseen_is_what_nobody_has_read_at_the_end():
    assert judged(f"{ABCD} | 1 x[1:a 2:b 3:c 4:d]") == []

    (anomaly,) = judged(f"{ABCD} | 1 x[1:a]")

    assert (anomaly.name, anomaly.key, anomaly.values) == ("unseen", "x", ("b", "c", "d"))
    assert (anomaly.first_offset, anomaly.last_offset) == (2, 4)
    assert "'b', 'c' and 'd' of key x" in anomaly.message


def test_every_anomaly_is_a_kind_of_finding_and_only_what_kafka_permits_is_no_fault():
    known = {"unseen", *(name for name, _, _ in PAIRS)}
    assert known <= set(KINDS)
    # Kafka mixes the records of several transactions in a log.
    harmless = {name for name in known if KINDS[name].question.value == "neither"}
    assert harmless == {"G0", "int-send-skip"}


def test_a_lost_write_names_who_sent_it_and_who_read_beyond():
    (lost, *_) = judged("0 x:0=a x:1=b | 1 x[1:b] | 2 y[]")
    assert (lost.operations, lost.values, lost.first_offset) == ((0, 1), ("a",), 0)
    assert "operation 0" in lost.message


def test_a_skip_says_what_was_passed_over_and_how_far():
    told = judged(f"{ABCD} | 1 x[1:a] | 1 x[4:d]")
    (skip,) = (anomaly for anomaly in told if anomaly.name == "poll-skip")
    assert skip.evidence == {"delta": 3, "skipped": ["b", "c"]}
    assert (skip.values, skip.operations, skip.permitted) == (("a", "d"), (1, 2), "")


def test_gaps_that_nobody_ever_saw_a_value_at_are_no_skip():
    """Markers of transactions take offsets, and no client ever sees them."""
    assert judged("0 x:1=a x:7=b | 1 x[1:a] | 1 x[7:b]") == []


def test_who_subscribes_may_be_rebalanced_between_two_polls():
    told = judged(f"1 subscribe x | {ABCD} | 1 x[1:a 3:c] | 1 x[2:b 4:d]")
    permitted = {anomaly.name: anomaly.permitted for anomaly in told}
    assert permitted["nonmonotonic-poll"] == REBALANCED
    assert permitted["int-poll-skip"] == ""


def test_a_circle_that_needs_the_order_of_writes_is_permitted():
    (circle,) = (anomaly for anomaly in judged(BY_WRITES) if anomaly.name == "G1c")
    assert (circle.permitted, circle.operations) == (NOT_KEPT_APART, (0, 1, 2))

    (circle,) = (anomaly for anomaly in judged(CIRCLE) if anomaly.name == "G1c")
    assert (circle.permitted, circle.operations) == ("", (0, 1))
    assert circle.message == (
        "operation 0, which sent 'a' to key x, which was read by operation 1, "
        "which sent 'b' to key y, which was read by operation 0"
    )


@pytest.mark.slow
def test_a_circle_of_thousands_of_transactions_is_found():
    """No recursion: each transaction reads what the one before sent, and the first the last."""
    many = 5_000
    operations = (f"{each} k{each}:0=1 k{(each - 1) % many}[0:1]" for each in range(many))
    assert names(" | ".join(operations)) == {"G1c": 1}


def test_conflicting_values_leave_an_order_of_those_that_are_certain():
    operations = history("0 x[0:a 1:b] | 1 x:1=c x:3=b x:4=d info")
    order = version_orders(operations, values_read(operations))["x"]
    assert order.log == {0: ["a"], 1: ["b", "c"], 3: ["b"], 4: ["d"]}
    assert order.offsets == [0, 1, 3, 4]
    assert (order.first_index["b"], order.last_index["b"]) == (1, 2)


def test_many_values_at_the_same_two_offsets_are_each_a_duplicate():
    told = judged(" | ".join(f"0 x:0={value} | 1 x[1:{value}]" for value in range(10)))
    duplicates = [anomaly for anomaly in told if anomaly.name == "duplicate"]
    conflicts = [anomaly for anomaly in told if anomaly.name == "inconsistent-offsets"]
    assert sorted(anomaly.values for anomaly in duplicates) == [
        (str(value),) for value in range(10)
    ]
    assert [anomaly.first_offset for anomaly in conflicts] == [0, 1]


def test_a_value_without_a_sender_and_one_with_two_are_doubts():
    assert [*doubts(history(f"{ABCD} | 1 x[1:a]"))] == []
    (unsent,) = doubts(history("1 x[1:a]"))
    assert "no producer sent it" in unsent
    (twice,) = doubts(history("0 x=a | 1 x=a"))
    assert "sent twice" in twice
