"""A message format that is older than the one before."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import (
    BROKER_FORMAT,
    TOPIC_FORMAT,
    broker_settings_refused,
    magic_of_format,
)
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.configuration.configure_topic import ConfigureTopic
from kchaos.faults.errors import NotAvailable
from kchaos.faults.process.roll_broker import RollBroker
from kchaos.faults.view import BrokerView, ClusterView, needs_zookeeper, unable, view_of


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatDowngrade(CheckedFault):
    """New records are written in an older format than those that are there.

    KAFKA-7601 is about what that does to epochs and to old clients. Of a broker the format changes
    by a restart, of a topic while brokers run. There is nothing to heal: to go back up is another
    change (`RollBroker`, `ConfigureTopic`).

    Attributes:
        message_format: Such as "0.10.2".
        broker: Whose `log.message.format.version` it becomes, or None.
        topic: Whose `message.format.version` it becomes, or None; one of both is given.
    """

    message_format: str
    broker: int | None = None
    topic: str | None = None

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (
        *RollBroker.performs,
        *ConfigureTopic.performs,
    )

    def available(self, view: ClusterView) -> str:
        """Check for a broker or a topic, and for a format older than its brokers write."""
        if (self.broker is None) == (self.topic is None):
            return "give a broker or a topic whose message format goes down"
        why_not = unable(view, self.broker) or needs_zookeeper(
            view, "its brokers ignore message formats (KIP-724); there is no older one to go to"
        )
        if why_not:
            return why_not
        concerned = (
            view.brokers if self.broker is None else {self.broker: view.brokers[self.broker]}
        )
        for broker, broker_view in concerned.items():
            why_not = self._is_none(broker, broker_view)
            if why_not:
                return why_not
        return self._change().available(view)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Change the format; yield once brokers write the older one.

        Raises:
            NotAvailable: It is no downgrade; for a topic also if it has an older format already.
        """
        if self.topic is not None:
            own = cluster.metadata.topic_configuration(self.topic).get(TOPIC_FORMAT)
            for broker, broker_view in view_of(cluster).brokers.items():
                why_not = self._is_none(broker, broker_view, own)
                if why_not:
                    raise NotAvailable(why_not)
        with self._change().inject(cluster, journal) as injection:
            yield Injection(
                fault="FormatDowngrade", before=injection.before, effect=injection.effect
            )

    def _change(self) -> RollBroker | ConfigureTopic:
        if self.broker is not None:
            settings = ((BROKER_FORMAT, self.message_format),)
            return RollBroker(broker=self.broker, properties=settings)
        assert self.topic is not None
        return ConfigureTopic(
            topic=self.topic, configuration=((TOPIC_FORMAT, self.message_format),)
        )

    def _is_none(self, broker: int, view: BrokerView, own: str | None = None) -> str:
        """Return why it is no downgrade of what the broker writes; `own` is the topic's format."""
        release = release_of(view.release)
        wanted = {**view.properties, BROKER_FORMAT: self.message_format}
        refused = broker_settings_refused(release, wanted)
        if refused:
            return f"broker {broker}: {refused}"
        before = magic_of_format(release, view.properties, own)
        after = magic_of_format(release, view.properties, self.message_format)
        if after < before:
            return ""
        return (
            f"broker {broker} ({view.release}) writes magic {before}, and would write magic "
            f"{after} with {self.message_format}: that is no downgrade"
        )
