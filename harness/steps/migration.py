"""Steps of a migration from ZooKeeper to KRaft, beside the rolls: `RollBroker` with a stage.

Source: Kafka's documentation of operations, ZooKeeper to KRaft migration (docs/ops.html).
"""

from dataclasses import dataclass

from kchaos.clusters.api import MigrationState
from kchaos.clusters.links import ApiKey
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import links_of
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionControllers:
    """KRaft controllers start with the cluster's id, in migration mode."""

    def perform(self, play: Play) -> None:
        """Start them; they have a leader then, and wait for every broker."""
        play.cluster.provision_controllers()


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitMigration:
    """The migration has come to a state, by the metadata log.

    `migration` is dual write: `/controller` has the KRaft controller's epoch, too, and `/migration`
    the offset of what was copied. From then on the controllers are asked for metadata.
    """

    state: MigrationState
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until it is so, or raise AwaitTimeout."""
        play.cluster.await_migration(
            self.state, timeout_s=self.timeout_s, abort=gates.no_exit(play)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeprovisionControllers:
    """KRaft controllers stop, and `/controller` is deleted: the way back to ZooKeeper.

    A broker that is stopped before it hears of the new controller waits five minutes for the
    controllers that are gone (KafkaServer.controlledShutdown, 3.8.0).
    """

    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Do it; wait until a broker is the controller and each has answered its UpdateMetadata."""
        links = links_of(play.cluster)
        since = links.next_sequence
        was_deciding = play.cluster.is_kraft
        play.cluster.deprovision_controllers()
        brokers = play.cluster.brokers

        def missing() -> list[int]:
            elected = play.cluster.metadata.controller()
            told = {
                record.target
                for record in links.log(since, ApiKey.UPDATE_METADATA)
                if (record.source, record.direction) == (elected, "response")
            }
            return [broker for broker in brokers if elected not in brokers or broker not in told]

        await_until(
            lambda: not was_deciding or not missing(),
            timeout_s=self.timeout_s,
            waiting_for="a broker to become the controller, and each to answer its UpdateMetadata",
            last_seen=lambda: f"controller {play.cluster.metadata.controller()}; not {missing()}",
            remedy="see the brokers' server.log for KafkaController",
            abort=gates.no_exit(play),
        )
