"""KAFKA-9491: a follower that began its log anew is elected with a high watermark below its log."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import at_link, held_from

A, B, CONTROLLER = 0, 1, 2


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.Produce(operation="both", topic="t", partition=0, records=2, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=2),
        k.Tell(text="B is away; A gets 2-4, and a client lets everything be deleted"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Produce(operation="a-only", topic="t", partition=0, records=3, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A,), high_watermark=5),
        k.DeleteRecords(topic="t", partition=0, before_offset=5),
        k.Tell(text="B is back: out of range, it begins its log anew at 5, and is in sync there"),
        held_from("answer", B, A, 5, direction="response"),
        k.Heal(name="B-down"),
        k.AwaitMessage(api="ListOffsets", source=B, target=A, direction="response", count=2),
        k.AwaitHeld(name="answer"),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
        k.Tell(text="before the first answer A dies, and B leads"),
        k.Inject(name="A-down", fault=k.KillBroker(broker=A)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
        k.Produce(
            operation="after",
            topic="t",
            partition=0,
            records=1,
            acks=1,
            broker=B,
            accept_error=True,
        ),
        k.Heal(name="answer"),
        k.Heal(name="A-down"),
    )


_DELETED = "deleted"
_ANEW = at_link(
    "ListOffsets",
    "response",
    B,
    A,
    partition={"topic": "t", "partition": 0, "error_code": 0, "offset": 5},
)
_TOLD = {"api": "LeaderAndIsr", "direction": "response", "source": CONTROLLER, "target": B}

KAFKA_9491 = k.Entry(
    name="KAFKA-9491",
    title="A leader whose high watermark is below its log start can move it no more",
    story=(
        "B is away while A gets more records, and a client lets all of them be deleted. Back, B "
        "fetches below A's log start, empties its log and begins it anew at 5. Its fetch from "
        "there brings it back into the ISR; before it has the answer A dies and B is elected. In "
        "2.4.0 its high watermark is still 2, which is not in its log: whatever would move it ends "
        "with OFFSET_OUT_OF_RANGE, the LeaderAndIsr as well as every produce, whose records are "
        "appended all the same. 2.4.1 takes the high watermark to the new log start."
    ),
    source="KAFKA-9491 (fixed in 2.4.1 and 2.5.0)",
    cases={_DELETED: "records are deleted by a client"},
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_DELETED, "2.4.0"): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (B,), -1, -1),),
            witness=(
                _ANEW,
                {"operation": {"operation": "after", "error": "OFFSET_OUT_OF_RANGE"}},
                {"link": {**_TOLD, "detail": {"error_code": 1}}},
            ),
        ),
        (_DELETED, "2.4.1"): k.Expectation(
            safe=True, witness=(_ANEW, {"link": {**_TOLD, "detail": {"error_code": 0}}})
        ),
    },
)
