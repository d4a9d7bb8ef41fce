"""KAFKA-12315: a controller that is elected a second time tells no broker what it has."""

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.settings import quick_cluster

FIRST, SECOND, FOLLOWER = 0, 1, 2
_TWICE, _MOVED, _ONCE = "twice", "moved", "once"
_READY = "Ready to serve as the new controller"
_OFFLINE = "Controller moved to another broker when moving some replicas to OfflineReplica state"
_NOT_EMPTY = "Controller to broker state change requests batch is not empty"


def _move(name: str, *, away_from: int) -> tuple[k.Step, ...]:
    """Move the controller; a broker without ZooKeeper does not see that it could take over."""
    cut = f"{name}-without-{away_from}"
    return (
        k.Inject(name=cut, fault=k.CutZooKeeper(broker=away_from)),
        k.Inject(name=name, fault=k.MoveController()),
        k.Heal(name=cut),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((SECOND, FOLLOWER),)),
        k.Produce(operation="first", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(SECOND, FOLLOWER), log_end_offset=1),
        *(_LEFT_OVER if case != _ONCE else _GONE),
        k.Tell(text="broker 2 is back, and needs its first LeaderAndIsr"),
        k.Heal(name="down"),
        *(_move("heals", away_from=FIRST) if case == _MOVED else ()),
        k.Produce(operation="second", topic="t", partition=0, records=1, acks=1),
    )


_DOWN: tuple[k.Step, ...] = (
    k.Tell(text="broker 2 is killed; its controller is to take it out of the ISR"),
    k.Inject(name="down", fault=k.KillBroker(broker=FOLLOWER)),
)
_LEFT_OVER: tuple[k.Step, ...] = (
    k.Tell(text="controller 0 stands still when it is about to see who comes and goes"),
    k.Inject(name="first", fault=k.HoldController(broker=FIRST)),
    k.Inject(name="session", fault=k.ExpireSession(broker=FOLLOWER)),
    k.AwaitHeld(name="first"),
    k.Heal(name="session"),
    k.Tell(text="broker 1 becomes the controller, and stands still as well"),
    *_move("move", away_from=FOLLOWER),
    # Else it may see as it begins that 2 has gone, and have taken it out by itself.
    k.AwaitLog(broker=SECOND, pattern=_READY),
    k.Inject(name="second", fault=k.HoldController(broker=SECOND)),
    *_DOWN,
    k.AwaitHeld(name="second"),
    k.Tell(
        text="controller 0 goes on and wants 2 out of the ISR; it was deposed, so ZooKeeper refuses"
    ),
    k.Heal(name="first"),
    k.AwaitLog(broker=FIRST, pattern=_OFFLINE),
    k.Heal(name="second"),
    k.AwaitState(topic="t", partition=0, leader=SECOND, isr=(SECOND,)),
    k.Tell(text="broker 0 is elected again"),
    *_move("again", away_from=SECOND),
    k.AwaitLog(broker=FIRST, pattern=_NOT_EMPTY),
)
_GONE: tuple[k.Step, ...] = (
    *_DOWN,
    k.AwaitState(topic="t", partition=0, leader=SECOND, isr=(SECOND,)),
)


_LEFT = {"log": {"broker": FIRST, "pattern": _OFFLINE}}
_FAILED = {"log": {"broker": FIRST, "pattern": _NOT_EMPTY}}
_SEEN = {"log": {"broker": FIRST, "pattern": f"deleted brokers: {FOLLOWER}, bounced brokers: ,"}}


def _cannot_show(_case: str, release: str) -> str:
    if release_of(release) >= release_of("2.1.0"):
        return ""
    return (
        f"in {release} a controller that was deposed writes nevertheless, so that it is not "
        "interrupted (KAFKA-6082): the nearest release that can show it is 2.1.1"
    )


KAFKA_12315 = k.Entry(
    name="KAFKA-12315",
    title="A controller that is elected a second time sends no broker its replicas",
    story=(
        "Controller 0 stands still when it is about to see that brokers came and went. Meanwhile "
        "broker 1 is elected, and broker 2, which follows t, is killed. Controller 0 goes on. It "
        "puts a StopReplica for broker 2 into the batch of its ReplicaStateMachine, and wants to "
        "take 2 out of the ISR. ZooKeeper refuses, since it was deposed. It resigns, and what is "
        "in the batch stays there. When it is elected again, each change of replicas begins a new "
        "batch, and that fails, because the old one is not empty. Only a log line tells. Broker 2 "
        "is started again and gets UpdateMetadata and no LeaderAndIsr. So it never follows t and "
        "stays out of the ISR, until another broker is elected or controller 0 is restarted. "
        "3.9.1, of the last line that has this controller, still does so."
    ),
    source=(
        "KAFKA-12315; kafka.controller.ReplicaStateMachine, 2.1.1 to 3.9.1; seen by a random run"
    ),
    cases={
        _TWICE: "controller 0 is deposed before it takes a replica out, and elected again",
        _MOVED: "the same; then another broker is elected, which heals it",
        _ONCE: "the broker comes back to the controller that saw it leave",
    },
    cluster=quick_cluster(
        SECOND,
        FOLLOWER,
        controller=FIRST,
        # Sessions end when the scenario ends them: who is cut off from ZooKeeper keeps its own.
        properties={"zookeeper.session.timeout.ms": "30000"},
    ),
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_TWICE, release): k.Expectation(
            safe=False,
            findings=(("generation-not-initialised", (FOLLOWER,), -1, -1),),
            witness=(_LEFT, _FAILED),
        )
        for release in ("2.1.1", "2.8.2", "3.9.1")
    }
    | {
        (_MOVED, release): k.Expectation(safe=True, witness=(_LEFT, _FAILED))
        for release in ("2.8.2", "3.9.1")
    }
    | {(_ONCE, "2.8.2"): k.Expectation(safe=True, witness=(_SEEN,))},
    default_releases=("2.8.2", "3.9.1"),
)
