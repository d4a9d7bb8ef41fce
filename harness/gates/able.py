"""Which brokers can take part now: those that run, answer, and are not kept from each other."""

from collections.abc import Iterable

from kchaos.clusters.api import Broker, Disconnectable, Pausable
from kchaos.harness.play.play import Play


def is_able(broker: Broker) -> bool:
    """Whether its process runs, is not paused and has its network."""
    if not broker.is_running:
        return False
    if isinstance(broker, Pausable) and broker.is_paused:
        return False
    return not isinstance(broker, Disconnectable) or broker.is_connected


def may_keep_back(play: Play, source: int, target: int | None) -> bool:
    """Whether a cut or a hold may concern what one asks of the other, None for ZooKeeper."""
    return play.cluster.links is not None and play.cluster.links.may_keep_back(source, target)


def able_brokers(play: Play, among: Iterable[int]) -> set[int]:
    """Those that are able, and that nothing keeps from ZooKeeper."""
    return {
        broker
        for broker in among
        if is_able(play.cluster.brokers[broker]) and not may_keep_back(play, broker, None)
    }


def able_followers(
    play: Play, replicas: Iterable[int], leader: int, able: Iterable[int]
) -> list[int]:
    """The replicas among the able brokers that nothing keeps from asking the leader."""
    among = set(able)
    return [
        one
        for one in replicas
        if one in among and one != leader and not may_keep_back(play, one, leader)
    ]
