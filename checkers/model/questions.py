"""What the question of a fetcher says of its thread, and whether its leader can read it."""

from kchaos.checkers.model.exchange import FETCH
from kchaos.checkers.model.observations import Question
from kchaos.checkers.model.request_versions import can_read
from kchaos.checkers.model.state import Broker
from kchaos.checkers.model.world import World


def is_farewell(world: World, seen: Question) -> bool:
    """Tell whether a thread that has lost its last partition tells its leader just that.

    It may, between `removeFetcherForPartitions` and `shutdownIdleFetcherThreads` of the request
    that took the partition from it (ReplicaManager.becomeLeaderOrFollower, 1.1.1 to 3.9). What it
    had asked before is answered to nobody: the record in that answer is never appended.
    """
    is_empty = seen.api == FETCH and not seen.partitions and not seen.is_full
    return is_empty and world.thread(seen.follower, seen.leader) is None


def is_readable(leader: Broker, seen: Question) -> bool:
    """Tell whether a leader's release has the version of the request."""
    release = leader.generation.versions.release
    return seen.version is None or can_read(release, seen.api, seen.version)
