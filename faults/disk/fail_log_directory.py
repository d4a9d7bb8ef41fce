"""A log directory that fails while its broker goes on with the others (KIP-112)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.clusters.api import Cluster, Collectable, Killable, Restartable
from kchaos.clusters.start.log_directories import fail, replica_directory, replicas_in, restore
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import FaultError
from kchaos.faults.observation import await_unregistered, observe_broker
from kchaos.faults.process.restart import start_again
from kchaos.faults.view import ClusterView, down, paused, unable
from kchaos.faults.zookeeper.expire_session import end_registered_session

_PROTOCOL = "inter.broker.protocol.version"
_FIRST, _FIRST_KRAFT = (1, 0), (3, 7)
_NOTICED = re.compile(rb"Stopped serving replicas in dir ")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailLogDirectory(CheckedFault):
    """A file lies where one of a running broker's log directories was.

    The broker notices when it checkpoints high watermarks, every
    `replica.high.watermark.checkpoint.interval.ms`, takes its replicas there offline, and tells the
    controller. Until then it goes on with the files that it has open. On healing the broker is
    killed, the directory is back as it was, and the broker is started. With KRaft it acts from 3.7
    on (KIP-858); a broker ends where the directory with its metadata log fails, its first one.

    Attributes:
        topic: With `partition`, a replica that lies in that log directory, maybe with others.
        partition: See `topic`.
    """

    broker: int
    topic: str
    partition: int
    timeout_s: float = 60

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.FailLogDirectory,
        acts.StopBroker,
        acts.ExpireSession,
        acts.RestoreLogDirectory,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs, and has another log directory left."""
        broker = self.broker
        why_not = (
            unable(view, broker, Killable, Restartable, Collectable)
            or down(view, broker, "lose a disk")
            or paused(view, broker)
        )
        if why_not:
            return why_not
        seen = view.brokers[broker]
        if seen.failed_log_directories:
            return f"a log directory of broker {broker} has failed already: heal that first"
        if seen.log_directories == 1:
            return f"broker {broker} has one log directory: give it several (log_directories)"
        if view.is_kraft:
            oldest = min(_version(node.release) for node in (seen, *view.controllers.values()))
            why = "controllers learn of failed directories from 3.7 on (KIP-858)"
            return "" if oldest >= _FIRST_KRAFT else why
        oldest = min(_version(seen.release), _version(seen.properties.get(_PROTOCOL, "9")))
        why = f"broker {broker} ends where a disk fails: it goes on from 1.0 on, at protocol 1.0"
        return "" if oldest >= _FIRST else why

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Fail the directory; yield once the broker has taken its replicas there offline.

        Raises:
            FaultError: The broker has no such replica, or its metadata log lies there too.
            AwaitTimeout: The broker did not notice.
        """
        broker = cluster.brokers[self.broker]
        directory = replica_directory(broker.log_directories, self.topic, self.partition).parent
        partitions = replicas_in(directory)
        if (self.topic, self.partition) not in partitions:
            raise FaultError(f"broker {self.broker} has no {self.topic}-{self.partition}")
        number = broker.log_directories.index(directory)
        if cluster.controllers and number == 0:
            raise FaultError(
                f"{self.topic}-{self.partition} lies where broker {self.broker} has its metadata "
                "log, without which the broker ends: use KillBroker and WipeLogDirectory"
            )
        failed = acts.FailLogDirectory(broker=self.broker, directory=number, partitions=partitions)
        logged = broker.server_log.stat().st_size
        before = observe_broker(cluster, self.broker)
        try:
            with journal.acting(failed):
                fail(directory)
                await_until(
                    lambda: _NOTICED.search(broker.server_log.read_bytes()[logged:]),
                    timeout_s=self.timeout_s,
                    waiting_for=f"broker {self.broker} to take {directory} offline",
                    last_seen=lambda: last_lines([broker.server_log]),
                    remedy=f"see {broker.server_log}",
                    abort=broker.check_running,
                )
            yield Injection(
                fault="FailLogDirectory",
                before=before.to_json(),
                effect={"partitions": [list(each) for each in partitions]},
            )
        finally:
            self._heal(cluster, journal, number)

    def _heal(self, cluster: Cluster, journal: Journal, number: int) -> None:
        broker = cluster.brokers[self.broker]
        before = observe_broker(cluster, self.broker)
        was_running = broker.is_running
        if was_running:
            with journal.acting(acts.StopBroker(broker=self.broker, clean=False)):
                broker.kill()
            gone = observations.BrokerGone(broker=self.broker, exit_code=broker.exit_code)
            journal.observed(gone)
            end_registered_session(cluster, journal, before)
            await_unregistered(cluster, self.broker)
        with journal.acting(acts.RestoreLogDirectory(broker=self.broker, directory=number)):
            restore(broker.log_directories[number])
        if was_running:
            start_again(cluster, journal, broker, above_czxid=before.czxid or 0)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])
