"""Lag of followers: a machine with a clock counts how often the lag has passed.

What a leader knows of a follower is `in_sync.Follower`, with such counts for times. A machine
whose faults have no lags has no clock: whoever is behind may have been so for long enough.
"""

from dataclasses import replace

from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.broker.leader import NO_FETCH_YET
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import Exchange
from kchaos.studies.explore.actions import PassLag
from kchaos.studies.explore.bounds import LAGS, PARTITION, Machine
from kchaos.studies.explore.controller import spend
from kchaos.studies.explore.in_sync import FetchRead, Follower

Followers = dict[int, Follower]


def pass_lag(world: World, machine: Machine, _: PassLag) -> bool:
    """Let the lag pass; what leaders knew before is noted, since they may not have noted it yet."""
    if not spend(world, "lags"):
        return False
    for broker in machine.generations:
        replica = world.replica(broker, PARTITION)
        if replica is not None and replica.role is Role.LEADER:
            _note(world, broker, replica, followers_of(world, broker, replica))
    world.put(LAGS, _passed(world) + 1)
    return True


def has_lagged(world: World, machine: Machine, leader: int, follower: int) -> bool:
    """Return whether the lag has passed since the leader last saw the follower caught up."""
    if not machine.faults.lags:
        return True
    known = followers_of(world, leader, world.known_replica(leader, PARTITION))
    return known[follower].caught_up_at < _passed(world)


def note_look(
    world: World, machine: Machine, follower: int, leader: int, request: Exchange
) -> Exchange:
    """Note when a leader looked at its log for a request; return the request with that."""
    if not machine.faults.lags:
        return request
    replica = world.replica(leader, PARTITION)
    end = -1 if replica is None else replica.log.log_end_offset
    noted = replace(request, looked_at=(_passed(world), end))
    exchange.change(world, follower, leader, request, noted)
    return noted


def count(world: World, machine: Machine, follower: int, leader: int, request: Exchange) -> None:
    """Note what a request that the leader counts now says of its follower."""
    asked = dict(request.asked).get(PARTITION)
    replica = world.replica(leader, PARTITION)
    if not machine.faults.lags or request.api != exchange.FETCH or asked is None:
        return
    if replica is None or replica.role is not Role.LEADER:
        return
    read_at, end = request.looked_at
    known = followers_of(world, leader, replica)
    fetch = FetchRead(offset=asked.fetch_offset, log_end_offset=end, read_at=read_at)
    known[follower] = machine.extension.counted(known[follower], fetch, _passed(world))
    _note(world, leader, replica, known)


def followers_of(world: World, leader: int, replica: Replica) -> Followers:
    """Return what a leader knows; in a new leader epoch everybody has caught up (makeLeader)."""
    noted = world.get(("followers", leader))
    if noted is not None and noted[0] == replica.leader_epoch:
        return dict(noted[1])
    now = _passed(world)
    fresh = Follower(leader_log_end_offset=NO_FETCH_YET, fetched_at=now, caught_up_at=now)
    return {broker_id: fresh for broker_id in world.assignment(PARTITION) if broker_id != leader}


def _note(world: World, leader: int, replica: Replica, known: Followers) -> None:
    noted = (replica.leader_epoch, tuple(sorted(known.items(), key=lambda item: item[0])))
    world.put(("followers", leader), noted)


def _passed(world: World) -> int:
    passed: int = world.get(LAGS) or 0
    return passed
