"""The SDK's client, and a deadline for each of its calls."""

import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from docker import APIClient
from requests import PreparedRequest, Response

from kchaos.clusters.errors import MachineError

T = TypeVar("T")


class DeadlineClient(APIClient):  # type: ignore[misc]  # the SDK has no types
    """A client that never waits longer than its ``timeout`` (seconds) for an answer's next bytes.

    The SDK itself waits for ever where it expects a long answer: pulling, importing, archives.
    """

    def send(self, request: PreparedRequest, **settings: Any) -> Response:
        """Send a request; one that asks for no deadline gets the client's."""
        settings["timeout"] = settings.get("timeout") or self.timeout
        response: Response = super().send(request, **settings)
        return response

    def _disable_socket_timeout(self, socket: object) -> None:
        """Leave the deadline that the SDK would take from the socket of a streamed answer."""


def within(seconds: float, stream: Iterable[T]) -> Iterator[T]:
    """Yield a streamed answer; raise MachineError when it is not at its end in time."""
    deadline = time.monotonic() + seconds
    for part in stream:
        if time.monotonic() > deadline:
            raise MachineError(
                f"the engine was not done after {seconds:g} s; look at its log, or try again"
            )
        yield part
