"""A leader epoch checkpoint that is torn, and the broker that tries to start with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker, Cluster
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.disk.epoch_checkpoint import epoch_checkpoint, stopped_with_epochs
from kchaos.faults.observation import await_unregistered
from kchaos.faults.process.restart import start_of
from kchaos.faults.view import CLEAN_SHUTDOWN, ClusterView


@dataclass(frozen=True, slots=True, kw_only=True)
class TearEpochs(CheckedFault):
    """A killed broker's `leader-epoch-checkpoint` has lost its last line, and it starts with that.

    It finds fewer entries than the file says, gives its log directory up and ends. Then the file is
    removed, as an operator would do, so that the broker can be started again by whoever killed it.
    A newer release ends in order and marks its log directory as shut down cleanly, although it was
    not: the act says which it was.

    Attributes:
        broker: Its id; it was killed.
        topic: Of the partition whose file it is.
        partition: See `topic`.
    """

    broker: int
    topic: str
    partition: int
    timeout_s: float = 60

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StartBroker,
        acts.StopBroker,
        acts.LoseEpochs,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker was killed and its release has such files."""
        why_not = stopped_with_epochs(view, self.broker)
        if not why_not and view.brokers[self.broker].was_stopped_cleanly:
            return (
                f"broker {self.broker} was stopped cleanly, which its start in vain would undo: "
                "use KillBroker"
            )
        return why_not

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Tear the file, start the broker, and yield once the broker has ended by itself.

        Raises:
            FaultError: There is no such file.
            AwaitTimeout: The broker did not end; it is killed then.
        """
        file = epoch_checkpoint(cluster, self.broker, self.topic, self.partition)
        broker = cluster.brokers[self.broker]
        await_unregistered(cluster, self.broker)
        before = file.read_text()
        lines = before.splitlines(keepends=True)
        file.write_text("".join(lines[:-1]))
        try:
            with journal.acting(start_of(broker)):
                broker.start()
            await_until(
                lambda: not broker.is_running,
                timeout_s=self.timeout_s,
                waiting_for=f"broker {self.broker} to end because of {file}",
                last_seen=lambda: last_lines([broker.server_log]),
                remedy=f"does its release read the file at all? see {broker.server_log}",
            )
        finally:
            ended = acts.StopBroker(broker=self.broker, clean=_is_marked_clean(broker))
            with journal.acting(ended):
                broker.kill()
            lost = acts.LoseEpochs(broker=self.broker, topic=self.topic, partition=self.partition)
            with journal.acting(lost):
                file.unlink(missing_ok=True)
        yield Injection(
            fault="TearEpochs",
            before={"text": before},
            effect={"exit_code": broker.exit_code, "said": last_lines([broker.server_log])},
        )


def _is_marked_clean(broker: Broker) -> bool:
    return not broker.is_running and (broker.log_directory / CLEAN_SHUTDOWN).exists()
