"""KAFKA-9839: a controller tells a broker an epoch that the broker itself does not know yet."""

import kchaos as k
from kchaos.harness.catalogue import kip_380_bounced as bounced
from kchaos.harness.catalogue.words import at_link

REGISTERING = bounced.BOUNCING


def _steps(case: str) -> tuple[k.Step, ...]:
    both = (REGISTERING, bounced.OTHER)
    return (
        *bounced.topic_with_a_record(both),
        k.AwaitReplicated(topic="t", partition=0, brokers=both, log_end_offset=1),
        k.Tell(text="broker 1's session ends; it registers again, and ZooKeeper's answer is slow"),
        k.Inject(
            name="knows", fault=k.HoldPoint(name="knows", broker=REGISTERING, point="registered")
        ),
        k.Inject(name="session", fault=k.ExpireSession(broker=REGISTERING, await_return=False)),
        k.AwaitHeld(name="knows"),
        k.AwaitState(topic="t", partition=0, leader=bounced.OTHER),
        k.Tell(text="the controller names the new epoch: what does broker 1 answer?"),
        k.AwaitMessage(
            api="LeaderAndIsr",
            source=bounced.CONTROLLER,
            target=REGISTERING,
            direction="response",
            count=2,
        ),
        k.Tell(text="ZooKeeper's answer arrives"),
        k.Heal(name="knows"),
        k.Heal(name="session"),
        k.Produce(operation="m2", topic="t", partition=0, records=1, acks=1),
    )


_HELD = {"hit": {"point": "registered", "broker": REGISTERING, "fate": "held"}}
_THROWN = {
    "log": {"broker": REGISTERING, "pattern": r"Epoch \d+ larger than current broker epoch \d+"}
}


def _answered(error_code: int) -> dict[str, object]:
    return at_link(
        "LeaderAndIsr", "response", target=REGISTERING, detail={"error_code": error_code}
    )


KIP_380_EPOCH_AHEAD = k.Entry(
    name="KIP-380-epoch-ahead",
    title="A broker fails at a control request that names its newest epoch before it knows that",
    story=(
        "The session of broker 1, which leads t, ends, and its process goes on and registers "
        "again. The controller reads the new registration and tells broker 1 of the new leader, "
        "with the new epoch; the answer of ZooKeeper to broker 1 itself is slower. The document "
        "knows smaller epochs and equal ones only. From 2.2.0 to 2.5.0 a greater one is an "
        "IllegalStateException: the broker answers with an unknown error (-1). The controller goes "
        "on and sends nothing again. Broker 1 leads t in its old epoch for ever, beside broker 2. "
        "From 2.5.1 on it obeys. Up to 2.1 no request has an epoch, and it obeys as well."
    ),
    source="KAFKA-9839 (fixed in 2.5.1); KafkaApis.isBrokerEpochStale; measured on real brokers",
    cases={"registered-and-not-told": "the broker's own registration returns last"},
    cluster=bounced.bounced_cluster,
    steps=_steps,
    expectations={
        ("registered-and-not-told", release): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (REGISTERING,), -1, -1),),
            witness=(_HELD, _answered(-1), _THROWN),
        )
        for release in ("2.2.2", "2.4.1")
    }
    | {
        ("registered-and-not-told", release): k.Expectation(
            safe=True, witness=(_HELD, _answered(0))
        )
        for release in ("2.1.1", "2.5.1", "2.8.2")
    },
    default_releases=("2.1.1", "2.2.2", "2.5.1", "2.8.2"),
)
