"""State of one relayed connection: its owner, requests without an answer yet, what was said."""

from collections import deque
from dataclasses import dataclass, field, replace

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.link_record import Fate, LinkRecord
from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.frames import Frame
from kchaos.clusters.links.messages import (
    Message,
    correlation_id_of_response,
    read_request,
    read_response,
)
from kchaos.clusters.links.records import LinkJournal
from kchaos.clusters.links.rest_of_records import RestOfRecords
from kchaos.clusters.links.rules import Rules
from kchaos.clusters.links.sessions import FetchSessions, IdleFetches

_MOST_UNANSWERED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Meaning of one listening socket.

    ``target`` is the broker behind it, None for a ZooKeeper member; then ``source`` is the broker
    whose ZooKeeper connections it takes, and the bytes are not read. ``is_for_clients`` says that
    clients connect to it, and no brokers: see ``clusters.links.client_talk``.
    """

    target: int | None
    source: int | None
    address: tuple[str, int]
    is_for_clients: bool = False
    sessions: FetchSessions = field(default_factory=FetchSessions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayContext:
    """Context that all connections share."""

    rules: Rules
    journal: LinkJournal
    topics: TopicNames


class Conversation:
    """Reads the frames of one connection, in both directions.

    ``source`` is the broker that made the connection, None while no request has told.
    ``is_dumb`` says that its bytes are passed on without being read.
    """

    def __init__(self, *, number: int, endpoint: Endpoint, context: RelayContext) -> None:
        self.source = endpoint.source
        self.is_dumb = endpoint.target is None
        self._number = number
        self._endpoint = endpoint
        self._context = context
        self._unanswered: deque[Message] = deque(maxlen=_MOST_UNANSWERED)
        self._idle = IdleFetches()

    def read_request(self, frame: Frame) -> Message:
        """Return the request in a frame, or raise MalformedMessage."""
        assert self._endpoint.target is not None
        message = read_request(
            frame.head,
            size=frame.size,
            target=self._endpoint.target,
            connection_source=self.source,
            topics=self._context.topics,
            sessions=self._endpoint.sessions,
        )
        if self.source is None:
            self.source = message.source
        if not message.is_readable:
            self._context.journal.count(message, "unread")
        self._unanswered.append(message)
        return message

    @property
    def next_asked(self) -> Message | None:
        """The request that is answered next, as brokers answer in order; None if there is none."""
        try:
            return self._unanswered[0]
        except IndexError:
            return None

    def read_response(self, frame: Frame) -> Message | None:
        """Return the response in a frame, or None if no observed request fits."""
        correlation_id = correlation_id_of_response(frame.head)
        while self._unanswered:
            # Brokers answer in order. A request without an answer (a produce with acks=0) is
            # passed over by the answer to a later one.
            request = self._unanswered.popleft()
            if request.correlation_id == correlation_id:
                return self._answer(request, frame)
        return None

    def _answer(self, request: Message, frame: Frame) -> Message:
        message = read_response(
            frame.head,
            size=frame.size,
            request=request,
            topics=self._context.topics,
            sessions=self._endpoint.sessions,
        )
        if not message.is_readable:
            self._context.journal.count(message, "unread")
        return message

    def become_dumb(self) -> None:
        """Pass bytes on unread from now on, and count that."""
        if not self.is_dumb:
            self.is_dumb = True
            self._context.journal.broken_stream()

    def record(self, message: Message, fate: Fate) -> LinkRecord:
        """Record what became of a message."""
        return self._context.journal.add(message, fate, self._number)

    def note(self, message: Message, fate: Fate, *, may_be_idle: bool) -> None:
        """Record a message that goes on; only count it when it is a fetch that says nothing new."""
        detail = message.detail
        if message.api_key == ApiKey.FETCH and detail is not None and "partitions" in detail:
            is_request = message.direction == "request"
            check = self._idle.is_idle_request if is_request else self._idle.is_idle_response
            if check(detail) and fate == "passed" and may_be_idle:
                self._context.journal.count(message, "passed")
                return
        self.record(message, fate)

    def complete(self, message: Message, rest: RestOfRecords) -> None:
        """Record a message whose rest was read, before the last of it is sent."""
        detail = None if message.detail is None else rest.completed(message.detail)
        self.record(replace(message, detail=detail), "completed")

    def unread(self, direction: Direction, size_bytes: int) -> None:
        """Ignore bytes that are no messages."""

    def ended(self) -> None:
        """Do nothing, since an ended connection leaves no state."""
