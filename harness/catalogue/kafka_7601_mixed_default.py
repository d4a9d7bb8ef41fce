"""KAFKA-7601 and newer protocols: do replicas with mixed message formats come to rest at all?"""

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.words import at_link

CONTROLLER, N, O = 0, 1, 2  # noqa: E741 - N writes the new format, O the old one
_FORMAT, _PROTOCOL = "log.message.format.version", "inter.broker.protocol.version"
_DEFAULT, _ROLLED = "default-protocol", "rolled-to-3.0"


def _cluster(kafka: str, **more: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=CONTROLLER, kafka=kafka),
            k.BrokerSpec(id=N, kafka=kafka, properties={_FORMAT: "0.11.0"}),
            k.BrokerSpec(id=O, kafka=kafka, properties={_FORMAT: "0.10.2"}),
        ),
        first_broker=CONTROLLER,
        # Who does not follow leaves the ISR.
        properties={**k.QUICK, "replica.lag.time.max.ms": "2000", **more},
    )


def _at_2_8(kafka: str) -> k.ClusterSpec:
    return _cluster(kafka, **{_PROTOCOL: "2.8"})


def _steps(case: str) -> tuple[k.Step, ...]:
    steps: tuple[k.Step, ...] = (
        k.CreateTopic(topic="t", assignment=((N, O),)),
        k.Tell(text="N leads and writes 0-4 in the new format; O has them too"),
        k.Produce(operation="new", topic="t", partition=0, records=5, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(N, O), log_end_offset=5),
        # In a new leader epoch O truncates to its high watermark: it must have learned that.
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(N, O), high_watermark=5),
        k.Tell(text="O is made the preferred replica and leads; does N follow it?"),
        k.ReorderReplicas(topic="t", partition=0, replicas=(O, N)),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=O),
        k.Produce(operation="old", topic="t", partition=0, records=2, acks=1),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O,)),
    )
    if case == _DEFAULT:
        return steps
    return (
        *steps,
        k.Tell(text="both are restarted with protocol 3.0, which ignores message formats"),
        k.Inject(name="N", fault=k.RollBroker(broker=N, properties=((_PROTOCOL, "3.0"),))),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O,)),
        k.Inject(name="O", fault=k.RollBroker(broker=O, properties=((_PROTOCOL, "3.0"),))),
        k.AwaitState(topic="t", partition=0, leader=O, isr=(O, N)),
        k.Produce(operation="again", topic="t", partition=0, records=1, acks=-1),
    )


def _cannot_show(case: str, release: str) -> str:
    ignores_formats = release_of(release) >= release_of("3.0.2")
    if case == _ROLLED and not ignores_formats:
        return f"{release} has no protocol 3.0; the release that can show it is 3.9.1"
    if case == _DEFAULT and ignores_formats:
        return f"{release} ignores formats at its own protocol; the release that shows it is 2.8.2"
    return ""


_OUT_OF_RANGE = at_link(
    "Fetch", "response", N, O, partition={"topic": "t", "partition": 0, "error_code": 1}
)

KAFKA_7601_MIXED_DEFAULT = k.Entry(
    name="KAFKA-7601-mixed-default",
    title="With mixed message formats a follower fetches for ever, and gets nothing",
    story=(
        "From protocol 2.7 on a follower with leader epochs says in each Fetch which one it read "
        "last. A leader in an old format keeps no epochs, so it cannot say where that one ends and "
        "answers OFFSET_OUT_OF_RANGE. The follower asks where the leader's log begins and ends, "
        "finds that its own offset lies in between, and fetches from there again: hundreds of "
        "requests a second, no record, and no end while that broker leads. So on 2.7 and 2.8 the "
        "rolling upgrade of a message format, during which formats are mixed, stops replication. "
        "From protocol 3.0 on brokers ignore the setting and write the newest format, which ends "
        "it; at an older protocol a 3.9 broker does the same as 2.8."
    ),
    source="KAFKA-7601; kafka.cluster.Partition.readRecords, 2.8.2; KIP-724",
    cases={
        _DEFAULT: "a leader in an old format, a follower in a new one, the release's own protocol",
        _ROLLED: "protocol 2.8 with mixed formats, then both are rolled to protocol 3.0",
    },
    cluster=_cluster,
    case_clusters={_ROLLED: _at_2_8},
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_DEFAULT, "2.8.2"): k.Expectation(
            safe=False, findings=(("fetch-loop", (N,), -1, -1),), witness=(_OUT_OF_RANGE,)
        ),
        (_ROLLED, "3.9.1"): k.Expectation(safe=True, witness=(_OUT_OF_RANGE,)),
    },
)
