"""ZooKeeper's transaction log: every change of a znode, in zxid order. Bytes in, values out.

A member writes `log.<zxid in hex>`: a header of 16 bytes (`ZKLG`, version 2, database id), then
records, then zeros that it preallocated. A record is an Adler-32 checksum (8 bytes) of the
transaction, the transaction's length (4 bytes), the transaction, and the byte 0x42. A transaction
is a header (session, cxid, zxid, time, type) and a body; from 3.6 on a digest follows the body.

Source: FileTxnLog, SerializeUtils.deserializeTxn and DataTree.processTxn in Apache ZooKeeper 3.9,
and zookeeper.jute; the layouts are the same from 3.4 on, but for what is said beside each.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from kchaos.checkers.errors import CheckError
from kchaos.checkers.formats.fields import take_nullable

_FILE_HEADER = struct.Struct(">4siq")
_RECORD_HEADER = struct.Struct(">qi")
_TRANSACTION_HEADER = struct.Struct(">qiqqi")
_INT = struct.Struct(">i")
_MAGIC = b"ZKLG"
_VERSION = 2
_END_OF_RECORD = 0x42

_CREATE, _DELETE, _SET_DATA, _SET_ACL, _CHECK, _MULTI = 1, 2, 5, 7, 13, 14
_CREATE2, _RECONFIG, _CREATE_CONTAINER, _DELETE_CONTAINER, _CREATE_TTL = 15, 16, 19, 20, 21
_ERROR, _CREATE_SESSION, _CLOSE_SESSION = -1, -10, -11
_WITHOUT_CHANGE = (_SET_ACL, _CHECK, _ERROR, _CREATE_SESSION)


class ZooKeeperLogError(CheckError):
    """A transaction log is damaged; the message names the file and the position in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZnodeChange:
    """One change of one znode.

    Attributes:
        zxid: The transaction's id; the changes of one transaction share it.
        session: Who asked for it; for the ephemerals of a session that ended, that session.
        time_ms: The member's wall clock when it made the transaction, in milliseconds.
        data: What the znode holds after it; None for a null value and for a deletion.
        version: The znode's version after it: 0 at creation; -1 for a deletion.
        ephemeral_owner: The session that owns an ephemeral znode, else 0.
    """

    zxid: int
    session: int
    time_ms: int
    operation: Literal["create", "set", "delete"]
    path: str
    data: bytes | None
    version: int
    ephemeral_owner: int = 0


class _Transaction(NamedTuple):
    session: int
    zxid: int
    time_ms: int
    type: int
    body: bytes


_Located = tuple[str, int, _Transaction]
"""A transaction with its file and its position there."""


@dataclass(slots=True)
class _Ephemerals:
    """Which session owns which ephemeral znode; dictionaries, since they keep the order."""

    owner: dict[str, int] = field(default_factory=dict)

    def paths_of(self, session: int) -> list[str]:
        return [path for path, owner in self.owner.items() if owner == session]


def read_ensemble(members: Sequence[Sequence[tuple[str, bytes]]]) -> tuple[ZnodeChange, ...]:
    """Return the changes of a member with the highest zxid; none without members.

    A member that was away, or lost its data, may have got transactions as a snapshot. So it is the
    one with most transactions.

    Args:
        members: Name and content of each file of each member, by ascending zxid of the name; the
            ephemerals of a session are known from one file to the next.

    A record that is not all there, or whose end byte is missing, ends its file: the member was
    killed while it wrote, or the rest is preallocated. A closed session yields the deletion of its
    ephemerals, in the order in which they were created. A `multi` yields its parts, or nothing if
    it failed.

    Raises:
        ZooKeeperLogError: A file is no transaction log, a checksum is wrong, a transaction is not
            as long as its type needs, or its type is unknown.

    **Verifies**: the checksum of every record, of each member.
    **Does not verify**: that no transaction is missing between two; the digest of 3.6 and later.
    """
    read = [list(_all_transactions(files)) for files in members]
    if not members:
        return ()
    seen = [[transaction.zxid for _, _, transaction in member] for member in read]
    last = max(max(each, default=-1) for each in seen)
    most = max(range(len(read)), key=lambda at: (last in seen[at], len(seen[at])))
    return tuple(_all_changes(read[most]))


def zxids(files: Iterable[tuple[str, bytes]]) -> Iterator[int]:
    """Yield the zxid of each transaction in one member's files, failed ones included.

    Raises:
        ZooKeeperLogError: As `read_ensemble`, of checksums.
    """
    for _, _, transaction in _all_transactions(files):
        yield transaction.zxid


def _all_transactions(files: Iterable[tuple[str, bytes]]) -> Iterator[_Located]:
    for name, content in files:
        for position, transaction in _transactions(name, content):
            yield name, position, transaction


def _all_changes(located: Iterable[_Located]) -> Iterator[ZnodeChange]:
    ephemerals = _Ephemerals()
    for name, position, transaction in located:
        try:
            yield from _changes(transaction, ephemerals)
        except (struct.error, IndexError, ValueError) as error:
            raise ZooKeeperLogError(
                f"{name}, position {position}: transaction 0x{transaction.zxid:x} of type "
                f"{transaction.type} cannot be read: {error}"
            ) from error


def _transactions(name: str, content: bytes) -> Iterator[tuple[int, _Transaction]]:
    if len(content) < _FILE_HEADER.size and _MAGIC.startswith(content[:4]):
        return  # Killed before the header was written whole: nothing is in it.
    magic, version, _ = _FILE_HEADER.unpack_from(content.ljust(_FILE_HEADER.size, b"\0"))
    if magic != _MAGIC or version != _VERSION:
        raise ZooKeeperLogError(
            f"{name}, position 0: {magic!r} version {version} is no ZooKeeper transaction log "
            f"({_MAGIC!r} version {_VERSION}); give the files log.<zxid> of a version-2 folder"
        )
    position = _FILE_HEADER.size
    while position + _RECORD_HEADER.size <= len(content):
        checksum, length = _RECORD_HEADER.unpack_from(content, position)
        start = position + _RECORD_HEADER.size
        end = start + length
        if length == 0 and not checksum and not content[start:].strip(b"\0"):
            return
        if length > 0 and end >= len(content):
            return
        if length < 0 or content[end] != _END_OF_RECORD:
            # A record that was cut short has nothing but preallocated zeros behind it.
            if length < 0 or content[end:].strip(b"\0"):
                raise ZooKeeperLogError(
                    f"{name}, position {position}: a record of {length} bytes without its end byte"
                    ", and more behind it; the file was damaged after it was written"
                )
            return
        body = content[start:end]
        if zlib.adler32(body) != checksum:
            raise ZooKeeperLogError(
                f"{name}, position {position}: the checksum is {checksum:#x}, the transaction's is "
                f"{zlib.adler32(body):#x}; the file was damaged after it was written"
            )
        if length < _TRANSACTION_HEADER.size:
            raise ZooKeeperLogError(f"{name}, position {position}: a transaction without a header")
        session, _, zxid, time_ms, kind = _TRANSACTION_HEADER.unpack_from(body)
        yield (
            position,
            _Transaction(
                session=session,
                zxid=zxid,
                time_ms=time_ms,
                type=kind,
                body=body[_TRANSACTION_HEADER.size :],
            ),
        )
        position = end + 1


def _changes(transaction: _Transaction, ephemerals: _Ephemerals) -> Iterator[ZnodeChange]:
    if transaction.type == _CLOSE_SESSION:
        yield from _close_session(transaction, ephemerals)
    elif transaction.type == _MULTI:
        parts = _parts(transaction)
        # One part that failed means that all of them did, and the log says so part by part.
        if all(part.type != _ERROR for part in parts):
            for part in parts:
                yield from _changes(part, ephemerals)
    elif transaction.type not in _WITHOUT_CHANGE:
        yield _change(transaction, ephemerals)


def _change(transaction: _Transaction, ephemerals: _Ephemerals) -> ZnodeChange:
    body = _Body(transaction.body)
    path = body.string()
    match transaction.type:
        case 1 | 15 | 19 | 21:
            data = body.buffer()
            body.skip_acl()
            is_ephemeral = transaction.type in (_CREATE, _CREATE2) and body.boolean()
            owner = transaction.session if is_ephemeral else 0
            if owner:
                ephemerals.owner[path] = owner
            return _made(transaction, "create", path, data, 0, owner)
        case 5 | 16:
            # The version in the transaction is the one after it (PrepRequestProcessor).
            data, version = body.buffer(), body.integer()
            return _made(transaction, "set", path, data, version, ephemerals.owner.get(path, 0))
        case 2 | 20:
            owner = ephemerals.owner.pop(path, 0)
            return _made(transaction, "delete", path, None, -1, owner)
        case _:
            raise ValueError("no transaction of this type is known")


def _close_session(transaction: _Transaction, ephemerals: _Ephemerals) -> Iterator[ZnodeChange]:
    paths = ephemerals.paths_of(transaction.session)
    # 3.6 and later name the paths in the body; they are the same ones, unless the log begins
    # after some of them were created.
    if len(transaction.body) >= _INT.size:
        paths += [path for path in _paths_to_delete(transaction.body) if path not in paths]
    for path in paths:
        ephemerals.owner.pop(path, None)
        yield _made(transaction, "delete", path, None, -1, transaction.session)


def _paths_to_delete(content: bytes) -> list[str]:
    body = _Body(content)
    try:
        paths = [body.string() for _ in range(body.integer())]
    except (struct.error, IndexError, ValueError):
        # What is there is the digest, of a member that was told to name no paths.
        return []
    return [path for path in paths if path.startswith("/")]


def _made(
    transaction: _Transaction,
    operation: Literal["create", "set", "delete"],
    path: str,
    data: bytes | None,
    version: int,
    owner: int,
) -> ZnodeChange:
    return ZnodeChange(
        zxid=transaction.zxid,
        session=transaction.session,
        time_ms=transaction.time_ms,
        operation=operation,
        path=path,
        data=data,
        version=version,
        ephemeral_owner=owner,
    )


def _parts(transaction: _Transaction) -> list[_Transaction]:
    body = _Body(transaction.body)
    parts = []
    for _ in range(body.integer()):
        kind = body.integer()
        parts.append(
            _Transaction(
                session=transaction.session,
                zxid=transaction.zxid,
                time_ms=transaction.time_ms,
                type=kind,
                body=body.buffer() or b"",
            )
        )
    return parts


class _Body:
    """Reads jute's encoding: big endian, lengths of four bytes, -1 for null."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def integer(self) -> int:
        (value,) = _INT.unpack_from(self._content, self._position)
        self._position += _INT.size
        return int(value)

    def boolean(self) -> bool:
        value = self._content[self._position]
        self._position += 1
        return value != 0

    def buffer(self) -> bytes | None:
        length = self.integer()
        value, self._position = take_nullable(self._content, self._position, length)
        return value

    def string(self) -> str:
        return (self.buffer() or b"").decode("utf-8")

    def skip_acl(self) -> None:
        for _ in range(self.integer()):
            self.integer()
            self.string()
            self.string()
