"""Settle: everything is healed; does replication come to rest, and how?

It ends in one of three ways:

converged  every live replica is in sync, a probe write with acks=all was acknowledged, unless the
           topic forbids it, and all disks hold the same batches;
failed     positive evidence that this will not happen: a fetcher thread that died, a partition
           that was marked failed, a follower that is refused for ever, replicas that are in sync,
           have followed the probe write, and hold different batches;
stalled    for a stated time nothing changed, while ZooKeeper answered and a leader, if there is
           one, acknowledged the probe.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.errors import AwaitTimeout, BrokerExited
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.standstill import awake_s
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates.cluster_look import NO_STATE, PartitionLook, look_at
from kchaos.harness.gates.probe import Probed, is_probe_replicated, probe
from kchaos.harness.gates.replication import (
    await_high_watermarks,
    first_difference,
    lasting_difference,
    log_ends,
    replicas_of,
)
from kchaos.harness.gates.settled import Settled, settle_bound
from kchaos.harness.gates.uninitialised import NobodyDecides, controller_works, uninitialised
from kchaos.harness.play.play import Play

_BOUNDS = 10
"""For how many bounds a partition may change on and on."""


def settle(
    play: Play, partitions: Sequence[TopicPartition] | None = None, *, bound_s: float | None = None
) -> Settled:
    """Wait until every partition has settled, and return how.

    A partition whose topic is being deleted comes to rest when it is gone.

    `partitions` is None for all. `bound_s` is the time without a change, by default as the
    cluster's own timeouts need.
    """
    bound = settle_bound((broker.properties for broker in play.cluster.brokers.values()), bound_s)
    settled = Settled(bound_s=bound.seconds, bound_from=bound.source)
    try:
        _settle_all(play, partitions, settled)
    except NobodyDecides as error:
        settled.worsen("stalled")
        settled.add("nobody-decides", None, -1, str(error))
    play.observed(settled.told())
    return settled


def _settle_all(play: Play, partitions: Sequence[TopicPartition] | None, settled: Settled) -> None:
    """Settle these partitions, or all.

    Raises:
        NobodyDecides: There is no controller, or it does not do what is due.
    """
    _await_controller(play, settled.bound_s)
    deleting = _await_deletions(play, settled, frozenset())
    there = _partitions(play) if partitions is None else partitions
    partitions = [each for each in there if each.topic not in deleting]
    settled.partitions = partitions
    uninformed = uninitialised(play, sorted(_hosts(play, partitions)))
    deadline = awake_s() + _BOUNDS * settled.bound_s
    moved: Sequence[TopicPartition] = partitions
    moving: list[TopicPartition] = []
    # A controller that is late may change a partition while the others settle.
    while moved and settled.state == "converged" and awake_s() < deadline:
        are_there = [_settle_partition(play, each, uninformed, settled) for each in moved]
        if not all(are_there):
            deleting |= _await_deletions(play, settled, deleting)
        # Where a replica does not follow, its reassignment cannot end.
        moving = _await_reassignments(play, settled) if settled.state == "converged" else []
        moved = moved_since(play, partitions, settled)
        moved = [partition for partition in moved if partition.topic not in deleting]
    for partition in moving:
        settled.worsen("stalled")
        detail = f"it went on for {settled.bound_s:g} s while every replica was in sync"
        settled.add("reassignment-does-not-end", partition, -1, detail)


def _await_reassignments(play: Play, settled: Settled) -> list[TopicPartition]:
    """Wait for reassignments to end; return the partitions with unfinished ones."""

    def moving() -> list[TopicPartition]:
        named = play.cluster.metadata.reassigning()
        return [partition for partition in settled.partitions if partition in named]

    return _await_none(moving, settled.bound_s, "reassignments to end")


def _partitions(play: Play) -> list[TopicPartition]:
    """Return every existing partition."""
    metadata = play.cluster.metadata
    return [
        TopicPartition(topic, partition)
        for topic in metadata.topics()
        for partition in metadata.assignment(topic)
    ]


def _await_controller(play: Play, bound_s: float) -> None:
    """Wait until there is a controller.

    Raises:
        NobodyDecides: There is none for the bound.
    """
    try:
        await_until(
            lambda: play.cluster.metadata.controller() is not None,
            timeout_s=bound_s,
            waiting_for="a controller",
            last_seen=lambda: "none",
        )
    except AwaitTimeout as error:
        raise NobodyDecides(f"there was no controller for {bound_s:g} s") from error


def _await_deletions(play: Play, settled: Settled, staying: frozenset[str]) -> frozenset[str]:
    """Wait for deleted topics to be gone, except those that stay; return the others that stay.

    A controller deletes no topic of which a replica does not live; that is no reason.
    """
    metadata = play.cluster.metadata
    left = _await_none(
        lambda: [
            each
            for each in _partitions(play)
            if each.topic not in staying and metadata.is_deleting(each.topic)
        ],
        settled.bound_s,
        "topics that are to be deleted to be gone",
    )
    for partition in left:
        settled.last_seen[partition.name] = _seen_of(metadata.state(*partition) or NO_STATE)
        replicas = metadata.assignment(partition.topic).get(partition.partition, ())
        if {*replicas} <= metadata.registered():
            settled.worsen("stalled")
            detail = f"it went on for {settled.bound_s:g} s while every replica lived"
            settled.add("deletion-does-not-end", partition, -1, detail)
    return frozenset(partition.topic for partition in left)


def _await_none(
    left: Callable[[], Collection[TopicPartition]], bound_s: float, waiting_for: str
) -> list[TopicPartition]:
    """Wait until no partition is left, or the same ones for the bound; return them.

    Raises:
        AwaitTimeout: They change on and on.
    """
    seen: list[TopicPartition] = []
    still_since = [awake_s()]

    def is_over() -> bool:
        now = sorted(left())
        if now != seen:
            seen[:] = now
            still_since[0] = awake_s()
        return not now or awake_s() - still_since[0] > bound_s

    await_until(
        is_over,
        timeout_s=_BOUNDS * bound_s,
        waiting_for=waiting_for,
        last_seen=lambda: [partition.name for partition in seen],
    )
    return seen


def moved_since(
    play: Play, partitions: Sequence[TopicPartition], settled: Settled
) -> list[TopicPartition]:
    """Return the partitions whose state in ZooKeeper changed after they settled.

    Those that are gone, with their topic, have settled for good.
    """
    there = {*_partitions(play)}
    return [
        partition
        for partition in partitions
        if partition in there
        and (
            partition.name not in settled.last_seen
            or _has_moved(play, partition, settled.seen(partition))
        )
    ]


def _hosts(play: Play, partitions: Sequence[TopicPartition]) -> set[int]:
    """Return the registered brokers that host a replica."""
    metadata = play.cluster.metadata
    hosts = {host for partition in partitions for host in replicas_of(play, partition)}
    return hosts & set(metadata.registered())


def _settle_partition(
    play: Play, partition: TopicPartition, uninformed: Mapping[int, str], settled: Settled
) -> bool:
    """Settle one partition; begin again if its state changed meanwhile.

    Return False if its topic is deleted meanwhile, or is about to be: it needs no settling.

    A session that ends, for one, may move the leader after the partition had seemed at rest; what a
    former leader answers then says nothing.
    """
    timeout_s = _BOUNDS * settled.bound_s
    deadline = awake_s() + timeout_s
    while True:
        tried = Settled(bound_s=settled.bound_s)
        try:
            is_over = _is_settled(play, partition, uninformed, tried)
        except BrokerExited as error:
            if not error.name.startswith("broker"):
                raise
            # One that ended by itself is a reason when looked at again.
            gates.check_causes_of_death(play)
            is_over = False
        except _Moved:
            is_over = False
        except _Deleted:
            return False
        settled.probes += tried.probes
        if is_over:
            break
        if awake_s() > deadline:
            raise AwaitTimeout(
                waited_for=f"{partition.name} to stay in one state",
                last_seen=str(play.cluster.metadata.state(*partition)),
                remedy="see the controllers' logs",
                timeout_s=timeout_s,
            )
    settled.worsen(tried.state)
    settled.reasons += tried.reasons
    settled.last_seen |= tried.last_seen
    return True


def _is_settled(
    play: Play, partition: TopicPartition, uninformed: Mapping[int, str], settled: Settled
) -> bool:
    """Add the partition's outcome; return False, or `_Moved`, if its state has changed."""
    name = f"{partition.name}"
    seen = _await_rest(play, partition, uninformed, settled)
    in_sync = [broker for broker in seen["isr"] if broker not in uninformed]
    failed = seen["failed"]
    abort = _unless_moved(play, partition, seen)
    probed = Probed(
        play=play,
        partition=partition,
        leader=seen["leader"],
        in_sync=in_sync,
        settled=settled,
        abort=abort,
    )
    end: int | None = -1
    if seen["leader"] >= 0 and seen["leader"] not in uninformed:
        _await_followers(play, partition, seen, in_sync, settled.bound_s, abort)
        end = probe(probed)
    is_replicated = end is not None and end >= 0 and is_probe_replicated(probed, end)
    settled.last_seen[name] = seen | {"ends": log_ends(play, partition)}
    for broker, line in failed.items():
        settled.worsen("failed")
        kind = "fetch-loop" if broker in seen["looping"] else "replication-stopped"
        settled.add(kind, partition, int(broker), line)
    different = None
    if is_replicated and end is not None:
        different = lasting_difference(
            play, partition, seen["leader"], in_sync, end, timeout_s=settled.bound_s, abort=abort
        )
    elif end is None or end >= 0:
        different = first_difference(play, partition, in_sync)
    if different is not None:
        # They had time to follow the leader past the probe: nothing will make them equal now.
        settled.worsen("failed")
        settled.last_seen[name]["different"] = different
    is_at_rest = not failed and different is None and settled.state == "converged"
    if is_at_rest and end is not None:
        await_high_watermarks(play, partition, in_sync, end)
    return not _has_moved(play, partition, seen)


class _Moved(Exception):
    """The partition's state is another one than when it was looked at: it is looked at again."""


class _Deleted(Exception):
    """The partition's topic is gone, or somebody deletes it."""


def _unless_moved(
    play: Play, partition: TopicPartition, seen: Mapping[str, Any]
) -> Callable[[], None]:
    """Check that raises `_Moved`, or says that a broker has exited."""
    no_exit = gates.no_exit(play)

    def check() -> None:
        no_exit()
        if _has_moved(play, partition, seen):
            raise _Moved

    return check


def _has_moved(play: Play, partition: TopicPartition, seen: Mapping[str, Any]) -> bool:
    """Return whether ZooKeeper has another state of the partition than the observed one."""
    state = play.cluster.metadata.state(*partition) or NO_STATE
    now = (state.leader, state.leader_epoch, list(state.isr))
    return now != (seen["leader"], seen["leader_epoch"], seen["isr"])


def _await_followers(
    play: Play,
    partition: TopicPartition,
    seen: dict[str, Any],
    in_sync: Sequence[int],
    timeout_s: float,
    abort: Callable[[], None],
) -> None:
    """Let every in-sync follower truncate before the probe moves the leader's log end.

    The ISR alone does not tell: a broker that was back before the controller removed it is in it
    from its start. One that does not fetch shows itself by the probe.
    """
    for broker in in_sync:
        if broker == seen["leader"] or broker not in seen["live"]:
            continue
        try:
            fetching.await_fetching(
                play, partition, broker, seen["leader"], timeout_s=timeout_s, abort=abort
            )
        except AwaitTimeout as error:
            play.observed(observations.WaitedInVain(detail=str(error)))


def _await_rest(
    play: Play, partition: TopicPartition, uninformed: Mapping[int, str], settled: Settled
) -> dict[str, Any]:
    """Wait until each live replica is in sync or failed, or nothing moves; return the view.

    Nothing is awaited of a broker that the controller has told nothing.
    """
    replicas: list[int] = []
    seen: dict[str, Any] = {}
    still_since = [awake_s()]
    before: list[Any] = [None]

    def look() -> bool:
        # A reassignment that somebody asked for may still go on.
        replicas[:] = replicas_of(play, partition)
        if not replicas or play.cluster.metadata.is_deleting(partition.topic):
            raise _Deleted
        seen.clear()
        seen.update(_look(play, partition, replicas))
        away = {*seen["isr"], *map(int, seen["failed"]), *uninformed}
        waiting = [broker for broker in seen["live"] if broker not in away]
        # Whose session has ended is about to be taken out of the ISR, and to come back.
        waiting += [broker for broker in seen["live"] if broker not in seen["registered"]]
        if seen["leader"] in seen["live"] and not waiting:
            return True
        now = (seen, log_ends(play, partition))
        if repr(now) != before[0]:
            before[0] = repr(now)
            still_since[0] = awake_s()
        return awake_s() - still_since[0] > settled.bound_s

    await_until(
        look,
        timeout_s=_BOUNDS * settled.bound_s,
        waiting_for=f"{partition.name} to come to rest",
        last_seen=lambda: seen,
        abort=gates.no_exit(play),
    )
    gates.check_causes_of_death(play)
    _note_rest(play, partition, replicas, seen, uninformed, settled)
    return seen


def _note_rest(
    play: Play,
    partition: TopicPartition,
    replicas: Sequence[int],
    seen: Mapping[str, Any],
    uninformed: Mapping[int, str],
    settled: Settled,
) -> None:
    """Note which replicas have failed, and which stand still."""
    for broker in replicas:
        if broker not in seen["live"]:
            settled.worsen("failed")
            code = play.cluster.brokers[broker].exit_code
            detail = f"its process ended by itself with exit code {code}"
            settled.add("replication-stopped", partition, broker, detail)
    if seen["leader"] not in seen["live"]:
        settled.worsen("stalled")
        detail = f"leader {seen['leader']} for {settled.bound_s:g} s, {controller_works(play)}"
        settled.add("offline-partition", partition, -1, detail)
    for broker in seen["live"]:
        if broker in uninformed:
            settled.worsen("failed")
            settled.add("generation-not-initialised", partition, broker, uninformed[broker])
            if broker == seen["leader"]:
                detail = f"its leader {broker} does not know that it leads: {uninformed[broker]}"
                settled.add("offline-partition", partition, -1, detail)
        elif broker not in seen["isr"] and str(broker) not in seen["failed"]:
            settled.worsen("stalled")
            detail = (
                f"broker {broker} was not in the ISR {seen['isr']} for {settled.bound_s:g} s, and "
                "nothing changed"
            )
            settled.add("replication-stopped", partition, broker, detail)


def _look(play: Play, partition: TopicPartition, replicas: Sequence[int]) -> dict[str, Any]:
    look = look_at(play)
    state = play.cluster.metadata.state(*partition) or NO_STATE
    partition_look = PartitionLook(
        cluster=look, partition=partition, state=state, replicas=replicas
    )
    live = [broker for broker in replicas if play.cluster.brokers[broker].is_running]
    failed = {}
    looping = []
    for broker in live:
        if broker == state.leader or broker in state.isr:
            continue
        line = partition_look.failure(broker)
        # A fenced fetcher says the same until it hears of the present leader epoch.
        if line and partition_look.has_heard(broker):
            failed[str(broker)] = line
            continue
        line = partition_look.loop(broker)
        if line:
            failed[str(broker)] = line
            looping.append(str(broker))
    return {
        **_seen_of(state),
        "live": live,
        "registered": sorted(look.registered & {*live}),
        "failed": failed,
        "looping": looping,
    }


def _seen_of(state: LeaderAndIsr) -> dict[str, Any]:
    return {"leader": state.leader, "leader_epoch": state.leader_epoch, "isr": list(state.isr)}
