"""A topic's own settings, changed while brokers run."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker, Cluster, Collectable
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import topic_settings_refused
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Injection, Journal
from kchaos.faults.errors import FaultError
from kchaos.faults.observation import await_metadata_read
from kchaos.faults.view import BrokerView, ClusterView, off_metadata, unable, unlinked, view_of


def refused_by_brokers(
    brokers: Mapping[int, BrokerView] | Mapping[int, Broker], configuration: Mapping[str, str]
) -> str:
    """Return why a broker does not take these settings of a topic, or ""."""
    for broker, view_of_broker in brokers.items():
        refused = topic_settings_refused(
            release_of(view_of_broker.release), view_of_broker.properties, configuration
        )
        if refused:
            return f"broker {broker}: {refused}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakingOver:
    """Where the evidence that brokers take a configuration over begins, before it is written.

    Attributes:
        logged: Size of the server.log of each broker that runs and hears of the change.
        sequence: The next record of the links.
    """

    cluster: Cluster
    logged: Mapping[int, int]
    sequence: int

    def await_taken_over(self, broker: int, entity_path: str, *, timeout_s: float) -> None:
        """Wait until a broker has taken over the configuration of a path, such as "topics/t".

        With ZooKeeper it was written twice. A broker logs a change before it takes it over, and
        handles one after the other: when it speaks of the second, it is done with the first. With
        KRaft the broker's heartbeats show how far it has come in the metadata log.

        Raises:
            AwaitTimeout: It did not.
            BrokerExited: Its process ended.
        """
        if self.cluster.controllers:
            await_metadata_read(self.cluster, broker, timeout_s=timeout_s, since=self.sequence)
            return
        node = self.cluster.brokers[broker]
        said = f"Processing override for entityPath: {entity_path} with".encode()

        def count() -> int:
            with node.server_log.open("rb") as log:
                log.seek(self.logged[broker])
                return log.read().count(said)

        await_until(
            lambda: count() >= 2,
            timeout_s=timeout_s,
            waiting_for=f"broker {broker} to take over the configuration of {entity_path}",
            last_seen=lambda: f"{count()} of 2 notifications handled",
            remedy=f"see {node.server_log}",
            abort=node.check_running,
        )


def taking_over(cluster: Cluster, brokers: Iterable[int]) -> TakingOver:
    """Return the beginning of what these brokers do now, without those that hear of it later."""
    view = view_of(cluster)
    hearing = [
        broker
        for broker in brokers
        if view.brokers[broker].is_running
        and not view.brokers[broker].is_paused
        and not off_metadata(view, broker)
    ]
    return TakingOver(
        cluster=cluster,
        logged={each: cluster.brokers[each].server_log.stat().st_size for each in hearing},
        sequence=0 if cluster.links is None else cluster.links.next_sequence,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopic(CheckedFault):
    """Settings of a topic's own are added or replaced, as `kafka-configs --alter` does it.

    Every broker that runs has taken them over when this returns; one that does not takes them at
    its start. What is written to the topic meanwhile may meet either. There is nothing to heal.

    Attributes:
        topic: Its name.
        configuration: (name, value) of what changes, such as "message.format.version".
    """

    topic: str
    configuration: tuple[tuple[str, str], ...]
    timeout_s: float = 30

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.AdoptTopicConfiguration,)

    def available(self, view: ClusterView) -> str:
        """Check that every broker takes the settings, and each running one hears of them."""
        refused = (unlinked(view) if view.is_kraft else "") or refused_by_brokers(
            view.brokers, dict(self.configuration)
        )
        if refused:
            return refused
        for broker, broker_view in view.brokers.items():
            if not broker_view.is_running:
                continue
            if broker_view.is_paused:
                return f"broker {broker} is paused and would not hear of it: heal that first"
            why_not = unable(view, broker, Collectable) or off_metadata(view, broker)
            if why_not:
                return why_not
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Write the settings; yield once every running broker has applied them.

        Raises:
            FaultError: There is no such topic.
            AwaitTimeout: A broker did not take them over.
        """
        metadata = cluster.metadata
        if self.topic not in metadata.topics():
            raise FaultError(f"there is no topic {self.topic!r}: create it first")
        before = metadata.topic_configuration(self.topic)
        after = {**before, **dict(self.configuration)}
        taking = taking_over(cluster, cluster.brokers)
        # Twice: see `TakingOver`.
        metadata.configure_topic(self.topic, after)
        metadata.configure_topic(self.topic, after)
        for broker in taking.logged:
            act = acts.AdoptTopicConfiguration(
                broker=broker, topic=self.topic, configuration=tuple(sorted(after.items()))
            )
            with journal.acting(act):
                taking.await_taken_over(broker, f"topics/{self.topic}", timeout_s=self.timeout_s)
        yield Injection(
            fault="ConfigureTopic",
            before={"configuration": dict(before)},
            effect={"configuration": after, "brokers": sorted(taking.logged)},
        )
