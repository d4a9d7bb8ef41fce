"""Cuts the bytes of a connection into Kafka's frames, without holding the largest ones whole."""

import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from kchaos.clusters.links.wire import MalformedMessage

BUFFER_BYTES = 256 * 1024
LARGEST_WHOLE_BYTES = 16 * 1024 * 1024
"""More than a follower asks for by default, replica.fetch.response.max.bytes (10 MiB)."""
_SIZE = struct.Struct(">i")
_SMALLEST_FRAME_BYTES = 4
LARGEST_FRAME_BYTES = 1 << 30
LARGEST_CLIENT_FRAME_BYTES = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes: a broker hangs up on a client that announces more."""
_MOST_AHEAD_BYTES = 64 * 1024 * 1024


@dataclass(slots=True)
class Frame:
    """The first bytes of a frame, its size field included, and how many more are to come."""

    head: memoryview
    rest_bytes: int

    @property
    def size(self) -> int:
        """The size of the whole frame in bytes, its size field included."""
        return len(self.head) + self.rest_bytes


class FrameStream:
    """Reads one direction of a connection. What it returns is valid until it reads again."""

    def __init__(
        self,
        sock: socket.socket,
        *,
        largest_frame_bytes: int = LARGEST_FRAME_BYTES,
        largest_whole_bytes: Callable[[], int] = lambda: BUFFER_BYTES,
    ) -> None:
        self._sock = sock
        self._largest_frame_bytes = largest_frame_bytes
        self._largest_whole_bytes = largest_whole_bytes
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._ahead = bytearray()

    def has_ended(self) -> bool:
        """Return whether the peer has closed the stream, or died, so that nothing more arrives.

        What has arrived is taken in to see that, for the end comes behind it, and behind what the
        peer's system still keeps for want of room here. Socket buffers bound that, so a peer of
        whom more than 64 MiB arrives is alive. Nobody else may read meanwhile.
        """
        while len(self._ahead) < _MOST_AHEAD_BYTES:
            try:
                part = self._sock.recv(BUFFER_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return False
            except OSError:
                return True  # A reset ends it as well.
            if not part:
                return True
            self._ahead += part
        return False

    def next_frame(self, gives_up: Callable[[], bool]) -> Frame | None:
        """Return the next frame, or None if the stream ended (also within a frame, see `rest`).

        A frame up to the largest whole one is complete; how large that is, is asked when the size
        of the frame is known. Of a larger one the head is returned, and
        the caller reads what is left with `chunk`, after `taken`. ``gives_up`` is asked after
        every read; once it is true the frame is not waited for. Raises MalformedMessage when the
        size is absurd. In every case the bytes stay in `rest` until `taken` is called.
        """
        if not self._fill(4, gives_up):
            return None
        size = _SIZE.unpack_from(self._buffer, self._start)[0]
        if not _SMALLEST_FRAME_BYTES <= size <= self._largest_frame_bytes:
            raise MalformedMessage(f"a frame of {size} bytes")
        is_whole = 4 + size <= self._largest_whole_bytes()
        head_bytes = 4 + size if is_whole else min(4 + size, BUFFER_BYTES)
        if not self._fill(head_bytes, gives_up):
            return None
        head = self._view[self._start : self._start + head_bytes]
        return Frame(head=head, rest_bytes=4 + size - head_bytes)

    def taken(self, frame: Frame) -> None:
        """Go past the head of the frame that was returned last; its bytes stay as they are."""
        self._start += len(frame.head)

    def chunk(self, most_bytes: int) -> memoryview:
        """Return 1 to ``most_bytes`` bytes, or none at the end of the stream."""
        if self._start == self._end:
            self._start = self._end = 0
            self._end = self._receive(self._view[: min(most_bytes, BUFFER_BYTES)])
        end = min(self._end, self._start + most_bytes)
        chunk = self._view[self._start : end]
        self._start = end
        return chunk

    def rest(self) -> memoryview:
        """Return the bytes after the last whole frame when the stream ended."""
        rest = self._view[self._start : self._end]
        self._start = self._end
        return rest

    def _receive(self, space: memoryview) -> int:
        if not self._ahead:
            return self._sock.recv_into(space)
        count = min(len(space), len(self._ahead))
        space[:count] = self._ahead[:count]
        del self._ahead[:count]
        return count

    def _fill(self, wanted: int, gives_up: Callable[[], bool]) -> bool:
        waiting = self._end - self._start
        size = max(BUFFER_BYTES, wanted, waiting)
        if not waiting:
            self._start = self._end = 0
        if self._start + wanted > size or size != len(self._buffer):
            left = bytes(self._view[self._start : self._end])
            if size != len(self._buffer):
                self._buffer = bytearray(size)
                self._view = memoryview(self._buffer)
            self._view[:waiting] = left
            self._start, self._end = 0, waiting
        while self._end - self._start < wanted:
            count = self._receive(self._view[self._end :])
            self._end += count
            if count == 0 or gives_up():
                return False
        return True
