"""A topic's own settings, changed while brokers run."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker, Cluster, Collectable
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import topic_settings_refused
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import Injection, Journal, require_available
from kchaos.faults.errors import FaultError
from kchaos.faults.view import BrokerView, ClusterView, needs_zookeeper, off_metadata, unable


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


def await_taken_over(broker: Broker, since: int, entity_path: str, *, timeout_s: float) -> None:
    """Wait until a broker has handled two notifications of a configuration.

    It says so before it takes a change over, and handles one after the other: when it speaks of the
    second, it is done with the first.

    Args:
        broker: Who runs.
        since: Size of its server.log before the notifications.
        entity_path: Whose configuration it is, such as "topics/t".
        timeout_s: For how long.
    """
    said = f"Processing override for entityPath: {entity_path} with".encode()

    def count() -> int:
        with broker.server_log.open("rb") as log:
            log.seek(since)
            return log.read().count(said)

    await_until(
        lambda: count() >= 2,
        timeout_s=timeout_s,
        waiting_for=f"broker {broker.id} to take over the configuration of {entity_path}",
        last_seen=lambda: f"{count()} of 2 notifications handled",
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigureTopic:
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
        """Check that every broker takes the settings and each running one reaches ZooKeeper."""
        unsaid = needs_zookeeper(
            view,
            "no broker says there when it has taken a topic's settings over; give them when the "
            "topic is created",
        )
        if unsaid:
            return unsaid
        refused = refused_by_brokers(view.brokers, dict(self.configuration))
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

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Write the settings; yield once every running broker has applied them.

        Raises:
            FaultError: There is no such topic.
            AwaitTimeout: A broker did not take them over.
        """
        require_available(self, cluster)
        metadata = cluster.metadata
        if self.topic not in metadata.topics():
            raise FaultError(f"there is no topic {self.topic!r}: create it first")
        before = metadata.topic_configuration(self.topic)
        after = {**before, **dict(self.configuration)}
        running = [broker for broker in cluster.brokers.values() if broker.is_running]
        logged = {broker.id: broker.server_log.stat().st_size for broker in running}
        # Twice: see `await_taken_over`.
        metadata.configure_topic(self.topic, after)
        metadata.configure_topic(self.topic, after)
        for broker in running:
            act = acts.AdoptTopicConfiguration(
                broker=broker.id, topic=self.topic, configuration=tuple(sorted(after.items()))
            )
            with journal.acting(act):
                await_taken_over(
                    broker, logged[broker.id], f"topics/{self.topic}", timeout_s=self.timeout_s
                )
        yield Injection(
            fault="ConfigureTopic",
            before={"configuration": dict(before)},
            effect={"configuration": after, "brokers": sorted(logged)},
        )
