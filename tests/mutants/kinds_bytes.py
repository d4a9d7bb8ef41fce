"""Changes to the bytes of one in-sync replica's log in the last snapshot."""

import struct
from collections.abc import Callable

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy
from tests.mutants.segment_edits import (
    change,
    compressed,
    edit_entry,
    edit_segment,
    field_of,
    flip,
    magic_of,
    resealed,
    rewrite,
    segment_of,
    split,
    with_changed_payload,
)

_TRANSACTIONAL, _CONTROL, _LOG_APPEND_TIME = 0x10, 0x20, 0x08


def _segment(run: RunCopy) -> str:
    return segment_of(run, run.in_sync_directory())


def _entry(name: str, edit: Callable[[bytes], bytes]) -> None:
    add(f"bytes: {name}", lambda run: edit_entry(run, _segment(run), edit))


def _list(name: str, edit: Callable[[list[bytes]], list[bytes]], *, at_least: int = 1) -> None:
    def mutate(run: RunCopy) -> str:
        segment = _segment(run)
        if len(split(run.content(segment))) < at_least:
            raise NotApplicableError(f"there are fewer than {at_least} entries")
        return edit_segment(run, segment, edit)

    add(f"bytes: {name}", mutate)


def _raw(entry: bytes, at: int, change: Callable[[int], int]) -> bytes:
    body = bytearray(entry)
    body[at] = change(body[at]) & 0xFF
    return bytes(body)


def _offset(entry: bytes, by: int) -> bytes:
    return struct.pack(">q", struct.unpack_from(">q", entry)[0] + by) + entry[8:]


_entry("a bit under the checksum", lambda entry: _raw(entry, -1, lambda byte: byte ^ 4))
_entry(
    "the checksum", lambda entry: _raw(entry, 18 if magic_of(entry) == 2 else 13, lambda b: b ^ 1)
)
_entry("the length", lambda entry: _raw(entry, 11, lambda byte: byte + 1))
_entry("the magic", lambda entry: _raw(entry, 16, lambda byte: byte + 1))
_entry("the magic, with a checksum", lambda entry: resealed(_raw(entry, 16, lambda byte: byte ^ 1)))
_entry("the value", with_changed_payload)
_entry("the base offset, up", lambda entry: _offset(entry, 1))
_entry("the base offset, down", lambda entry: _offset(entry, -1))
_entry("the base offset, to the largest", lambda entry: struct.pack(">q", 2**63 - 1) + entry[8:])
_entry("the base offset, negative", lambda entry: struct.pack(">q", -5) + entry[8:])
_entry("the leader epoch, up", change("partitionLeaderEpoch", lambda e: e + 1))
_entry("the leader epoch, -1", change("partitionLeaderEpoch", lambda _: -1))
_entry("the codec", flip(1))
_entry("an unknown codec", change("attributes", lambda flags: flags | 7))
_entry("a spare attribute", change("attributes", lambda flags: flags | 0x80))
_entry("the transactional bit", flip(_TRANSACTIONAL))
_entry("the control bit", flip(_CONTROL))
_entry("the timestamp type", flip(_LOG_APPEND_TIME))
_entry("the first timestamp", change("baseTimestamp", lambda t: t - 1000))
_entry("the last timestamp", change("maxTimestamp", lambda t: t + 1000))
_entry("the producer id", change("producerId", lambda _: 77))
_entry("the producer epoch", change("producerEpoch", lambda _: 3))
_entry("the sequence", change("baseSequence", lambda _: 5))
_entry("the last offset", change("lastOffsetDelta", lambda delta: delta + 1))
_entry("the last offset, negative", change("lastOffsetDelta", lambda _: -2))
_entry("the record count, up", change("records count", lambda n: n + 1))
_entry("the record count, zero", change("records count", lambda _: 0))
_entry("a header", rewrite(headers=[("h", b"x")]))
_entry("a key", rewrite(key=b"k"))
_entry("an attribute of a record", rewrite(attributes=1))
_entry("the value, empty", rewrite(value=b""))
_entry("the value, null", rewrite(value=None))
_entry(
    "the same records, compressed", lambda entry: compressed(entry) if magic_of(entry) == 2 else b""
)
_list("the first batch is gone", lambda batches: batches[1:])
_list(
    "a middle batch is gone",
    lambda batches: batches[: len(batches) // 2] + batches[len(batches) // 2 + 1 :],
    at_least=3,
)
_list("the last batch is gone", lambda batches: batches[:-1])
_list("a batch is there twice", lambda batches: [*batches, batches[-1]])
_list("the first batch comes twice", lambda batches: [batches[0], *batches])
_list("two batches changed places", lambda f: [*f[:-2], f[-1], f[-2]], at_least=2)
_list("half a batch at the end", lambda batches: [*batches, _offset(batches[-1], 1)[:30]])
_list("the last batch is cut short", lambda batches: [*batches[:-1], batches[-1][:-3]])
_list("garbage at the end", lambda batches: [*batches, b"\xde\xad\xbe\xef" * 20])
_list("garbage at the beginning", lambda batches: [b"\xde\xad\xbe\xef" * 20, *batches])
_list("zeros at the end", lambda batches: [*batches, bytes(100)])
_list("zeros between batches", lambda f: [*f[:-1], bytes(80), f[-1]], at_least=2)
_list("the order is reversed", lambda batches: batches[::-1], at_least=2)


@kind("bytes: a batch more than anybody wrote")
def _one_more(run: RunCopy) -> str:
    def more(seen: list[bytes]) -> list[bytes]:
        last = seen[-1]
        return [*seen, _offset(last, field_of(last, "lastOffsetDelta") + 1 if _is_two(last) else 1)]

    return edit_segment(run, _segment(run), more)


add("bytes: the segment is gone", lambda run: run.remove(_segment(run)))
add("bytes: the segment is empty", lambda run: run.write(_segment(run), b""))


@kind("bytes: the segment has another name")
def _renamed(run: RunCopy) -> str:
    name = _segment(run)
    content = run.content(name)
    run.remove(name)
    return run.write(f"{name.rpartition('/')[0]}/{5:020d}.log", content)


@kind("bytes: the segment's name is no offset")
def _misnamed(run: RunCopy) -> str:
    name = _segment(run)
    content = run.content(name)
    return run.write(f"{name.rpartition('/')[0]}/first.log", content)


add("bytes: the log begins later on one replica", lambda run: begin_later(run, _segment(run)))


@kind("bytes: the segment in two, at a batch edge", harmless=True)
def _in_two(run: RunCopy) -> str:
    name = _segment(run)
    broker = name.split("/")[2].removeprefix("broker-")
    run.edit_json(
        f"snapshots/{run.final()}/snapshot.json",
        lambda value: value["brokers"][broker].update(files=value["brokers"][broker]["files"] + 1),
    )
    parts = split(run.content(name))
    if len(parts) < 2:
        raise NotApplicableError("there is one entry alone")
    (offset,) = struct.unpack_from(">q", parts[-1])
    run.write(f"{name.rpartition('/')[0]}/{offset:020d}.log", parts[-1])
    return run.write(name, b"".join(parts[:-1]))


def begin_later(run: RunCopy, name: str) -> str:
    """Leave out the first entry of a segment and name it after the second."""
    parts = split(run.content(name))
    if len(parts) < 2:
        raise NotApplicableError("there is one entry alone")
    (offset,) = struct.unpack_from(">q", parts[1])
    run.remove(name)
    return run.write(f"{name.rpartition('/')[0]}/{offset:020d}.log", b"".join(parts[1:]))


def _is_two(entry: bytes) -> bool:
    return magic_of(entry) == 2
