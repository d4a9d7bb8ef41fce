"""A broker that is back before anybody has noticed that it was gone."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.clusters.api import Cluster, Killable, Restartable
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import observe_broker
from kchaos.faults.process.restart import start_again, undo_unfinished
from kchaos.faults.view import ClusterView, down, needs_zookeeper, off_metadata, unable
from kchaos.faults.zookeeper.expire_session import end_registered_session


@dataclass(frozen=True, slots=True, kw_only=True)
class FastBounce(CheckedFault):
    """kill -9, the old session ended from outside, and at once a new start.

    The result is a new process, a new session and a greater czxid, without the wait for
    `zookeeper.session.timeout.ms`. KIP-380 and KAFKA-1120 are about what brokers make of it.
    There is nothing left to heal.
    """

    broker: int

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StopBroker,
        acts.ExpireSession,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker runs and reaches ZooKeeper, so that it can register again."""
        return (
            needs_zookeeper(
                view,
                "they register no second process of a broker while its session lasts, so a bounce "
                "is never missed; use KillBroker",
            )
            or unable(view, self.broker, Killable, Restartable)
            or down(view, self.broker, "bounce")
            or off_metadata(view, self.broker)
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Bounce the broker; yield once it is registered again and answers.

        Raises:
            NoEffect: Observation does not show a bounce.
            BrokerExited, AwaitTimeout: It did not come back.
        """
        broker = cluster.brokers[self.broker]
        before = observe_broker(cluster, self.broker)
        above_czxid = before.czxid or 0
        try:
            with journal.acting(acts.StopBroker(broker=self.broker, clean=False)):
                broker.kill()
            gone = observations.BrokerGone(broker=self.broker, exit_code=broker.exit_code)
            journal.observed(gone)
            end_registered_session(cluster, journal, before)
            start_again(cluster, journal, broker, above_czxid=above_czxid)
        except BaseException:
            undo_unfinished(cluster, journal, broker, above_czxid=above_czxid)
            raise
        after = observe_broker(cluster, self.broker)
        if after.pid == before.pid or after.session_id == before.session_id:
            raise NoEffect(f"broker {self.broker} was not bounced: {before} is still {after}")
        yield Injection(fault="FastBounce", before=before.to_json(), effect=after.to_json())
