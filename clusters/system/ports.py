"""Ports on 127.0.0.1 that two kchaos at once do not both take."""

import random
import socket
from dataclasses import dataclass, field

from kchaos.clusters.errors import MachineError

# Below the range from which the kernel gives outgoing connections their ports: a broker that
# is down for a while must find its port free when it comes back.
_FIRST, _LAST = 20000, 32000
_random = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class ReservedPort:
    """A port of 127.0.0.1 that is ours until ``release`` or until this process ends.

    The reservation is an abstract socket named after the port: the kernel keeps it per network
    namespace, exactly as it keeps ports, and drops it with the process.
    """

    number: int
    _token: socket.socket = field(repr=False)

    def release(self) -> None:
        """Give the port back."""
        self._token.close()


def reserve_port() -> ReservedPort:
    """Return a free port; raise MachineError when none is found."""
    for number in _random.sample(range(_FIRST, _LAST), 400):
        token = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            token.bind(f"\0kchaos-port-{number}")
        except OSError:
            token.close()
            continue
        if is_free(number):
            return ReservedPort(number, token)
        token.close()
    raise MachineError(
        f"no free port on 127.0.0.1 between {_FIRST} and {_LAST}; stop the listener there"
    )


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port of 127.0.0.1 now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
