"""KAFKA-7601, issue 1: after a downgrade of the format old clients are given the new one."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, CONTROLLER = 0, 1
_OLD = (("log.message.format.version", "0.10.2"),)


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A,),)),
        k.Tell(text="A writes 0 and 1 in the new format"),
        k.Produce(operation="new", topic="t", partition=0, records=2, acks=-1),
        k.Tell(text="A is restarted with an older format and writes 2 and 3"),
        k.Inject(name="downgrade", fault=k.RollBroker(broker=A, properties=_OLD)),
        k.AwaitState(topic="t", partition=0, leader=A),
        k.Produce(operation="old", topic="t", partition=0, records=2, acks=-1),
        k.Tell(text="clients of 0.8 to 0.10 read from the start"),
        k.FetchAs(operation="client", topic="t", partition=0, broker=A, high_watermark=4),
    )


_SOURCE = "KAFKA-7601, issue 1"


def _written_in(*magics: int) -> dict[str, dict[str, object]]:
    return {"magics": {"snapshot": "final", "broker": A, "partition": "t-0", "runs": list(magics)}}


_RED = k.Expectation(
    safe=False, findings=(("not-down-converted", (A,), -1, -1),), witness=(_written_in(2, 1),)
)
# From protocol 3.0 on the setting is ignored (KIP-724): nothing is downgraded.
_GREEN = k.Expectation(safe=True, witness=(_written_in(2),), source=f"{_SOURCE}; KIP-724")

KAFKA_7601_DOWN_CONVERSION = k.Entry(
    name="KAFKA-7601-down-conversion",
    title="After a downgrade of the message format old clients are given the new one",
    story=(
        "A broker looks at the configured message format to tell whether a Fetch of an old client "
        "needs down-conversion. It takes that format for the newest in the log. After a downgrade "
        "it is not: a client that reads magic 1 at best is given the batches of magic 2 from "
        "before as they are. What was fixed in 2.2.1 is the other issue of KAFKA-7601; this one is "
        "there up to 2.8. From protocol 3.0 on brokers ignore the setting, write magic 2 and "
        "convert for every old client."
    ),
    source=_SOURCE,
    cases={"downgrade": "Fetch versions 0 to 3, raw, after a restart with format 0.10.2"},
    cluster=quick_cluster(A, controller=CONTROLLER),
    steps=_steps,
    expectations={
        **{("downgrade", release): _RED for release in ("1.1.1", "2.1.1", "2.2.1", "2.8.2")},
        **{("downgrade", release): _GREEN for release in ("3.0.2", "3.9.1")},
    },
    default_releases=("1.1.1", "2.8.2", "3.9.1"),
)
