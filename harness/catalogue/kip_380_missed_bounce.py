"""KIP-380, KAFKA-1120: a broker is back before its controller has noticed that it was gone."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.entry import ExpectedFinding

CONTROLLER, BOUNCING, OTHER = 0, 1, 2
_KILLED, _PAUSED, _MOVED = "killed", "paused", "moved"
_CLEAN, _REGISTERED = "clean", "re-registered"
_TOPICS = {"t": (BOUNCING, OTHER), "u": (OTHER, BOUNCING), "v": (BOUNCING,)}

_PROPERTIES = {
    **k.QUICK,
    # A follower that is told nothing leaves the ISR by this alone.
    "replica.lag.time.max.ms": "3000",
    "zookeeper.session.timeout.ms": "3000",
    # The clean arm: the controller moves the leaders away before the broker goes.
    "controlled.shutdown.enable": "true",
}


def _cluster(kafka: str) -> k.ClusterSpec:
    controller, *others = k.brokers_of(kafka, (CONTROLLER, BOUNCING, OTHER))
    # It keeps its session while it stands still.
    patient = replace(controller, properties={"zookeeper.session.timeout.ms": "30000"})
    return k.ClusterSpec(
        brokers=(patient, *others), first_broker=CONTROLLER, properties=_PROPERTIES
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    topics = [
        step
        for topic, replicas in _TOPICS.items()
        for step in (
            k.CreateTopic(topic=topic, assignment=(replicas,)),
            k.Produce(operation=topic, topic=topic, partition=0, records=1, acks=-1),
            k.AwaitReplicated(topic=topic, partition=0, brokers=replicas, log_end_offset=1),
        )
    ]
    return (
        *topics,
        k.Tell(text="the controller stands still before it can see who comes or goes"),
        k.Inject(
            name="controller",
            fault=k.PauseBroker(broker=CONTROLLER)
            if case == _PAUSED
            else k.HoldController(broker=CONTROLLER),
        ),
        *_BOUNCES[case],
        k.Tell(text="the controller goes on, and reads who is registered now"),
        k.Heal(name="controller"),
        k.AwaitLog(broker=CONTROLLER, pattern=_LOOKED),
        *((k.Inject(name="move", fault=k.MoveController()),) if case == _MOVED else ()),
        k.Tell(text="a client writes to broker 1, which is the only replica of v"),
        k.Produce(
            operation="v2",
            topic="v",
            partition=0,
            records=1,
            acks=1,
            broker=BOUNCING,
            accept_error=True,
            timeout_s=2,
        ),
    )


def _controller_log(text: str) -> Mapping[str, Any]:
    """Return the witness of this text in the controller's log."""
    return {"log": {"broker": CONTROLLER, "pattern": re.escape(text)}}


def _uninformed(topic: str) -> ExpectedFinding:
    """Return the finding that no request informed the new generation of its replica."""
    return ("generation-not-initialised", (BOUNCING,), -1, -1, topic)


def _dead(topic: str) -> ExpectedFinding:
    """Return the finding that the partition's leader does not know of its leadership."""
    return ("offline-partition", (), -1, -1, topic)


def _unsafe(*witness: Mapping[str, Any]) -> k.Expectation:
    """Return the expectation for a killed broker that no request informs."""
    findings = (_uninformed("t"), _uninformed("u"), _uninformed("v"), _dead("t"), _dead("v"))
    return k.Expectation(safe=False, findings=findings, witness=witness)


_AWAIT_HELD = k.AwaitHeld(name="controller")
_WORD = k.HoldRequests(
    name="word", api="ControlledShutdown", source=BOUNCING, target=CONTROLLER, direction="response"
)
_BY_KILL = (
    k.Tell(text="broker 1 is killed and is back, with a new registration"),
    k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
)
_BOUNCES: dict[str, tuple[k.Step, ...]] = {
    _KILLED: (*_BY_KILL, _AWAIT_HELD),
    _MOVED: (*_BY_KILL, _AWAIT_HELD),
    _PAUSED: _BY_KILL,
    _CLEAN: (
        k.Tell(text="broker 1 stops cleanly, which the controller arranges; its death is held"),
        # A request that the controller still had for it would reach the next generation, late.
        k.Inject(name="word", fault=_WORD),
        k.Inject(name="bounce", fault=k.StopBroker(broker=BOUNCING, await_end=False)),
        k.AwaitHeld(name="word"),
        k.AwaitMessage(
            api="StopReplica", source=CONTROLLER, target=BOUNCING, direction="response", count=4
        ),
        k.Heal(name="word"),
        _AWAIT_HELD,
        k.Tell(text="broker 1 is back, with a new registration"),
        k.Heal(name="bounce"),
    ),
    _REGISTERED: (
        k.Tell(text="broker 1's session ends; its process goes on and registers again"),
        k.Inject(name="session", fault=k.ExpireSession(broker=BOUNCING)),
        _AWAIT_HELD,
        k.Heal(name="session"),
    ),
}
_LOOKED = "Newly added brokers: , deleted brokers: 1?, (bounced brokers: 1, )?all live brokers"
"""The controller has looked who is registered; up to 0.10.2 it sees who was when it was held."""


def _cannot_show(case: str, release: str) -> str:
    if case == _PAUSED or release_of(release) >= release_of("0.11.0.0"):
        return ""
    return (
        f"{release} reads who is registered before its thread can be held, so that it has seen the "
        f"broker leave (KAFKA-5502): the nearest release for the case {case} is 0.11.0.3; "
        f"{release} shows the case {_PAUSED}"
    )


_HELD = {"hit": {"point": "controller-broker-change", "broker": CONTROLLER, "fate": "held"}}
_OVERLOOKED = _controller_log("Newly added brokers: , deleted brokers: , all live brokers: 0,1,2")
_NOTICED = _controller_log(f"bounced brokers: {BOUNCING}, all live brokers: 0,1,2")

KIP_380_MISSED_BOUNCE = k.Entry(
    name="KIP-380-missed-bounce",
    title="A broker bounces before its controller looks, and gets no request any more",
    story=(
        "Broker 1 leads t and is the only replica of v; it follows u. The controller's event "
        "thread stands still when it is about to handle that broker 1 has gone, and goes on when "
        "broker 1 is back. Then it reads who is registered, and up to 2.1 compares ids: the same "
        "as before, so it does nothing. The new process hears nothing: no LeaderAndIsr, no "
        "UpdateMetadata. It does not know that it leads t and v, which ZooKeeper still says, and "
        "does not follow u. No timer heals that; the next controller does, since it tells every "
        "broker everything. After a clean stop only v is dead, since the controller had moved t "
        "before; but broker 1 never joins an ISR again. If its session ended and its process went "
        "on, it still knows its replicas and nothing breaks, although nobody noticed. From 2.2 on "
        "the controller compares the czxid of each registration and calls the broker bounced: it "
        "is treated as one that died, and then as a new one. The document calls that a way to "
        "detect a bounce; in the shipped code it also changes which control requests the broker "
        "still takes. A later topic on broker 1 would be its first LeaderAndIsr, and it would "
        "forget the high watermarks of all others (KAFKA-7235)."
    ),
    source="KIP-380, motivation, fourth assumption; KAFKA-1120; measured on real brokers",
    cases={
        _KILLED: "killed and started again",
        _PAUSED: "the same, while the controller's whole process stands still",
        _CLEAN: "stopped cleanly and started again",
        _REGISTERED: "its session ended and it registered again, without a restart",
        _MOVED: "killed and started again; then the controller moves, which heals it",
    },
    cluster=_cluster,
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_KILLED, "2.1.1"): _unsafe(_HELD, _OVERLOOKED),
        (_PAUSED, "2.1.1"): _unsafe(_OVERLOOKED),
        (_CLEAN, "2.1.1"): k.Expectation(
            safe=False,
            findings=(_uninformed("t"), _uninformed("u"), _uninformed("v"), _dead("v")),
            witness=(_HELD, _OVERLOOKED),
        ),
    }
    | {
        (case, "2.1.1"): k.Expectation(safe=True, witness=(_HELD, _OVERLOOKED))
        for case in (_REGISTERED, _MOVED)
    }
    | {
        (case, "2.2.2"): k.Expectation(safe=True, witness=(_HELD, _NOTICED))
        for case in (_KILLED, _CLEAN, _REGISTERED, _MOVED)
    }
    | {(_PAUSED, "2.2.2"): k.Expectation(safe=True, witness=(_NOTICED,))},
)
