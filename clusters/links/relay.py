"""One relayed connection: two threads that pump bytes, one for each direction.

A rule blocks the thread of its direction. So nothing is copied aside, what follows waits in
TCP's own buffers as on a slow network, and what is held is bounded by those. When a cut heals,
what waited at it goes on if its sender still has the connection open; otherwise all that is left
of that direction is thrown away, and the end of the connection is passed on.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.link_record import Fate
from kchaos.clusters.links.client_talk import ClientTalk, Passing
from kchaos.clusters.links.conversation import Conversation, Endpoint, RelayContext
from kchaos.clusters.links.forging import can_be_forged, forged
from kchaos.clusters.links.frames import (
    BUFFER_BYTES,
    LARGEST_CLIENT_FRAME_BYTES,
    LARGEST_FRAME_BYTES,
    LARGEST_WHOLE_BYTES,
    Frame,
    FrameStream,
)
from kchaos.clusters.links.messages import Message
from kchaos.clusters.links.rules import Cut, Disturbance, HeldPlace, Hold
from kchaos.clusters.links.wire import MalformedMessage


class Flow:
    """One direction of a connection. Whoever sends on it holds its lock.

    ``stream`` is where it comes from, None before there is a connection. ``is_abandoned`` says
    that its sender had hung up when a cut healed: nothing more is delivered.
    """

    def __init__(self, direction: Direction) -> None:
        self.direction: Direction = direction
        self.lock = threading.Lock()
        self.stream: FrameStream | None = None
        self.is_sending = False
        self.is_abandoned = False


@dataclass(slots=True)
class Delivery:
    """History of one message so far."""

    fate: Fate = "passed"
    was_cut: bool = False
    place: HeldPlace | None = None
    is_recorded: bool = False

    @property
    def has_waited(self) -> bool:
        """Whether a rule has stopped it."""
        return self.was_cut or self.fate != "passed"

    def leave_place(self) -> None:
        """Let the next message of the same hold go."""
        if self.place is not None:
            self.place.end()


_CONNECT_TIMEOUT_S = 10.0
_SMALL_BYTES = 64 * 1024
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Blocker = Cut | Hold
"""Rules that can stop a message."""


class LinkOver(Exception):
    """The connection is gone; its pumps end."""


class Connection:
    """A client's connection and the one to its target, until both ends are done."""

    def __init__(
        self,
        *,
        number: int,
        endpoint: Endpoint,
        client: socket.socket,
        context: RelayContext,
        talk: Conversation | ClientTalk,
        on_end: Callable[[Connection], None],
    ) -> None:
        self.number = number
        self.endpoint = endpoint
        self.flows = (Flow("request"), Flow("response"))
        self.is_over = False
        self._context = context
        self._talk = talk
        self._on_end = on_end
        self._client = client
        self._server: socket.socket | None = None
        self._ends = threading.Lock()
        self._pumps = 1
        self._threads = [self._thread(self._pump_requests, "requests")]

    @property
    def source(self) -> int | None:
        """The broker that made it, None while that is not known."""
        return self._talk.source

    @property
    def _conversation(self) -> Conversation:
        assert isinstance(self._talk, Conversation)  # Rules of brokers concern no client.
        return self._talk

    def start(self) -> None:
        """Begin to pump."""
        self._threads[0].start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the pumps to end; return whether they did."""
        for thread in list(self._threads):
            thread.join(timeout_s)
        return not any(thread.is_alive() for thread in self._threads)

    def reset(self) -> None:
        """End both sides with RST. The pumps close the sockets when they notice."""
        self.is_over = True
        for sock, flow in ((self._client, self.flows[1]), (self._server, self.flows[0])):
            if sock is None:
                continue
            try:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                # Ending only the reading side wakes a reader without telling the peer; the RST
                # follows when the socket is closed. A blocked sender has to be woken by more.
                sock.shutdown(socket.SHUT_RDWR if flow.is_sending else socket.SHUT_RD)
            except OSError:
                continue  # It is closed, or was never connected: there is nothing to wake.
        self._context.rules.wake()

    def _thread(self, pump: Callable[[], None], name: str) -> threading.Thread:
        target = "zookeeper" if self.endpoint.target is None else f"broker-{self.endpoint.target}"
        of_clients = "clients-" if self.endpoint.is_for_clients else ""
        title = f"link-{of_clients}{target}-{self.number}-{name}"
        return threading.Thread(target=self._run, args=(pump,), name=title, daemon=True)

    def _run(self, pump: Callable[[], None]) -> None:
        try:
            pump()
        except LinkOver:
            self.reset()
        except OSError:
            # One side reset or vanished: reset the other side too.
            self._await_silence_over()
            self.reset()
        finally:
            with self._ends:
                self._pumps -= 1
                is_last = self._pumps == 0
            if is_last:
                self.is_over = True
                self._client.close()
                if self._server is not None:
                    self._server.close()
                self._talk.ended()
                self._on_end(self)

    # --- the two pumps

    def _pump_requests(self) -> None:
        flow = self.flows[0]
        most = LARGEST_CLIENT_FRAME_BYTES if self.endpoint.is_for_clients else LARGEST_FRAME_BYTES
        stream = flow.stream = FrameStream(self._client, largest_frame_bytes=most)
        if self.source is not None and self._await_uncut(flow):
            return  # It was given up before it reached anybody.
        if not any(cut.involves(self.endpoint.target) for cut in self._context.rules.cuts):
            self._connect()
        # Otherwise the first request tells whose connection it is, and whether it may be made.
        while not self._talk.is_dumb:
            try:
                frame = stream.next_frame(lambda: self._talk.is_dumb)
                if frame is None:
                    break
                message = self._talk.read_request(frame)
            except MalformedMessage:
                self._talk.become_dumb()
                break
            stream.taken(frame)
            self._pass(flow, message, frame, stream)
        self._pump_bytes(flow, stream)

    def _pump_responses(self) -> None:
        assert self._server is not None
        flow = self.flows[1]
        stream = flow.stream = FrameStream(self._server, largest_whole_bytes=self._largest_answer)
        while not self._talk.is_dumb:
            try:
                frame = stream.next_frame(lambda: self._talk.is_dumb)
            except MalformedMessage:
                self._talk.become_dumb()
                break
            if frame is None:
                break
            stream.taken(frame)
            message = self._talk.read_response(frame)
            self._pass(flow, message, frame, stream)
        self._pump_bytes(flow, stream)

    def _largest_answer(self) -> int:
        """Return how large the next answer may be that is read whole before it goes on.

        Of one that a rule keeps back the head is enough: its sender is to have the rest.
        """
        asked = None if self.endpoint.is_for_clients else self._conversation.next_asked
        if self.endpoint.is_for_clients or (
            asked is not None and self._rule(replace(asked, direction="response")) is not None
        ):
            return BUFFER_BYTES
        return LARGEST_WHOLE_BYTES

    def _pump_bytes(self, flow: Flow, stream: FrameStream) -> None:
        """Pass bytes without looking at them until the stream ends, then the end itself."""
        while chunk := (stream.rest() or stream.chunk(BUFFER_BYTES)):
            self._talk.unread(flow.direction, len(chunk))
            self._send_bytes(flow, chunk)
        self._await_uncut(flow)
        out = self._out(flow)
        if out is not None:
            out.shutdown(socket.SHUT_WR)

    # --- passing

    def _pass(
        self, flow: Flow, message: Message | Passing | None, frame: Frame, stream: FrameStream
    ) -> None:
        if isinstance(message, Message):
            self._send_message(flow, message, frame.head)
        else:
            self._send_head(flow, message, frame.head)
        was_abandoned = flow.is_abandoned
        if frame.rest_bytes:
            self._pass_rest(flow, message, frame, stream)
        if isinstance(message, Passing):
            message.passed(frame.head)
        elif message is not None and flow.is_abandoned and not was_abandoned:
            # Its head has passed, and the rest never does.
            self._conversation.record(message, "abandoned")

    def _send_head(self, flow: Flow, message: Passing | None, head: memoryview) -> None:
        """Send the head of a client's message once no disturbance keeps it back."""
        while message is not None:
            with flow.lock:
                disturbance = self._disturbance(message, head)
                if disturbance is None:
                    message.goes_on()
                    self._write(flow, head)
                    return
            if disturbance.meet(self._is_over):
                raise LinkOver
            self._check_alive()
            if flow.direction == "response" and _has_hung_up(self._client):
                raise LinkOver
            message.has_waited = True
        self._send_bytes(flow, head)

    def _disturbance(self, message: Passing, head: memoryview) -> Disturbance | None:
        if message.has_waited:
            return None
        rules = self._context.rules.disturbances
        return next((rule for rule in rules if message.is_meant(rule.act, head)), None)

    def _pass_rest(
        self, flow: Flow, message: Message | Passing | None, frame: Frame, stream: FrameStream
    ) -> None:
        of_client = message if isinstance(message, Passing) else None
        if of_client is not None:
            of_client.keep(frame.head)
        rest = frame.rest_bytes
        of_records = message.rest if isinstance(message, Message) else None
        while rest and (chunk := stream.chunk(rest)):
            rest -= len(chunk)
            if of_client is not None:
                of_client.more(chunk)
            if of_records is not None and not flow.is_abandoned:
                of_records.more(chunk)
                if of_records.is_read:
                    assert isinstance(message, Message)
                    self._conversation.complete(message, of_records)
            self._send_bytes(flow, chunk)
        if rest and isinstance(message, Message) and not flow.is_abandoned:
            # Its sender hung up or died before it had sent the rest.
            self._conversation.record(message, "abandoned")

    def _send_message(self, flow: Flow, message: Message, head: memoryview) -> None:
        """Send a message's head as soon as no cut and no rule stops it, and record its delivery."""
        if self._is_undecided(flow, message):
            self._context.journal.count(message, "undecided")
        delivery = Delivery()
        try:
            while (blocker := self._go(flow, message, head, delivery)) is not None:
                self._wait_at(blocker, flow, message, delivery)
        except (LinkOver, OSError):
            if delivery.has_waited and not delivery.is_recorded:
                self._conversation.record(message, "abandoned")
            raise

    def _go(
        self, flow: Flow, message: Message, head: memoryview, delivery: Delivery
    ) -> Blocker | None:
        """Send it, or find out that nobody gets it; return what stops it, None if it is done."""
        try:
            with flow.lock:
                if flow.is_abandoned:
                    self._conversation.record(message, "abandoned")
                    return None
                blocker = self._blocker(flow, message, delivery)
                if blocker is None and self._reach(flow):
                    blocker = self._blocker(
                        flow, message, delivery
                    )  # Connecting may have taken long.
                if blocker is not None:
                    return blocker
                self._check_alive()
                if self._is_receiver_gone(flow):
                    delivery.fate = "abandoned"
                else:
                    message, head = self._as_delivered(message, head, delivery)
                self._conversation.note(message, delivery.fate, may_be_idle=not delivery.was_cut)
                delivery.is_recorded = True
                if len(head) > _SMALL_BYTES:
                    # Sending much can take long; others need not wait for it.
                    delivery.leave_place()
                self._write(flow, head)
                return None
        finally:
            delivery.leave_place()

    def _blocker(self, flow: Flow, message: Message, delivery: Delivery) -> Blocker | None:
        return self._cut(flow) or (self._rule(message) if delivery.fate == "passed" else None)

    def _as_delivered(
        self, message: Message, head: memoryview, delivery: Delivery
    ) -> tuple[Message, memoryview]:
        if not can_be_forged(message):
            return message, head
        for forgery in self._context.rules.forgeries:
            if forgery.concerns(message):
                self._conversation.record(message, "replaced")
                delivery.fate = "forged"
                return forged(message, head, forgery.error_code)
        return message, head

    def _wait_at(self, blocker: Blocker, flow: Flow, message: Message, delivery: Delivery) -> None:
        if isinstance(blocker, Hold):
            held = self._conversation.record(message, "held")
            delivery.place = blocker.enter(held)
            delivery.fate = "released"
            delivery.place.wait(self._is_over)
        else:
            if not delivery.was_cut:
                self._conversation.record(message, "cut")
            delivery.was_cut = True
            flow.is_abandoned = self._await_uncut(flow)

    def _is_over(self) -> bool:
        return self.is_over

    def _check_alive(self) -> None:
        if self.is_over:
            raise LinkOver

    def _is_receiver_gone(self, flow: Flow) -> bool:
        """Return whether the receiver gave up while this message was being delivered.

        No answer reaches a client that has hung up, and while a cut lasted not even its first
        packet arrived. A broker that has hung up is gone, and another process that listens there
        now does not get what is sent on this connection. The bytes go on: who has closed one
        direction only still reads.
        """
        if flow.direction == "request" and self._server is not None:
            return _has_hung_up(self._server)
        return _has_hung_up(self._client)

    def _cut(self, flow: Flow) -> Cut | None:
        for cut in self._context.rules.cuts:
            if cut.covers(self.source, self.endpoint.target, flow.direction):
                return cut
        return None

    def _rule(self, message: Message) -> Hold | None:
        for rule in self._context.rules.holds:
            if rule.match.decides(message):
                return rule
        return None

    def _is_undecided(self, flow: Flow, message: Message) -> bool:
        rules = self._context.rules
        return any(
            cut.covers(self.source, self.endpoint.target, flow.direction) is None
            for cut in rules.cuts
        ) or any(rule.match.decides(message) is None for rule in rules.holds)

    def _await_uncut(self, flow: Flow) -> bool:
        """Return when no cut stops this direction; one that resets ends the connection.

        Returns whether who sends in this direction had hung up when one of the cuts healed.
        """
        is_sender_gone = False
        while (cut := self._cut(flow)) is not None and not self.is_over:
            if cut.style == "reset":
                raise LinkOver
            assert flow.stream is not None
            gone = cut.wait(self._is_over, flow.stream.has_ended)
            is_sender_gone = is_sender_gone or gone
        self._check_alive()
        return is_sender_gone

    def _await_silence_over(self) -> None:
        for flow in self.flows:
            while (cut := self._cut(flow)) is not None and cut.style == "silent":
                if self.is_over:
                    return
                cut.wait(self._is_over, lambda: False)

    def _send_bytes(self, flow: Flow, data: memoryview) -> None:
        while not flow.is_abandoned:
            with flow.lock:
                if self._cut(flow) is None:
                    self._write(flow, data)
                    return
            flow.is_abandoned = self._await_uncut(flow)

    def _out(self, flow: Flow) -> socket.socket | None:
        return self._client if flow.direction == "response" else self._server

    def _write(self, flow: Flow, data: memoryview) -> None:
        self._reach(flow)
        out = self._out(flow)
        assert out is not None
        flow.is_sending = True
        try:
            self._check_alive()
            out.sendall(data)
        finally:
            flow.is_sending = False

    def _reach(self, flow: Flow) -> bool:
        """Have a connection to the target for requests; return whether it was made now."""
        if flow.direction != "request" or self._server is not None:
            return False
        if _has_hung_up(self._client):
            raise LinkOver
        self._connect()
        return True

    def _connect(self) -> None:
        """Connect to the target for a client that still wants to be connected then.

        An address at which nothing listens refuses at once. One that nobody has, as that of a
        container that is being made anew, does not answer until somebody has it: up to
        `_CONNECT_TIMEOUT_S`. Who has hung up or died meanwhile was never connected to anybody, and
        what it wrote reaches nobody.
        """
        server = socket.create_connection(self.endpoint.address, timeout=_CONNECT_TIMEOUT_S)
        if _has_hung_up(self._client):
            server.close()
            raise LinkOver
        server.settimeout(None)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._server = server
        with self._ends:
            self._pumps += 1
        self._threads.append(self._thread(self._pump_responses, "responses"))
        self._threads[1].start()
        self._check_alive()  # It may have been reset before there was a second socket to reset.


def _has_hung_up(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLRDHUP)
    return bool(poll.poll(0))
