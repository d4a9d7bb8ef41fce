"""Links between the members of ZooKeeper: bytes pass, unless one of the two is cut off.

A member connects to the others' peer and election ports. In its own zoo.cfg these are links, so
each pair of members has some of its own. Nothing but the first message of an election connection
is read: from ZooKeeper 3.5 on it says where its sender listens for elections, and that is replaced
by a link (`QuorumCnxManager.InitialMessage`, `handleConnection`, 3.5.9).
"""

import asyncio
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Any, TypeVar

T = TypeVar("T")

_BUFFER = 1 << 16
_CLOSE_S = 15.0
_TRIES, _RETRY_S = 100, 0.05
_LONG = struct.Struct(">q")
_REST = struct.Struct(">qi")
Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Way:
    """A link by which one member reaches another."""

    source: int
    target: int
    is_election: bool

    @property
    def back(self) -> "_Way":
        return _Way(self.target, self.source, self.is_election)


@dataclass(slots=True)
class PeerLinks:
    """Links on ``host`` between members, which are named by their numbers from 1 on.

    Connections that do not come from ``guests`` are closed at once; None takes all. Every method
    may be called from any thread.
    """

    host: str
    guests: IPv4Network | None = None
    _addresses: dict[_Way, Address] = field(default_factory=dict)
    _cut_off: set[int] = field(default_factory=set)
    _passing: dict[asyncio.Task[Any], _Way] = field(default_factory=dict)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._loop.run_forever, name="peers", daemon=True)
        self._thread.start()

    def add(self, source: int, target: int, address: Address, *, is_election: bool) -> Address:
        """Listen for one member's connections to a port of another; return (host, port)."""
        way = _Way(source, target, is_election)
        server = self._done(asyncio.start_server(self._taker(way, address), self.host, 0))
        self._servers.append(server)
        self._addresses[way] = server.sockets[0].getsockname()[:2]
        return self._addresses[way]

    def cut_off(self, member: int) -> None:
        """Let nothing pass between this member and the others; connections stay open."""
        self._cut_off.add(member)

    def rejoin(self, member: int) -> None:
        """End the connections that were cut, and let new ones pass."""

        async def end() -> None:
            self._cut_off.discard(member)
            for task, way in self._passing.items():
                if member in (way.source, way.target):
                    task.cancel()

        self._done(end())

    def is_cut_off(self, member: int) -> bool:
        """Return whether nothing passes between this member and the others."""
        return member in self._cut_off

    def close(self) -> None:
        """End every connection and the thread. Safe to call twice."""
        if self._thread is None:
            return

        async def end() -> None:
            for server in self._servers:
                server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=_CLOSE_S)

        self._done(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_S)
        self._thread = None
        self._loop.close()

    def _done(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _taker(
        self, way: _Way, address: Address
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._passing[task] = way
            try:
                if self.guests is None or _host_of(writer) in self.guests:
                    await self._relay(way, address, reader, writer)
            finally:
                del self._passing[task]
                writer.transport.abort()

        return take

    async def _relay(
        self,
        way: _Way,
        address: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Pass bytes both ways until an end closes."""
        await self._unless_cut(way)
        connected = await self._connected(address, tries=1 if way.is_election else _TRIES)
        if connected is None:
            return
        answers, requests = connected
        pumps = [
            asyncio.create_task(self._pump(way, reader, requests, is_first=way.is_election)),
            asyncio.create_task(self._pump(way, answers, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requests.transport.abort()
            for pump in pumps:
                pump.cancel()

    async def _connected(
        self, address: Address, *, tries: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """Return the connection to the target, or None if it refuses each time.

        A follower waits for a leader that does not listen yet if it is refused, and elects anew if
        it is accepted and hung up on (Learner.connectToLeader, 3.5.9); so the link tries in its
        place.
        """
        for number in range(tries):
            try:
                return await asyncio.open_connection(*address)
            except OSError:
                if number + 1 < tries:
                    await asyncio.sleep(_RETRY_S)
        return None

    async def _pump(
        self,
        way: _Way,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        is_first: bool = False,
    ) -> None:
        data = b"-"
        while data:
            try:
                data = await self._first(way, reader) if is_first else await reader.read(_BUFFER)
                is_first = False
                await self._unless_cut(way)
                writer.write(data)
                await writer.drain()
            except (ConnectionError, asyncio.IncompleteReadError):
                data = b""
        # The end of a connection passes no cut either.
        await self._unless_cut(way)

    async def _first(self, way: _Way, reader: asyncio.StreamReader) -> bytes:
        """Return the first message of an election connection, with a link as its sender's address.

        Up to 3.4 it is the sender's number alone; a later one begins with a version below 0.
        """
        version = await reader.readexactly(_LONG.size)
        if _LONG.unpack(version)[0] >= 0:
            return version
        sender, size = _REST.unpack(await reader.readexactly(_REST.size))
        await reader.readexactly(size)
        host, port = self._addresses[way.back]
        text = f"{host}:{port}".encode()
        return version + _REST.pack(sender, len(text)) + text

    async def _unless_cut(self, way: _Way) -> None:
        """Return at once, or never: a connection that was cut ends when its member rejoins."""
        if self._cut_off & {way.source, way.target}:
            await self._loop.create_future()


def _host_of(writer: asyncio.StreamWriter) -> IPv4Address:
    return IPv4Address(writer.get_extra_info("peername")[0])
