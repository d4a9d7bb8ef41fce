"""KAFKA-7601, the flap that is harmless: an upgrade of the format while leaders alternate."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2
_FORMAT = "log.message.format.version"
_NEW, _OLD = "0.11.0", "0.10.2"


def _write(operation: str, log_end_offset: int) -> tuple[k.Step, ...]:
    return (
        k.Produce(operation=operation, topic="t", partition=0, records=2, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=log_end_offset),
        # A follower that knows no epoch truncates to its high watermark in each new leader epoch.
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=log_end_offset),
    )


def _lead(leader: int, follower: int, turn: int) -> tuple[k.Step, ...]:
    return (
        k.ReorderReplicas(topic="t", partition=0, replicas=(leader, follower)),
        k.Inject(name=f"elect-{turn}", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=leader),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    upgrade = ((_FORMAT, _NEW),)
    return (
        k.CreateTopic(topic="t", assignment=((B, A),)),
        k.Tell(text="both write the old format; A is upgraded to the new one"),
        *_write("old", 2),
        k.Inject(name="A-format", fault=k.RollBroker(broker=A, properties=upgrade)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B, A)),
        k.Tell(text="leadership goes back and forth, and with it the format"),
        *_lead(A, B, 1),
        *_write("new", 4),
        *_lead(B, A, 2),
        *_write("old-again", 6),
        *_lead(A, B, 3),
        *_write("new-again", 8),
        k.Tell(text="B is upgraded too, and leads: the format is stable"),
        k.Inject(name="B-format", fault=k.RollBroker(broker=B, properties=upgrade)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
        *_lead(B, A, 4),
        *_write("stable", 10),
    )


KAFKA_7601_FLAP = k.Entry(
    name="KAFKA-7601-flap",
    title="An upgrade of the message format flaps while leaders alternate, and stabilizes",
    story=(
        "During a rolling upgrade of the message format one broker writes the new one and the "
        "other the old one. Each time leadership changes the log goes from one format to the "
        "other. As long as every follower has what its leader has, nothing comes of it: followers "
        "take whatever format they get, and when the last broker is upgraded the new format stays. "
        "What goes wrong when a follower has more is KAFKA-7601-jira."
    ),
    source="KAFKA-7601, Description",
    cases={"upgrade": "two brokers are upgraded one after the other, and lead in turn"},
    cluster=quick_cluster(A, B, controller=CONTROLLER, properties={_FORMAT: _OLD}),
    steps=_steps,
    expectations={
        ("upgrade", "1.1.1"): k.Expectation(
            safe=True,
            witness=tuple(
                {
                    "magics": {
                        "snapshot": "final",
                        "broker": broker,
                        "partition": "t-0",
                        "runs": [1, 2, 1, 2],
                    }
                }
                for broker in (A, B)
            ),
        )
    },
)
