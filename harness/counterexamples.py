"""A schedule that the explorer found, as a scenario: every act with its gates.

The gates are what the model predicts after each act: the partition's state, where each log ends on
disk, and high watermarks. So a run that goes another way stops there and says so.
"""

from collections.abc import Iterator, Sequence

from kchaos.checkers.exploring import Schedule
from kchaos.checkers.model.controlling import PARTITION
from kchaos.checkers.model.moves import Move
from kchaos.checkers.model.replica import Replica
from kchaos.checkers.model.state import State
from kchaos.checkers.model.world import World
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.faults import CutLink, CutZooKeeper, ExpireSession, PreferredElection
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.playing.client_steps import Produce
from kchaos.harness.playing.scenario import Scenario
from kchaos.harness.playing.steps import (
    AwaitHighWatermark,
    AwaitQuiet,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    ReorderReplicas,
    Step,
    TakeSnapshot,
    Tell,
)

EXPLORED = "explored"
_TOPIC, _INDEX = PARTITION


def scenario_of(schedule: Schedule, releases: Sequence[str]) -> Scenario:
    """The schedule on real brokers; nothing is expected of it but what the model predicts.

    Args:
        schedule: What is done.
        releases: Broker 0's first; the controller, one more broker, has broker 0's, and so have
            brokers beyond them.
    """
    replicas = sorted(World(schedule.states[0]).assignment(PARTITION))
    controller = replicas[-1] + 1
    kafkas = dict(enumerate(releases))
    return Scenario(
        entry=EXPLORED,
        case="",
        title=schedule.message,
        release=releases[0],
        cluster=ClusterSpec(
            brokers=tuple(
                BrokerSpec(id=broker, kafka=kafkas.get(broker, releases[0]))
                for broker in (*replicas, controller)
            ),
            first_broker=controller,
            properties=QUICK,
        ),
        steps=tuple(_steps(schedule, replicas)),
    )


def text_of(act: Move) -> str:
    """What an act is, for people."""
    match act.kind:
        case "write-one":
            return f"a client writes a record to broker {act.broker}, acks=1"
        case "write-all":
            return f"a client writes a record to broker {act.broker}, acks=all"
        case "prefer":
            return "preferred election"
        case "expire":
            return f"broker {act.broker} is cut off from ZooKeeper and its session ends"
        case "register":
            return f"broker {act.broker} reaches ZooKeeper again"
        case "cut":
            return f"brokers {act.broker} and {act.other} are cut off from each other"
        case "heal":
            return f"brokers {act.broker} and {act.other} reach each other again"
    raise AssertionError(f"no schedule has {act}")


def _steps(schedule: Schedule, replicas: list[int]) -> Iterator[Step]:
    preferred = World(schedule.states[0]).assignment(PARTITION)
    yield CreateTopic(topic=_TOPIC, assignment=(tuple(replicas),))
    yield ReorderReplicas(topic=_TOPIC, partition=_INDEX, replicas=preferred)
    heals_from = len(schedule.acts) - schedule.healing
    for number, act in enumerate(schedule.acts):
        if number == heals_from:
            yield TakeSnapshot(label="before-healing")
        yield Tell(text=text_of(act))
        yield from _done(act, f"record-{number}")
        yield AwaitQuiet()
        yield from _gates(*schedule.states[number : number + 2], is_healing=number >= heals_from)


def _done(act: Move, operation: str) -> Iterator[Step]:
    cut, session = f"zookeeper-{act.broker}", f"session-{act.broker}"
    link = f"link-{act.broker}-{act.other}"
    match act.kind:
        case "write-one" | "write-all":
            yield Produce(
                operation=operation,
                topic=_TOPIC,
                partition=_INDEX,
                records=1,
                acks=1 if act.kind == "write-one" else -1,
                broker=act.broker,
            )
        case "prefer":
            yield Inject(name="elect", fault=PreferredElection(topic=_TOPIC, partition=_INDEX))
        case "expire":
            yield Inject(name=cut, fault=CutZooKeeper(broker=act.broker))
            expired = ExpireSession(broker=act.broker, await_return=False)
            yield Inject(name=session, fault=expired)
        case "register":
            yield Heal(name=session)
            yield Heal(name=cut)
        case "cut":
            yield Inject(name=link, fault=CutLink(source=act.broker, target=act.other))
        case "heal":
            yield Heal(name=link)


def _gates(before: State, after: State, *, is_healing: bool) -> Iterator[Step]:
    """What can be seen of the state after an act and differs from the one before."""
    earlier, world = World(before), World(after)
    known, state = earlier.partition_state(PARTITION), world.partition_state(PARTITION)
    assert state is not None
    if known != state:
        yield AwaitState(
            topic=_TOPIC, partition=_INDEX, leader=state.leader, isr=tuple(sorted(state.isr))
        )
    for broker in sorted(world.assignment(PARTITION)):
        old, new = (one.known_replica(broker, PARTITION) for one in (earlier, world))
        yield from _gates_of_replica(broker, old, new, is_healing)


def _gates_of_replica(broker: int, old: Replica, new: Replica, is_healing: bool) -> Iterator[Step]:
    log_end_offset = new.log.end_offset_on_disk()
    if log_end_offset != old.log.end_offset_on_disk():
        yield AwaitReplicated(
            topic=_TOPIC, partition=_INDEX, brokers=(broker,), log_end_offset=log_end_offset
        )
    # Once it is healed only what comes of it counts, and high watermarks come last.
    if new.high_watermark > old.high_watermark and not is_healing:
        yield AwaitHighWatermark(
            topic=_TOPIC,
            partition=_INDEX,
            brokers=(broker,),
            high_watermark=new.high_watermark,
        )
