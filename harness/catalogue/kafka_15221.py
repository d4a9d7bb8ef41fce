"""KAFKA-15221: a leader lets a replica join the ISR by two fetches of two of its processes."""

from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import at_link, held, held_from

LEADER, FOLLOWER, CONTROLLER = 0, 1, 100
BOTH = (LEADER, FOLLOWER)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "rebooted"
_COUNT, _COUNTED, _EXPAND = "fetch-count", "fetch-counted", "isr-expand"
_DECIDES_S = 5.0


def _cluster(kafka: str) -> k.ClusterSpec:
    leader, follower = k.brokers_of(kafka, BOTH)
    return k.ClusterSpec(
        brokers=(replace(leader, points=(_COUNT, _COUNTED, _EXPAND)), follower),
        mode="kraft",
        # Each thread that is held is one that handles requests.
        properties={**QUICK_KRAFT, "num.io.threads": "8"},
    )


def _stopped_at(name: str, point: str) -> k.Inject:
    return k.Inject(name=name, fault=k.HoldPoint(name=name, broker=LEADER, point=point))


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,)),
        k.Produce(operation="both", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=5, **_T0),
        k.Tell(text="1 is killed and comes back whole; its first fetch is late"),
        k.Inject(name="follower-down", fault=k.KillBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        held_from("stale", FOLLOWER, LEADER, 5),
        k.Heal(name="follower-down"),
        k.AwaitHeld(name="stale"),
        k.AwaitMetadataRead(broker=LEADER),
        k.Tell(text="1 loses power and all that it had; 0 does not hear of its next process"),
        held(
            "decisions",
            "Fetch",
            source=LEADER,
            target=CONTROLLER,
            topic="__cluster_metadata",
            partition=0,
        ),
        k.AwaitHeld(name="decisions"),
        k.Inject(name="power", fault=k.KillBroker(broker=FOLLOWER)),
        k.Inject(name="disk", fault=k.LoseTail(broker=FOLLOWER, log_end_offset=0, **_T0)),
        held("fresh", "Fetch", source=FOLLOWER, target=LEADER, **_T0),
        held("answers", "Fetch", source=FOLLOWER, target=LEADER, direction="response", **_T0),
        k.Heal(name="power"),
        k.AwaitHeld(name="fresh"),
        k.Tell(text="the late fetch has counted: 1 is in sync by what its process before had"),
        _stopped_at("counted", _COUNTED),
        k.Heal(name="stale"),
        k.AwaitHeld(name="counted"),
        k.Tell(text="the fetch of the next process has been read and is about to count"),
        _stopped_at("count", _COUNT),
        k.Heal(name="fresh"),
        k.AwaitHeld(name="count"),
        k.Tell(text="0 decides to ask for 1; the fetch counts before 0 writes down what it asks"),
        _stopped_at("expand", _EXPAND),
        k.Heal(name="counted"),
        k.IfPossible(do=k.AwaitHeld(name="expand", timeout_s=_DECIDES_S)),
        _stopped_at("counted-too", _COUNTED),
        k.Heal(name="count"),
        k.AwaitHeld(name="counted-too"),
        k.IfPossible(do=k.Heal(name="expand")),
        k.Heal(name="counted-too"),
        k.IfPossible(do=k.AwaitDecision(isr=BOTH, timeout_s=_DECIDES_S, **_T0)),
        k.Tell(text="the leader dies: may 1 lead?"),
        k.Inject(name="leader-down", fault=k.KillBroker(broker=LEADER)),
        # Until it does, it would take the answer of the leader that died.
        k.IfPossible(do=k.AwaitState(leader=FOLLOWER, timeout_s=_DECIDES_S, **_T0)),
        k.Heal(name="answers"),
        k.Heal(name="decisions"),
        k.Heal(name="leader-down"),
        k.AwaitState(isr=BOTH, **_T0),
    )


_HELD = {"hit": {"point": _COUNT, "hold": "count", "fate": "released"}}
_RED = k.Expectation(
    safe=False,
    findings=(("committed-loss", BOTH, 0, 4),),
    witness=(
        _HELD,
        {"hit": {"point": _EXPAND, "hold": "expand", "fate": "released"}},
        at_link(
            "AlterPartition",
            "response",
            LEADER,
            CONTROLLER,
            partition={"topic": "t", "error_code": 0, "isr": [LEADER, FOLLOWER]},
        ),
    ),
)
_GREEN = k.Expectation(
    safe=True, witness=(_HELD, {"observed": {"kind": "not-possible", "name": "AwaitHeld"}})
)

KAFKA_15221 = k.Entry(
    name="KAFKA-15221",
    title="An empty replica joins the ISR by the fetches of two of its processes",
    story=(
        "Broker 1 comes back whole after a kill, and its first fetch is late. It loses power and "
        "its log, and the next process fetches from offset 0. The leader has not heard of that "
        "process. The late fetch counts: broker 1 has everything, and the fetch names the broker "
        "epoch that the leader knows. So the leader decides to ask for it. Before it reads the "
        "epoch that it names in AlterPartition, the fetch of the next process counts and replaces "
        "it. The controller takes in a replica whose epoch is right and whose log is empty. The "
        "leader dies, broker 1 leads, and what acks=all had put on two disks is gone. From 3.7 on "
        "a fetch counts under the partition's lock: the leader decides and names the epoch by one "
        "state of the follower."
    ),
    source=(
        "KAFKA-15221 (fixed in 3.7.0); kafka.cluster.Partition.maybeExpandIsr, prepareIsrExpand "
        "and updateFollowerFetchState, 3.6.2 and 3.7.0; measured"
    ),
    cases={_CASE: "the follower loses its log while a fetch of its process before is late"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.5.2"): _RED,
        (_CASE, "3.6.2"): _RED,
        (_CASE, "3.9.1"): _GREEN,
        (_CASE, "4.1.2"): _GREEN,
    },
)
