"""A controller of a KRaft cluster: a JVM like a broker's, with another role."""

from __future__ import annotations

from dataclasses import dataclass

from kchaos.clusters.errors import ClusterError
from kchaos.clusters.jvm_broker import JvmBroker
from kchaos.clusters.probe import answers
from kchaos.clusters.waiting import await_until

HEAP_MIB = 128


@dataclass(slots=True)
class JvmController(JvmBroker):
    """A controller of a JvmCluster: it is killed, paused and started as a broker is.

    ``client_address`` is its only listener, as this machine reaches it.
    """

    def await_ready(self, timeout_s: float = 60) -> None:
        """Return once it answers and the controllers have a leader.

        Raises BrokerExited at once when its process ends, AwaitTimeout after ``timeout_s``.
        """
        if self._process is None:
            raise ClusterError(f"{self.name} was never started")
        await_until(
            lambda: (
                answers(self.place.client_port.number)
                and self.place.metadata().controller() is not None
            ),
            timeout_s=timeout_s,
            waiting_for=f"{self.name} ({self.release}) to answer at {self.client_address}, and for "
            "a leader of the controllers",
            last_seen=lambda: f"the leader is {self.place.metadata().controller()}",
            remedy=f"see {self.server_log}; most of the controllers must run",
            abort=self.check_running,
        )
