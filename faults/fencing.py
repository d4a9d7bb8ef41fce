"""Fencing a broker: how KRaft controllers are told that it is dead, or should count as that."""

from kchaos.checkers import acts
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.api import Cluster
from kchaos.clusters.errors import MetadataRefused
from kchaos.faults.api import Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import observe_broker


def fence_registered(cluster: Cluster, journal: Journal, before: BrokerSeen) -> None:
    """Fence the broker with this registration.

    Raises:
        NoEffect: The controller refused, and the registration is still there.
    """
    assert before.czxid is not None
    try:
        with journal.acting(acts.FenceBroker(broker=before.broker, broker_epoch=before.czxid)):
            cluster.metadata.fence(before.broker)
    except MetadataRefused as error:
        # Its session may have ended by itself meanwhile.
        if observe_broker(cluster, before.broker).czxid == before.czxid:
            raise NoEffect(str(error)) from error
