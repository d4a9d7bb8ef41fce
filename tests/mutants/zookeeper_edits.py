"""ZooKeeper's transaction log taken apart, edited, and put together with right checksums."""

import json
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.mutants.run_copy import NotApplicableError, RunCopy

_HEADER_BYTES = 16
_HEADER = struct.Struct(">qiqqi")
CREATE, DELETE, SET, MULTI, CREATE2, CLOSE = 1, 2, 5, 14, 15, -11
_ACL = struct.pack(">ii", 1, 31) + b"\0\0\0\5world\0\0\0\6anyone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction; the body is as it is in the log."""

    session: int
    cxid: int
    zxid: int
    time_ms: int
    type: int
    body: bytes


def log_name(run: RunCopy) -> str:
    """The log with which a run's only member began."""
    names = run.names("zookeeper/member-*/log.*")
    if len(names) != 1:
        raise NotApplicableError(f"there are {len(names)} transaction logs, not one")
    return names[0]


def transactions(run: RunCopy) -> list[Transaction]:
    """The transactions of the run's log."""
    content = run.content(log_name(run))
    position = _HEADER_BYTES
    collected = []
    while position + 12 <= len(content):
        (length,) = struct.unpack_from(">i", content, position + 8)
        if length <= 0:
            break
        body = content[position + 12 : position + 12 + length]
        session, cxid, zxid, time_ms, kind = _HEADER.unpack_from(body)
        collected.append(
            Transaction(
                session=session,
                cxid=cxid,
                zxid=zxid,
                time_ms=time_ms,
                type=kind,
                body=body[_HEADER.size :],
            )
        )
        position += 12 + length + 1
    return collected


def write(run: RunCopy, seen: list[Transaction]) -> str:
    """Put these transactions into the run's log."""
    name = log_name(run)
    content = run.content(name)[:_HEADER_BYTES]
    for each in seen:
        body = _HEADER.pack(each.session, each.cxid, each.zxid, each.time_ms, each.type) + each.body
        content += struct.pack(">qi", zlib.adler32(body), len(body)) + body + b"\x42"
    return run.write(name, content)


def _text(body: bytes, at: int) -> tuple[bytes, int]:
    (length,) = struct.unpack_from(">i", body, at)
    return body[at + 4 : at + 4 + max(length, 0)], at + 4 + max(length, 0)


def _packed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def writes(seen: list[Transaction]) -> Iterator[tuple[int, int | None, int, str, bytes]]:
    """Each write: index, part of a multi (or None), type, path, data."""
    for index, each in enumerate(seen):
        for part, kind, body in _parts(each):
            if kind in (CREATE, CREATE2, SET):
                path, at = _text(body, 0)
                yield index, part, kind, path.decode(), _text(body, at)[0]


def _parts(transaction: Transaction) -> Iterator[tuple[int | None, int, bytes]]:
    if transaction.type != MULTI:
        yield None, transaction.type, transaction.body
        return
    (count,) = struct.unpack_from(">i", transaction.body)
    at = 4
    for part in range(count):
        (kind,) = struct.unpack_from(">i", transaction.body, at)
        body, at = _text(transaction.body, at + 4)
        yield part, kind, body


def _with_body(
    transaction: Transaction, part: int | None, change: Callable[[bytes], bytes]
) -> Transaction:
    if part is None:
        return replace(transaction, body=change(transaction.body))
    packed = b""
    end = 4
    for number, kind, body in _parts(transaction):
        end += 8 + len(body)
        packed += struct.pack(">i", kind) + _packed(change(body) if number == part else body)
    return replace(transaction, body=transaction.body[:4] + packed + transaction.body[end:])


def edit_data(
    run: RunCopy, suffix: str, edit: Callable[[dict[str, Any]], object], *, last: bool = False
) -> str:
    """Change the JSON that a drawn write (or the last one) puts into a znode of such a path."""

    def change(body: bytes) -> bytes:
        path, at = _text(body, 0)
        data, end = _text(body, at)
        value, before = json.loads(data), json.loads(data)
        edit(value)
        if value == before:
            raise NotApplicableError(f"{path.decode()} is so already")
        return _packed(path) + _packed(json.dumps(value).encode()) + body[end:]

    return _edit(run, suffix, change, last=last)


def edit_version(run: RunCopy, suffix: str, by: int) -> str:
    """Change the version that a drawn set of such a znode has afterwards."""

    def change(body: bytes) -> bytes:
        _, at = _text(body, 0)
        _, end = _text(body, at)
        (version,) = struct.unpack_from(">i", body, end)
        return body[:end] + struct.pack(">i", version + by) + body[end + 4 :]

    return _edit(run, suffix, change, kinds=(SET,))


def _edit(
    run: RunCopy,
    suffix: str,
    change: Callable[[bytes], bytes],
    *,
    last: bool = False,
    kinds: tuple[int, ...] = (CREATE, CREATE2, SET),
) -> str:
    logged = transactions(run)
    places = [
        (index, part)
        for index, part, kind, path, _ in writes(logged)
        if path.startswith("/") and path.endswith(suffix) and kind in kinds and "__" not in path
    ]
    index, part = run.pick(places[-1:] if last else places, f"write of {suffix}")
    logged[index] = _with_body(logged[index], part, change)
    write(run, logged)
    return f"zxid {logged[index].zxid}"


def index_of(run: RunCopy, seen: list[Transaction], suffix: str, *, first: bool = False) -> int:
    """The index of a drawn transaction that writes such a znode."""
    places = [i for i, _, _, path, _ in writes(seen) if path.endswith(suffix) and "__" not in path]
    return run.pick(places[:1] if first else places, f"write of {suffix}")


def inserted(
    run: RunCopy, kind: int, body: bytes, *, at: int | None = None, session: int | None = None
) -> str:
    """Put a transaction behind another one (or at the end), and number all that follow anew."""
    logged = transactions(run)
    place = len(logged) if at is None else at
    before = logged[place - 1]
    new = replace(before, type=kind, body=body, zxid=before.zxid + 1)
    new = new if session is None else replace(new, session=session)
    later = [replace(each, zxid=each.zxid + 1) for each in logged[place:]]
    write(run, [*logged[:place], new, *later])
    return f"zxid {new.zxid}"


def take_effect(run: RunCopy, where: str, state: dict[str, Any] | None = None) -> str:
    """Let the last snapshot be taken after the log's last transaction, and see that state."""
    zxid = transactions(run)[-1].zxid
    label = run.final()

    def seen(snapshot: dict[str, Any]) -> None:
        snapshot["zxid"] = zxid
        for told in snapshot["states"].values():
            if state is not None and told is not None:
                told.update({name: state[name] for name in told if name in state})

    run.edit_json(f"snapshots/{label}/snapshot.json", seen)
    run.edit_line(
        "actions.jsonl",
        lambda line: line.update(zxid=zxid),
        lambda line: line["action"] == {"event": "Snapshot", "label": label},
    )
    return where


def create(path: str, value: object) -> bytes:
    """The body of a transaction that creates a persistent znode."""
    data = json.dumps(value).encode()
    return _packed(path.encode()) + _packed(data) + _ACL + struct.pack(">?i", False, 1)


def set_to(path: str, value: object, version: int) -> bytes:
    """The body of a transaction that sets a znode."""
    return _packed(path.encode()) + _packed(json.dumps(value).encode()) + struct.pack(">i", version)
