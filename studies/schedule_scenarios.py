"""A schedule of the model's acts on real brokers: each act as steps, with its gates or without.

The gates are what the model predicts after each act: the partition's state, where each log ends on
disk, and high watermarks. So a run that goes another way stops there and says so. Without gates
each act follows at once and may turn out to be impossible; only a preferred election is preceded by
what it needs, for the controller refuses it otherwise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import kchaos as k
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replica import Replica
from kchaos.studies.explore import Schedule
from kchaos.studies.explore.acts import uninformed, waits_for_zookeeper
from kchaos.studies.explore.at_once import PARTITION
from kchaos.studies.explore.moves import ChaosMove

EXPLORED = "explored"
_TOPIC, _INDEX = PARTITION
_AT_ONCE_S = 3.0
"""Seconds that a write may take that nobody knows to be possible."""


def scenario_of(schedule: Schedule, releases: Sequence[str]) -> k.Scenario:
    """Return a counterexample's scenario, of which only the prediction is expected.

    Args:
        schedule: What is done.
        releases: As in `cluster_of`.
    """
    return k.Scenario(
        entry=EXPLORED,
        case="",
        title=schedule.message,
        release=releases[0],
        cluster=cluster_of(schedule, releases, {}),
        steps=steps_of(schedule, gated=True),
    )


def cluster_of(
    schedule: Schedule,
    releases: Sequence[str],
    properties: Mapping[str, str],
    own: Mapping[int, Mapping[str, str]] | None = None,
) -> k.ClusterSpec:
    """Return the brokers of a schedule, and one more as the controller unless they have a quorum.

    Args:
        schedule: What is done.
        releases: Broker 0's first; the controller has broker 0's, and so have brokers beyond them.
        properties: Of each broker, besides those that scenarios have in common.
        own: Those of single brokers.
    """
    replicas = sorted(World(schedule.states[0]).assignment(PARTITION))
    controllers = () if is_kraft(schedule) else (_controller_of(schedule.states[0]),)
    kafkas = dict(enumerate(releases))
    return k.ClusterSpec(
        brokers=tuple(
            k.BrokerSpec(
                id=broker,
                kafka=kafkas.get(broker, releases[0]),
                properties=(own or {}).get(broker, {}),
            )
            for broker in (*replicas, *controllers)
        ),
        first_broker=next(iter(controllers), None),
        mode="kraft" if is_kraft(schedule) else None,
        properties={**k.QUICK, **properties},
    )


def is_kraft(schedule: Schedule) -> bool:
    """Return whether a quorum of controllers decides, and not ZooKeeper's controller."""
    broker = World(schedule.states[0]).broker(0)
    assert broker is not None
    return broker.generation.reads_metadata_log


def steps_of(schedule: Schedule, *, gated: bool) -> tuple[k.Step, ...]:
    """Return the topic's step and each act's; with gates, also a snapshot before the healing."""
    return tuple(_steps(schedule, gated))


def text_of(act: ChaosMove, deciding: str = "ZooKeeper") -> str:  # noqa: C901
    """Describe an act for people; `deciding` is with whom brokers have their sessions."""
    match act.kind:
        case "write-one":
            return f"a client writes a record to broker {act.broker}, acks=1"
        case "write-pair":
            return f"a client writes a batch of two records to broker {act.broker}, acks=1"
        case "write-all":
            return f"a client writes a record to broker {act.broker}, acks=all"
        case "prefer":
            return "preferred election"
        case "reorder":
            return f"broker {act.broker} becomes the preferred replica"
        case "kill":
            return f"broker {act.broker} is killed and its session ends"
        case "terminate":
            return f"broker {act.broker} stops, without a controlled shutdown"
        case "restart":
            return f"broker {act.broker} is started again"
        case "bounce":
            return f"broker {act.broker} is killed and back before the controller looks"
        case "expire":
            return f"broker {act.broker} is cut off from {deciding} and its session ends"
        case "register":
            return f"broker {act.broker} reaches {deciding} again"
        case "cut":
            return f"brokers {act.broker} and {act.other} are cut off from each other"
        case "heal":
            return f"brokers {act.broker} and {act.other} reach each other again"
        case "hold-answers":
            return f"answers to the fetches of broker {act.broker} are held"
        case "hold-next-answers":
            return f"answers to the fetches of broker {act.broker} are held after one more record"
        case "release":
            return f"answers to the fetches of broker {act.broker} are released"
    raise AssertionError(f"no schedule has {act}")


def _steps(schedule: Schedule, gated: bool) -> Iterator[k.Step]:
    preferred = World(schedule.states[0]).assignment(PARTITION)
    yield k.CreateTopic(topic=_TOPIC, assignment=(tuple(sorted(preferred)),))
    yield k.ReorderReplicas(topic=_TOPIC, partition=_INDEX, replicas=preferred)
    heals_from = len(schedule.acts) - schedule.healing
    for number, act in enumerate(schedule.acts):
        before, after = schedule.states[number : number + 2]
        done = _done(act, f"record-{number}", after)
        if not gated:
            yield from (k.IfPossible(do=step) for step in _at_once(act, done, before))
            continue
        if number == heals_from:
            yield k.TakeSnapshot(label="unhealed")
        yield k.Tell(text=text_of(act, "the controllers" if is_kraft(schedule) else "ZooKeeper"))
        yield from _before(act, before, after)
        yield from done
        yield k.AwaitQuiet(untold=tuple(sorted(uninformed(World(after)))))
        yield from _asked_anew(before, after)
        yield from _gates(before, after, is_healing=number >= heals_from)


def _before(act: ChaosMove, before: State, after: State) -> Iterator[k.Step]:
    """Yield the gate that a prediction needs: a follower without a session rejoins the ISR.

    From 2.1 until KAFKA-9338 a leader refuses a follower's first fetch in the epoch before its own,
    and sees no epoch in those that follow it in a fetch session (KIP-320, KIP-227).
    """
    known, then = (World(side).partition_state(PARTITION) for side in (before, after))
    assert known is not None
    assert then is not None
    if act.kind == "expire" and act.broker != known.leader and act.broker in then.isr:
        yield k.AwaitFetches(follower=act.broker, leader=known.leader)


def _asked_anew(before: State, after: State) -> Iterator[k.AwaitFetches]:
    """Yield gates for followers that give up a held response because of a new leader epoch.

    Where they know the new one the leader counts their next fetch, which may bring them back into
    the ISR, or keep the high watermark where it is. Else it is refused, and that is held.
    """
    earlier = _held_fetches(before)
    for (follower, leader), fetch in _held_fetches(after).items():
        if fetch != earlier.get((follower, leader), fetch):
            yield k.AwaitFetches(follower=follower, leader=leader, count=1)


def _held_fetches(state: State) -> dict[tuple[int, int], tuple[int, bool]]:
    """Return by follower and leader a held Fetch response's epoch, and whether it is an error."""
    world = World(state)
    held = {}
    for broker in sorted(world.assignment(PARTITION)):
        for source in world.leaders(broker):
            for exchange in world.exchanges(broker, source):
                if exchange.holds and exchange.is_awaited:
                    asked, answer = dict(exchange.asked), dict(exchange.answers)
                    told = asked[PARTITION].leader_epoch, bool(answer[PARTITION].error)
                    held[broker, leader_of(source)] = told
    return held


def _at_once(act: ChaosMove, done: Iterator[k.Step], before: State) -> Iterator[k.Step]:
    if act.kind == "prefer":
        yield replace(_state_gate(before), timeout_s=_AT_ONCE_S)
    for step in done:
        if isinstance(step, k.Produce):
            yield replace(step, accept_error=True, timeout_s=_AT_ONCE_S)
        else:
            yield step


def _done(act: ChaosMove, operation: str, after: State) -> Iterator[k.Step]:
    match act.kind:
        case "write-one" | "write-pair" | "write-all":
            yield k.Produce(
                operation=operation,
                topic=_TOPIC,
                partition=_INDEX,
                records=2 if act.kind == "write-pair" else 1,
                acks=-1 if act.kind == "write-all" else 1,
                broker=act.broker,
            )
        case "prefer":
            yield k.Inject(name="elect", fault=k.PreferredElection(topic=_TOPIC, partition=_INDEX))
        case "reorder":
            replicas = World(after).assignment(PARTITION)
            yield k.ReorderReplicas(topic=_TOPIC, partition=_INDEX, replicas=replicas)
        case "kill":
            yield k.Inject(name=f"down-{act.broker}", fault=k.KillBroker(broker=act.broker))
        case "terminate":
            yield k.Inject(name=f"down-{act.broker}", fault=k.StopBroker(broker=act.broker))
        case "restart":
            yield k.Heal(name=f"down-{act.broker}")
        case "bounce":
            yield from _bounce(act, after, operation)
        case "expire" | "register":
            yield from _session(act)
        case "cut" | "heal":
            link = f"link-{act.broker}-{act.other}"
            cut = k.CutLink(source=act.broker, target=act.other)
            yield k.Inject(name=link, fault=cut) if act.kind == "cut" else k.Heal(name=link)
        case "hold-answers" | "hold-next-answers":
            yield _hold(act, after)
        case "release":
            yield k.Heal(name=f"hold-{act.broker}")


def _bounce(act: ChaosMove, after: State, operation: str) -> Iterator[k.Step]:
    """Yield steps that pause the controller while the broker is down."""
    hold, controller = f"controller-{operation}", _controller_of(after)
    yield k.Inject(name=hold, fault=k.HoldController(broker=controller))
    yield k.Inject(name=f"bounce-{operation}", fault=k.FastBounce(broker=act.broker))
    yield k.AwaitHeld(name=hold)
    yield k.Heal(name=hold)


def _controller_of(state: State) -> int:
    """Return the additional broker, which has no replica."""
    return max(World(state).assignment(PARTITION)) + 1


def _session(act: ChaosMove) -> Iterator[k.Step]:
    cut, session = f"away-{act.broker}", f"session-{act.broker}"
    if act.kind == "expire":
        yield k.Inject(name=cut, fault=k.CutZooKeeper(broker=act.broker))
        expired = k.ExpireSession(broker=act.broker, await_return=False)
        yield k.Inject(name=session, fault=expired)
    else:
        yield k.Heal(name=session)
        yield k.Heal(name=cut)


def _hold(act: ChaosMove, after: State) -> k.Step:
    """Return the hold of the model's state, which knows the offset from which it applies."""
    name = f"hold-{act.broker}"
    (hold,) = (held for held in World(after).holds() if held.name == name)
    fault = k.HoldRequests(
        name=name,
        api=hold.api,
        source=hold.source,
        direction=hold.direction,
        fetch_offset_at_least=hold.fetch_offset_at_least,
    )
    return k.Inject(name=name, fault=fault)


def _state_gate(of: State) -> k.AwaitState:
    state = World(of).partition_state(PARTITION)
    assert state is not None
    isr = tuple(sorted(state.isr))
    return k.AwaitState(topic=_TOPIC, partition=_INDEX, leader=state.leader, isr=isr)


def _gates(before: State, after: State, *, is_healing: bool) -> Iterator[k.Step]:
    """Yield gates for the differences between the states before and after an act."""
    earlier, world = World(before), World(after)
    gate, known = _state_gate(after), world.partition_state(PARTITION)
    if gate == _state_gate(before) and earlier.partition_state(PARTITION) != known:
        # A follower was taken out and came back: only the leader epoch tells.
        assert known is not None
        yield replace(gate, leader_epoch=known.leader_epoch)
    elif earlier.partition_state(PARTITION) != known:
        yield gate
    brokers = sorted(world.assignment(PARTITION))
    # A leader that waits for ZooKeeper tells no follower its high watermark.
    is_told = not is_healing and not any(waits_for_zookeeper(world, broker) for broker in brokers)
    for broker in brokers:
        old, new = (side.known_replica(broker, PARTITION) for side in (earlier, world))
        yield from _gates_of_replica(broker, old, new, is_told)


def _gates_of_replica(broker: int, old: Replica, new: Replica, is_told: bool) -> Iterator[k.Step]:
    log_end_offset = new.log.end_offset_on_disk()
    if log_end_offset != old.log.end_offset_on_disk():
        yield k.AwaitReplicated(
            topic=_TOPIC, partition=_INDEX, brokers=(broker,), log_end_offset=log_end_offset
        )
    # Once it is healed only what comes of it counts, and high watermarks come last.
    if new.high_watermark > old.high_watermark and is_told:
        yield k.AwaitHighWatermark(
            topic=_TOPIC, partition=_INDEX, brokers=(broker,), high_watermark=new.high_watermark
        )
