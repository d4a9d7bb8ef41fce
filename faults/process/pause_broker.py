"""A broker that stands still, as a long garbage collection looks from outside."""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.api import Broker, Cluster, Pausable
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.observation import node_of, observe_broker
from kchaos.faults.view import ClusterView, down, paused, unable
from kchaos.faults.zookeeper.activity import await_heard, packets_of

# Size, API key 18, version 0, correlation id 1, no client id: every release answers it.
_API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBroker(CheckedFault):
    """The process stands still; its connections stay open and nothing is answered.

    Its session ends when it stands still for longer than `zookeeper.session.timeout.ms`, at the
    earliest after two thirds of that; with KRaft it is fenced after `broker.session.timeout.ms`.
    What is in its sockets when it goes on is handled then.

    Attributes:
        broker: Its id, or that of a KRaft controller.
        await_return: Whether leaving waits for the broker to answer and, if its session has
            ended meanwhile, to register again. A broker that another fault cuts off from
            ZooKeeper cannot do that.
    """

    broker: int
    await_return: bool = True

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.PauseBroker, acts.ResumeBroker)

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs and is not paused."""
        return (
            unable(view, self.broker, Pausable, or_controller=True)
            or down(view, self.broker, "pause")
            or paused(view, self.broker)
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Pause the process; yield once it is observed stopped; resume it on leaving."""
        broker = node_of(cluster, self.broker)
        before = observe_broker(cluster, self.broker)
        try:
            with journal.acting(acts.PauseBroker(broker=self.broker)):
                broker.pause()
                # Its threads stop one by one: what they do until then is before the act.
                _await_paused(broker, True)
            yield Injection(
                fault="PauseBroker", before=before.to_json(), effect={"is_paused": broker.is_paused}
            )
        finally:
            # Another process than the one that was paused needs no resuming.
            if before.pid is not None and broker.pid == before.pid:
                self._resume(cluster, journal, broker, before)

    def _resume(
        self, cluster: Cluster, journal: Journal, broker: Broker, before: BrokerSeen
    ) -> None:
        # It sends nothing while it stands still, so what ZooKeeper has heard is from before.
        heard = packets_of(cluster, before)
        try:
            with journal.acting(acts.ResumeBroker(broker=self.broker)):
                broker.resume()
        finally:
            # Also when the journal fails: a process that stands still outlives the harness.
            if broker.is_running:
                broker.resume()
        _await_paused(broker, False)
        if self.await_return and before.czxid is not None:
            _await_answer(broker)
            await_heard(cluster, before, heard)


def answers(address: str, timeout_s: float) -> bool:
    """Return whether "host:port" answers an ApiVersions request within the time."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=timeout_s) as connection:
            connection.sendall(_API_VERSIONS_REQUEST)
            return len(connection.recv(4)) > 0
    except OSError:
        return False


def _await_answer(broker: Broker) -> None:
    await_until(
        lambda: answers(broker.client_address, timeout_s=2),
        timeout_s=60,
        waiting_for=f"broker {broker.id} to answer at {broker.client_address} after its pause",
        last_seen=lambda: f"no answer, paused: {broker.is_paused}",
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )


def _await_paused(broker: Broker, paused: bool) -> None:
    """Wait until the process is frozen, or no longer frozen."""
    await_until(
        lambda: broker.is_paused is paused,
        timeout_s=10,
        waiting_for=f"broker {broker.id} to be {'paused' if paused else 'going on'}",
        last_seen=lambda: f"paused: {broker.is_paused}",
        abort=broker.check_running,
    )
