"""State of one client's connection, and the journal of what clients were told.

A message only passes: its bytes are copied, and read in another process (`values_of`). Its place
in the order is taken before its first byte goes on. So whoever acts upon an answer comes after it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kchaos.checkers.acts import Direction, DisturbClients
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.errors import LinkError
from kchaos.clusters.links import wire
from kchaos.clusters.links.client_layouts import CLIENT_LAYOUTS, GROUP_LAYOUTS
from kchaos.clusters.links.conversation import Endpoint
from kchaos.clusters.links.frames import Frame
from kchaos.clusters.links.layout import Layout
from kchaos.clusters.links.messages import correlation_id_of_response, read_header, skip_header_tags

_MOST_UNANSWERED = 10_000
_MOST_KEPT_BYTES = 64 * 1024 * 1024
_MOST_KEPT_BY_ALL_BYTES = 256 * 1024 * 1024
_TOO_EARLY = "it passed before anybody wrote down what clients do, and so did others perhaps"
NOT_KAFKA = "its bytes stopped to be Kafka's protocol; encrypted ones are none"


class ClientMessage(NamedTuple):
    """One decisive message of a client, or its answer, as it passed.

    Attributes:
        sequence: Counts these messages from 1, over all connections; it is their order.
        link_sequence: The number of the first record of the brokers' links that came later.
        time: Seconds since the epoch.
        connection: Its number; the links of brokers have other numbers.
        broker: Who serves the client.
        direction: "request" or "response".
        api_key: None for what is no message at all.
        client_id: As the request's header has it; None for null.
        address: The client's host and port.
        group: The consumer group of that client id at that host, where one was seen; else "".
        content: The whole frame; empty where it was not kept.
        answered_bytes: How many bytes a broker answered to what is no message.
        not_judged: Why it was not kept, or "".
    """

    sequence: int
    link_sequence: int
    time: float
    connection: int
    broker: int
    direction: Direction
    api_key: int | None
    api_version: int
    correlation_id: int
    client_id: str | None
    address: str
    group: str
    content: bytes = b""
    answered_bytes: int = 0
    not_judged: str = ""


ClientSink = Callable[[ClientMessage], None]
_Header = tuple[int, int, int, str | None]


class ClientJournal:
    """The order of what passed at the links of clients, and its sink. Any thread may use it.

    Of what passed before there was a sink, the sink is told that it did.

    Attributes:
        kept_bytes: What connections keep now of messages that are to be read.
    """

    def __init__(self, next_link_sequence: Callable[[], int]) -> None:
        self._next_link_sequence = next_link_sequence
        self._lock = threading.Lock()
        self._sink: ClientSink | None = None
        self._error: Exception | None = None
        self._missed: ClientMessage | None = None
        self._last_sequence = 0
        self._groups: dict[tuple[str, str | None], str] = {}
        self.kept_bytes = 0

    def place(self) -> tuple[int, int, float]:
        """Return the next place in the order: sequence number, links' sequence number, time."""
        with self._lock:
            self._last_sequence += 1
            return self._last_sequence, self._next_link_sequence(), time.time()

    def add(self, message: ClientMessage) -> None:
        """Hand a message to the sink; the first error of a sink is kept for `check`."""
        with self._lock:
            if self._sink is None:
                self._missed = message
                return
            self._hand_over(message)

    def set_sink(self, sink: ClientSink) -> None:
        """Hand every message from now on to this sink, and before them what was missed."""
        with self._lock:
            self._sink, self._error = sink, None
            if self._missed is not None:
                self._hand_over(self._missed._replace(content=b"", not_judged=_TOO_EARLY))
                self._missed = None

    def _hand_over(self, message: ClientMessage) -> None:
        assert self._sink is not None
        if self._error is None:
            try:
                self._sink(message)
            except Exception as error:  # noqa: BLE001 - raised by check() in the caller's thread
                self._error = error

    def check(self) -> None:
        """Raise LinkError if the sink failed to take a message."""
        if self._error is not None:
            raise LinkError(
                f"the log of clients could not be written: {self._error!r}; it is incomplete, so "
                "treat the run as unknown"
            ) from self._error

    def keeps(self, size_bytes: int) -> bool:
        """Take so many bytes of memory, if they are to be had; a negative size gives back."""
        with self._lock:
            if self.kept_bytes + size_bytes > _MOST_KEPT_BY_ALL_BYTES:
                return False
            self.kept_bytes += size_bytes
            return True

    def note_group(self, host: str, client_id: str | None, group: str) -> None:
        """Remember that a client is in a consumer group."""
        with self._lock:
            self._groups[(host, client_id)] = group

    def group_of(self, host: str, client_id: str | None) -> str:
        """Return the last known group of a client, or ""."""
        with self._lock:
            return self._groups.get((host, client_id), "")


@dataclass(slots=True)
class Passing:
    """A message of a client that is passing. What need not be done before it goes on comes after.

    Attributes:
        size: Of the whole frame in bytes.
        place: Its place in the order, None for a message that decides nothing.
        why_unread: Why its bytes are not kept, or "".
        kept: What has come of a frame that is larger than the relay's buffer, None for another.
        has_waited: Whether a disturbance has kept it back.
    """

    talk: ClientTalk
    direction: Direction
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    size: int
    place: tuple[int, int, float] | None = None
    why_unread: str = ""
    kept: bytearray | None = None
    has_waited: bool = False

    def is_meant(self, act: DisturbClients, head: memoryview) -> bool:
        """Return whether a disturbance is about this message, of which `head` is the beginning."""
        return (
            self.direction == act.direction
            and (act.api is None or self.api_key == ApiKey(act.api))  # type: ignore[arg-type]
            and act.broker in (None, self.talk.endpoint.target)
            and (self.client_id or "").startswith(act.client_id)
            and (act.topic is None or (act.topic, act.partition) in self._partitions(head))
        )

    def _partitions(self, head: memoryview) -> set[tuple[str | None, int]]:
        """Return the partitions that it names, as far as its head has them."""
        layout = CLIENT_LAYOUTS.get(self.api_key)
        if layout is None:
            return set()
        values, _why = _read(bytes(head), layout, self.api_version, self.direction)
        return {
            (topic.get("topic") or self.talk.name_of(topic["topic_id"]), partition["partition"])
            for topic in values.get("topics", ())
            for partition in topic["partitions"]
        }

    def goes_on(self) -> None:
        """Give it its place in the order: its first byte goes on now."""
        if self.api_key in CLIENT_LAYOUTS:
            self.place = self.talk.journal.place()

    def keep(self, head: memoryview) -> None:
        """Keep its head, if it is read and there is room: more than the relay's buffer comes."""
        if self._is_read():
            if self.size > _MOST_KEPT_BYTES:
                self.why_unread = f"it has {self.size} bytes, and {_MOST_KEPT_BYTES} are read"
            elif not self.talk.keeps(self):
                self.why_unread = "other messages of clients filled the memory for them"
            else:
                self.kept = bytearray(head)

    def more(self, chunk: memoryview) -> None:
        """Take in what follows of a message that is larger than the relay's buffer."""
        if self.kept is not None:
            self.kept += chunk

    def passed(self, head: memoryview) -> None:
        """Hand it on: its last byte has gone on, or no more came."""
        if self.kept is not None:
            self.talk.give_back(self.direction)
        if not self._is_read():
            return
        content, why = bytes(head if self.kept is None else self.kept), self.why_unread
        if not why and len(content) < self.size:
            why = f"it ended after {len(content)} of {self.size} bytes"
        if self.place is not None:
            self.talk.add(
                self.direction, self, self.place, content=b"" if why else content, why=why
            )
        elif not why:
            self.talk.note_group(self, content)

    def _is_read(self) -> bool:
        return self.place is not None or (
            self.direction == "request" and self.api_key in GROUP_LAYOUTS
        )


@dataclass(slots=True)
class ClientTalk:
    """Reads the frames of one client's connection, in both directions.

    Beside `Conversation` this is what a relayed connection asks; nothing of it holds a message up.
    """

    number: int
    endpoint: Endpoint
    journal: ClientJournal
    address: tuple[str, int]
    name_of: Callable[[str | bytes], str | None]
    source: int | None = None
    is_dumb: bool = False
    _unanswered: deque[_Header] = field(default_factory=lambda: deque(maxlen=_MOST_UNANSWERED))
    _kept_bytes: dict[Direction, int] = field(default_factory=dict)
    _unread_answered_bytes: int = 0

    def read_request(self, frame: Frame) -> Passing:
        """Return the request in a frame, or raise MalformedMessage."""
        size = frame.size
        header = read_header(wire.Reader(view=frame.head, position=4, size=size))
        self._unanswered.append(header)
        return Passing(self, "request", *header, size)

    def read_response(self, frame: Frame) -> Passing | None:
        """Return the response in a frame, or None if no observed request fits."""
        correlation_id = correlation_id_of_response(frame.head)
        while self._unanswered:
            # Brokers answer in order. A produce with acks=0 has no answer.
            header = self._unanswered.popleft()
            if header[2] == correlation_id:
                return Passing(self, "response", *header, frame.size)
        return None

    def become_dumb(self) -> None:
        """Pass bytes on unread from now on, and say so."""
        if not self.is_dumb:
            self.is_dumb = True
            self.add("request", None, self.journal.place(), why=NOT_KAFKA)

    def unread(self, direction: Direction, size_bytes: int) -> None:
        """Count what a broker answers to what is no message."""
        if self.is_dumb and direction == "response":
            self._unread_answered_bytes += size_bytes

    def ended(self) -> None:
        """Give back what was kept; say how much was answered to what is no message."""
        for direction in tuple(self._kept_bytes):
            self.give_back(direction)
        if self._unread_answered_bytes:
            place = self.journal.place()
            answered = self._unread_answered_bytes
            self.add("response", None, place, answered_bytes=answered, why=NOT_KAFKA)

    def keeps(self, message: Passing) -> bool:
        """Take memory for a large message, if it is to be had."""
        if not self.journal.keeps(message.size):
            return False
        self._kept_bytes[message.direction] = message.size
        return True

    def give_back(self, direction: Direction) -> None:
        """Give back the memory for the large message of a direction."""
        self.journal.keeps(-self._kept_bytes.pop(direction))

    def note_group(self, message: Passing, content: bytes) -> None:
        """Remember the group that a request tells, if it is whole."""
        layout = GROUP_LAYOUTS[message.api_key]
        values, why = _read(content, layout, message.api_version, message.direction)
        if not why and values.get("group"):
            self.journal.note_group(self.address[0], message.client_id, values["group"])

    def add(
        self,
        direction: Direction,
        message: Passing | None,
        place: tuple[int, int, float],
        *,
        content: bytes = b"",
        answered_bytes: int = 0,
        why: str = "",
    ) -> None:
        """Hand on a message, or, without one, that something passed that is none."""
        sequence, link_sequence, at = place
        host, port = self.address
        client_id = None if message is None else message.client_id
        assert self.endpoint.target is not None
        self.journal.add(
            ClientMessage(
                sequence=sequence,
                link_sequence=link_sequence,
                time=at,
                connection=self.number,
                broker=self.endpoint.target,
                direction=direction,
                api_key=None if message is None else message.api_key,
                api_version=-1 if message is None else message.api_version,
                correlation_id=-1 if message is None else message.correlation_id,
                client_id=client_id,
                address=f"{host}:{port}",
                group=self.journal.group_of(host, client_id),
                content=content,
                answered_bytes=answered_bytes,
                not_judged=why,
            )
        )


def values_of(
    message: ClientMessage, name_of: Callable[[str | bytes], str | None]
) -> tuple[dict[str, Any], str]:
    """Return the fields of a message, as `wire.decode` has them, or none and the reason.

    `name_of` returns a topic's name by its id, None for an unknown one.
    """
    if message.not_judged or message.api_key is None:
        return {}, message.not_judged
    layout = CLIENT_LAYOUTS[message.api_key]
    values, why = _read(message.content, layout, message.api_version, message.direction)
    for topic in values.get("topics", ()):
        if "topic_id" in topic:
            topic["topic"] = name_of(topic["topic_id"])
    return values, why


def _read(
    content: bytes, layout: Layout, version: int, direction: Direction
) -> tuple[dict[str, Any], str]:
    if version > layout.newest:
        return {}, f"version {version} is newer than {layout.newest}, the last that is read here"
    reader = wire.Reader(view=memoryview(content), position=4, size=len(content))
    try:
        if direction == "request":
            read_header(reader)
        else:
            reader.take(4)
        skip_header_tags(reader, is_flexible=version >= layout.flexible_since)
        values, is_whole = wire.decode(_steps(layout, version, direction), reader)
    except (wire.MalformedMessage, wire.BytesEndEarly) as error:
        return {}, f"its body makes no sense: {error}"
    return (values, "") if is_whole else ({}, "its body ends early")


_STEPS: dict[tuple[int, int, Direction], tuple[wire.Step, ...]] = {}


def _steps(layout: Layout, version: int, direction: Direction) -> tuple[wire.Step, ...]:
    key = (id(layout), version, direction)
    if key not in _STEPS:
        fields = layout.request if direction == "request" else layout.response
        _STEPS[key] = wire.compiled(fields, version, flexible=version >= layout.flexible_since)
    return _STEPS[key]
