"""KAFKA-14010: a leader whose wish for another ISR failed asks again too early, and never more."""

from typing import Any

import kchaos as k
from kchaos.clusters.agent.points import CONTROLLER_WRITE
from kchaos.harness.catalogue.settings import quick_cluster, why_not_asked
from kchaos.harness.catalogue.words import at_link

CONTROLLER, LEADER, FOLLOWER = 0, 1, 2
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "session-ends"
_UNKNOWN_SERVER_ERROR = -1


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEADER, FOLLOWER),)),
        k.Produce(operation="first", records=1, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(LEADER, FOLLOWER), high_watermark=1, **_T0),
        k.Inject(name="down", fault=k.KillBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Tell(text="broker 2 is back, and its leader asks the controller to take it into the ISR"),
        k.Inject(
            name="write", fault=k.HoldPoint(name="write", broker=CONTROLLER, point=CONTROLLER_WRITE)
        ),
        k.Heal(name="down"),
        k.AwaitHeld(name="write"),
        k.Tell(text="the controller's session ends before it writes that, and it answers -1"),
        k.Inject(name="session", fault=k.ExpireSession(broker=CONTROLLER, await_return=False)),
        k.AwaitLog(broker=CONTROLLER, pattern=r"Session expired"),
        k.Heal(name="write"),
        k.AwaitMessage(
            api="AlterPartition",
            source=LEADER,
            target=CONTROLLER,
            direction="response",
            says=(("error_code", _UNKNOWN_SERVER_ERROR),),
            **_T0,
        ),
        k.Heal(name="session"),
        k.Produce(operation="second", records=1, acks=1, **_T0),
    )


_FAILED = at_link(
    "AlterPartition",
    "response",
    LEADER,
    partition={"topic": "t", "error_code": _UNKNOWN_SERVER_ERROR},
)
_NOT_ENQUEUED = {"log": {"broker": LEADER, "pattern": "Failed to enqueue ISR change state"}}
_TAKEN_IN = at_link(
    "AlterPartition",
    "response",
    LEADER,
    partition={"topic": "t", "error_code": 0, "isr": [LEADER, FOLLOWER]},
)

KAFKA_14010 = k.Entry(
    name="KAFKA-14010",
    title="A leader whose wish for another ISR failed asks again too early, and never more",
    story=(
        "Broker 2 is back and has everything. Its leader asks the controller to take it into the "
        "ISR, and the controller's session with ZooKeeper ends before that is written. So the "
        "controller answers -1 for the partition. The leader wants to ask again, and does so while "
        "the AlterIsrManager still has its first wish in the list of those that wait. The new one "
        "is refused, and the first is removed then. The leader goes on to wait for an answer, and "
        "asks for no ISR any more: broker 2 stays out of it until there is another leader epoch. "
        "3.0 only logs the refusal in another way. In 3.1 and 3.2.0 the leader takes its wish back "
        "(KAFKA-13254). From 3.2.1 on the first wish is removed before the leader hears of the "
        "answer, so that it may ask again. The controller's thread is held before it writes, and "
        "its session is ended from outside."
    ),
    source=(
        "KAFKA-14010 (fixed in 3.2.1 and 3.3.0); kafka.server.AlterIsrManager and "
        "kafka.cluster.Partition, 2.8.2 and 3.0.2; found by random runs, measured on real brokers"
    ),
    cases={_CASE: "the controller's session ends while it is about to write the ISR"},
    cluster=quick_cluster(
        LEADER,
        FOLLOWER,
        controller=CONTROLLER,
        # The leader is to wait for the answer while the controller is held.
        properties={"controller.socket.timeout.ms": "20000"},
    ),
    steps=_steps,
    cannot_show=why_not_asked,
    expectations={
        (_CASE, release): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (FOLLOWER,), -1, -1),),
            witness=(_FAILED, _NOT_ENQUEUED),
        )
        for release in ("2.8.2", "3.0.2")
    }
    | {(_CASE, "3.3.2"): k.Expectation(safe=True, witness=(_FAILED, _TAKEN_IN))},
    default_releases=("2.8.2", "3.3.2"),
)
