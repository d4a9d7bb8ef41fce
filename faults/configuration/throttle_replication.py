"""Replication that is throttled (KIP-73): a broker sends, or asks for, so many bytes a second."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from kchaos.checkers import acts
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.configuration.configure_topic import ConfigureTopic, taking_over
from kchaos.faults.view import ClusterView, unable


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleReplication(CheckedFault):
    """Followers that are not in sync get little of a topic, as while replicas are reassigned.

    Who is in sync is never throttled. A quota is one of some seconds: what exceeds it at once keeps
    the broker still until it is made up for. Healing takes the rate away; the list of throttled
    replicas stays with the topic, and does nothing by itself.

    Attributes:
        broker: Whose rate it is.
        topic: All of its replicas are throttled.
        bytes_per_second: The rate.
        side: Whether the broker is throttled as a leader, which then answers a fetch with nothing,
            or as a follower, which then does not fetch.
    """

    broker: int
    topic: str
    bytes_per_second: int
    side: Literal["leader", "follower"] = "leader"
    timeout_s: float = 30

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = ConfigureTopic.performs

    def available(self, view: ClusterView) -> str:
        """Check that the brokers run and see changes of a topic's configuration."""
        return unable(view, self.broker) or self._replicas.available(view)

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Throttle the broker; yield once every running broker has the list of replicas.

        A broker that does not run takes both over at its start.

        Raises:
            FaultError: There is no such topic.
            AwaitTimeout: A broker did not take it over.
        """
        with self._replicas.inject(cluster, journal):
            rate = {f"{self.side}.replication.throttled.rate": str(self.bytes_per_second)}
            before = cluster.metadata.broker_configuration(self.broker)
            try:
                self._configure(cluster, {**before, **rate})
                yield Injection(
                    fault="ThrottleReplication", before=dict(before), effect={**before, **rate}
                )
            finally:
                after = dict(cluster.metadata.broker_configuration(self.broker))
                for name in rate:
                    after.pop(name, None)
                self._configure(cluster, after)

    @property
    def _replicas(self) -> ConfigureTopic:
        return ConfigureTopic(
            topic=self.topic,
            configuration=((f"{self.side}.replication.throttled.replicas", "*"),),
            timeout_s=self.timeout_s,
        )

    def _configure(self, cluster: Cluster, configuration: dict[str, str]) -> None:
        """Tell the broker; who does not run, stands still or is cut off hears of it later."""
        taking = taking_over(cluster, (self.broker,))
        # Twice: see `TakingOver`.
        cluster.metadata.configure_broker(self.broker, configuration)
        cluster.metadata.configure_broker(self.broker, configuration)
        for broker in taking.logged:
            taking.await_taken_over(broker, f"brokers/{broker}", timeout_s=self.timeout_s)
