"""Changes to what every replica holds alike, at every snapshot: only what was sent tells them."""

import struct
from collections.abc import Callable

from tests.mutants.kinds import add, kind
from tests.mutants.kinds_bytes import begin_later
from tests.mutants.run_copy import NotApplicableError, RunCopy
from tests.mutants.segment_edits import (
    change,
    compressed,
    field_of,
    flip,
    magic_of,
    on_all_replicas,
    record,
    resealed,
    rewrite,
    split,
    values_of,
    with_changed_payload,
    with_field,
    with_records,
)


def _all(name: str, edit: Callable[[bytes], bytes]) -> None:
    add(f"alike: {name}", lambda run: on_all_replicas(run, edit))


_DAY_MS = 86_400_000
_all("the value", with_changed_payload)
_all("the leader epoch", change("partitionLeaderEpoch", lambda e: e + 1))
_all("the transactional bit", flip(0x10))
_all("the control bit", flip(0x20))
_all("the timestamp type", flip(0x08))
_all("a spare attribute", flip(0x80))
_all("the first timestamp", change("baseTimestamp", lambda t: t - _DAY_MS))
_all("the last timestamp", change("maxTimestamp", lambda t: t + _DAY_MS))
_all(
    "both timestamps, a second later",
    lambda entry: with_field(
        with_field(entry, "maxTimestamp", lambda t: t + 1000), "baseTimestamp", lambda t: t + 1000
    ),
)
_all("the producer id", change("producerId", lambda _: 77))
_all("the producer epoch", change("producerEpoch", lambda _: 3))
_all("the sequence", change("baseSequence", lambda _: 5))
_all("the codec", compressed)
_all("a header", rewrite(headers=[("h", b"x")]))
_all("a key", rewrite(key=b"k"))
_all("an attribute of a record", rewrite(attributes=1))
_all("the value, null", rewrite(value=None))


@kind("alike: the timestamp of a message")
def _timestamp_of_a_message(run: RunCopy) -> str:
    def later(first: bytes) -> bytes:
        if magic_of(first) != 1:
            raise NotApplicableError("the entry is no message of magic 1")
        (time,) = struct.unpack_from(">q", first, 18)
        return resealed(first[:18] + struct.pack(">q", time + _DAY_MS) + first[26:])

    return on_all_replicas(run, later)


def _every_log(run: RunCopy, edit: Callable[[list[bytes]], list[bytes]], *, final: bool) -> str:
    name, _ = run.state_of_final()
    where = run.final() if final else "*"
    logs = [
        name_of_file
        for name_of_file in run.names(f"snapshots/{where}/broker-*/{name}/*.log")
        if run.content(name_of_file)
    ]
    for log in logs:
        run.write(log, b"".join(edit(split(run.content(log)))))
    return f"{len(logs)} logs of {name}"


add(
    "alike: the last batch is gone", lambda run: _every_log(run, lambda seen: seen[:-1], final=True)
)
add(
    "alike: the first batch is gone",
    lambda run: _every_log(run, lambda seen: seen[1:], final=False),
)


@kind("alike: the log begins later")
def _later(run: RunCopy) -> str:
    name, _ = run.state_of_final()
    logs = [
        name_of_file
        for name_of_file in run.names(f"snapshots/*/broker-*/{name}/*.log")
        if run.content(name_of_file)
    ]
    if any(len(split(run.content(log))) < 2 for log in logs):
        raise NotApplicableError("a log has one entry alone")
    for log in logs:
        begin_later(run, log)
    return f"{len(logs)} logs of {name}"


@kind("alike: the log begins later at the end")
def _later_at_the_end(run: RunCopy) -> str:
    name, _ = run.state_of_final()
    logs = run.names(f"snapshots/{run.final()}/broker-*/{name}/*.log")
    for log in logs:
        begin_later(run, log)
    return f"{len(logs)} logs of {name}"


@kind("alike: a batch more than anybody wrote")
def _more(run: RunCopy) -> str:
    def more(seen: list[bytes]) -> list[bytes]:
        last = seen[-1]
        count = field_of(last, "lastOffsetDelta") + 1 if magic_of(last) == 2 else 1
        (offset,) = struct.unpack_from(">q", last)
        return [*seen, struct.pack(">q", offset + count) + last[8:]]

    return _every_log(run, more, final=True)


@kind("alike: two batches are one")
def _merged(run: RunCopy) -> str:
    def merged(seen: list[bytes]) -> list[bytes]:
        if len(seen) < 2:
            return seen
        both = [*values_of(seen[0]), *values_of(seen[1])]
        return [with_records(seen[0], [record(v, i) for i, v in enumerate(both)]), *seen[2:]]

    return _every_log(run, merged, final=False)


@kind("alike: one batch is two")
def _split(run: RunCopy) -> str:
    def parted(seen: list[bytes]) -> list[bytes]:
        first, *rest = seen
        values = values_of(first)
        if len(values) < 2:
            raise NotApplicableError("the batch has one record")
        head = with_records(first, [record(values[0], 0)])
        tail = with_records(first, [record(v, i) for i, v in enumerate(values[1:])])
        (offset,) = struct.unpack_from(">q", first)
        return [head, struct.pack(">q", offset + 1) + tail[8:], *rest]

    return _every_log(run, parted, final=False)
