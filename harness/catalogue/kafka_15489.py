"""KAFKA-15489: a leader of the controllers whom the others have replaced goes on to lead."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT

LEADER, FOLLOWER, THIRD = 0, 1, 2
ALONE, OTHERS = 100, (101, 102)
ALL = (LEADER, FOLLOWER, THIRD)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "cut-off"
_UNANSWERED_S = 40


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, ALL), mode="kraft", controllers=3, properties=QUICK_KRAFT
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(ALL,)),
        k.Produce(operation="before", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=ALL, high_watermark=3, **_T0),
        k.Tell(text="101 and 102 do not reach each other: only 100 can lead both"),
        k.Inject(name="pair", fault=k.CutLink(source=OTHERS[0], target=OTHERS[1])),
        k.AwaitLog(broker=ALONE, pattern=r"Completed transition to Leader\("),
        k.Heal(name="pair"),
        k.Tell(text="100 is cut off from both; brokers reach it still"),
        k.Inject(name="alone", fault=k.IsolateBroker(broker=ALONE)),
        k.Tell(text="a follower dies: a write waits until a controller fences it"),
        k.Inject(name="follower-away", fault=k.PauseBroker(broker=FOLLOWER)),
        k.Produce(
            operation="waits",
            records=1,
            acks=-1,
            broker=LEADER,
            accept_error=True,
            timeout_s=_UNANSWERED_S,
            **_T0,
        ),
        k.Heal(name="alone"),
        k.Heal(name="follower-away"),
        k.AwaitState(isr=ALL, **_T0),
        k.Produce(operation="after", records=1, acks=-1, **_T0),
    )


KAFKA_15489 = k.Entry(
    name="KAFKA-15489",
    title="A controller that no other one reaches goes on to lead, and nothing is decided",
    story=(
        "Controller 100 leads the quorum and is cut off from the two others, which elect another "
        "leader. Up to 3.6 a leader does not notice that no voter fetches from it: it leads on, "
        "and brokers that reach it ask nobody else. What it is asked it can never commit. A "
        "follower that dies is not fenced, so writes with acks=all get no answer; the new leader "
        "hears no broker, and takes all of them for dead. From 3.7 on a leader resigns that most "
        "voters did not fetch from for one and a half times controller.quorum.fetch.timeout.ms. "
        "Then brokers find the new one, and the write is acknowledged."
    ),
    source=(
        "KAFKA-15489 (fixed in 3.7.0); org.apache.kafka.raft.LeaderState."
        "timeUntilCheckQuorumExpires, 3.7.0; measured"
    ),
    cases={_CASE: "the leader of three controllers is cut off from the two others alone"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False,
            findings=(("two-controllers", (ALONE,), -1, -1),),
            witness=({"operation": {"operation": "waits", "outcome": "info"}},),
        ),
        (_CASE, "3.9.1"): k.Expectation(
            safe=True, witness=({"operation": {"operation": "waits", "outcome": "ok"}},)
        ),
    },
)
