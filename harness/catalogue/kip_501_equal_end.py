"""KIP-501: "a follower with the leader's end offset is in sync" holds from 2.1.0 on."""

import kchaos as k

LEADER, FOLLOWER, CONTROLLER = 0, 1, 2
_CUT_OFF = "cut-off"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (LEADER, FOLLOWER, CONTROLLER)),
        first_broker=CONTROLLER,
        properties={**k.QUICK, "replica.lag.time.max.ms": "1000"},
    )


def _alone(topic: str) -> tuple[k.Step, ...]:
    """Write a record to this topic's leader, which drops the lacking follower from the ISR."""
    return (
        k.Produce(operation=f"{topic}-alone", topic=topic, partition=0, records=1, acks=1),
        k.AwaitState(topic=topic, partition=0, leader=LEADER, isr=(LEADER,)),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _CUT_OFF
    return (
        *(k.CreateTopic(topic=topic, assignment=((LEADER, FOLLOWER),)) for topic in "tuw"),
        k.Produce(operation="t-both", topic="t", partition=0, records=1, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(LEADER, FOLLOWER), high_watermark=1),
        k.Tell(text="the follower is cut off; it has all of t, and lacks the ends of u and w"),
        k.Inject(name="link", fault=k.CutLink(source=LEADER, target=FOLLOWER)),
        # A whole round of the leader's check lies between the two.
        *_alone("u"),
        *_alone("w"),
        k.Produce(operation="t-then", topic="t", partition=0, records=1, acks=1),
    )


def _isr_of_t(*isr: int) -> k.Expectation:
    """Return the expectation of a release's ISR while the follower has all records of t."""
    return k.Expectation(
        safe=True,
        witness=(
            {"operation": {"operation": "w-alone", "outcome": "ok"}},
            {"operation": {"operation": "t-then", "isr_when_ended": [*isr]}},
        ),
    )


KIP_501_EQUAL_END = k.Entry(
    name="KIP-501-equal-end",
    title="A follower that has everything stays in the ISR, but only from 2.1 on",
    story=(
        "KIP-501 says that a replica whose log ends where its leader's does is in sync, however "
        "long it has not fetched. Up to 2.0 only time counts: a follower that is cut off leaves "
        "the ISR of t, to which nobody writes. It also leaves those of u and w, whose last record "
        "it lacks. From 2.1.0 on it stays in that of t. Neither breaks a promise: the entry says "
        "what a release does."
    ),
    source=(
        "KIP-501, proposed changes; kafka.cluster.Partition.getOutOfSyncReplicas, 2.0.1 and 2.1.0"
    ),
    cases={_CUT_OFF: "the follower of a topic to which nobody writes is cut off"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CUT_OFF, "2.0.1"): _isr_of_t(LEADER),
        (_CUT_OFF, "2.1.0"): _isr_of_t(LEADER, FOLLOWER),
        (_CUT_OFF, "2.2.2"): _isr_of_t(LEADER, FOLLOWER),
    },
)
