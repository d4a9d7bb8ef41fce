"""One step of a rolling upgrade: a broker stops cleanly and returns as something else."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from kchaos.checkers import acts, observations
from kchaos.clusters.api import Cluster, Killable, Restartable, Stage
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import judging_release_of, release_of
from kchaos.clusters.settings import broker_settings_refused
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import node_of, observe_broker
from kchaos.faults.process import restart
from kchaos.faults.view import ClusterView, down, off_metadata, paused, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBroker(CheckedFault):
    """SIGTERM, and a new start with another release, with other properties, or with both.

    `broker` may be a KRaft controller; Kafka has them rolled before the brokers.

    There is nothing left to heal: the broker stays what it became.

    Attributes:
        kafka: A release or a path; "" for the one that it runs.
        properties: (name, value), added to the broker's own.
        judged_as: The release whose rules the other Kafka is judged by; "" for its own, or the
            nearest one to a build that was not published.
        stage: The stage of a migration from ZooKeeper to KRaft that it enters; "" for its own.
    """

    broker: int
    kafka: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    judged_as: str = ""
    stage: Literal["", Stage] = ""
    timeout_s: float = 60

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        acts.StopBroker,
        acts.ExpireSession,
        acts.StartBroker,
    )

    def available(self, view: ClusterView) -> str:
        """Check that the broker can be stopped cleanly, and takes the settings.

        Whether another Kafka takes them is known once that was found, when it is injected.
        """
        why_not = (
            unable(view, self.broker, Killable, Restartable, or_controller=True)
            or down(view, self.broker, "stop")
            or paused(view, self.broker)
            or off_metadata(view, self.broker)
            or (
                ""
                if self.kafka or self.properties or self.stage
                else "name a Kafka, or properties, to roll to"
            )
            or _judged_wrongly(self.judged_as)
        )
        if why_not or self.kafka:
            return why_not
        broker_view = view.nodes[self.broker]
        properties = {**broker_view.properties, **dict(self.properties)}
        return broker_settings_refused(release_of(broker_view.release), properties)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Restart the broker; yield once it is registered again and answers.

        Raises:
            BrokerExited: It does not start with these settings.
            AwaitTimeout: It did not stop, or did not come back.
            NoEffect: It has another registration, and not another process.
        """
        broker = node_of(cluster, self.broker)
        before = observe_broker(cluster, self.broker)
        had: dict[str, str | None] = {"release": broker.release, "build": broker.build}
        had |= {name: broker.properties.get(name) for name, _ in self.properties}
        above_czxid = before.czxid or 0
        try:
            with journal.acting(acts.StopBroker(broker=self.broker, clean=True)):
                broker.stop(self.timeout_s)
            gone = observations.BrokerGone(broker=self.broker, exit_code=broker.exit_code)
            journal.observed(gone)
            restart.start_again(
                cluster,
                journal,
                broker,
                above_czxid=above_czxid,
                kafka=self.kafka or None,
                properties=dict(self.properties),
                judged_as=self.judged_as or None,
                stage=self.stage or None,
            )
        except BaseException:
            restart.undo_unfinished(cluster, journal, broker, above_czxid=above_czxid)
            raise
        after = observe_broker(cluster, self.broker)
        if after.pid == before.pid:
            raise NoEffect(f"broker {self.broker} did not end: {before} is still {after}")
        has = {"release": broker.release, "build": broker.build, **dict(self.properties)}
        has |= {"stage": self.stage} if self.stage else {}
        yield Injection(
            fault="RollBroker",
            before={**before.to_json(), **had},
            effect={**after.to_json(), **has},
        )


def _judged_wrongly(judged_as: str) -> str:
    try:
        if judged_as:
            judging_release_of(judged_as)
    except ReleaseError as error:
        return str(error)
    return ""
