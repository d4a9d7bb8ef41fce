"""KAFKA-9144: a broker that starts forgets whom a coordinator has fenced, and a zombie writes."""

import kchaos as k

FIRST, SECOND = 0, 1
_CASE = "rolled"
_PROPERTIES = {
    **k.QUICK,
    # How often a coordinator looks whose time is over.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (FIRST, SECOND)), properties=_PROPERTIES, client_links=True
    )


def _restart(broker: int) -> tuple[k.Step, ...]:
    name = f"{broker}-restarts"
    return (
        k.Inject(name=name, fault=k.StopBroker(broker=broker)),
        k.Heal(name=name),
        k.AwaitInSync(),
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((FIRST, SECOND),)),
        k.Produce(operation="before", topic="t", partition=0, broker=FIRST, records=1, acks=-1),
        k.LetTransactionTimeOut(topic="t", partition=0, broker=FIRST),
        *_restart(SECOND),
        *_restart(FIRST),
        k.WriteWhenTimedOut(operation="late", topic="t", partition=0, broker=SECOND),
    )


def _witness(error: str) -> dict[str, object]:
    return {"observed": {"kind": "late-batch", "error": error}}


_HANGS = k.Expectation(
    safe=False, findings=(("hanging-transaction", (SECOND,), 2, 2),), witness=(_witness(""),)
)
_FENCED = k.Expectation(safe=True, witness=(_witness("INVALID_PRODUCER_EPOCH"),))

KAFKA_9144 = k.Entry(
    name="KAFKA-9144",
    title="A broker that starts forgets whom a coordinator has fenced, and a zombie's batch hangs",
    story=(
        "A transactional producer adds a partition to its transaction and stands still before it "
        "writes there. Its coordinator takes the next producer epoch and aborts, and another "
        "producer takes its place. The marker is all that the partition's log has of them. From "
        "1.0.0 to 2.4.0 the log keeps no time for a marker alone. So the next start of a broker "
        "takes the producer for one that has expired. When each broker was restarted, the first "
        "producer goes on in its old epoch. The leader knows of no newer one and appends its "
        "batch, which begins a transaction that nobody ends. From 2.4.1 on a marker's time counts, "
        "and the producer is fenced. The Jira tells what else becomes of it: a coordinator's epoch "
        "may go back, and then a log's recovery fails."
    ),
    source="KAFKA-9144 (fixed in 2.4.1 and 2.5.0; since KAFKA-5494, 1.0.0)",
    cases={_CASE: "each broker is restarted in its turn before the producer goes on"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "0.11.0.3"): _FENCED,
        (_CASE, "1.1.1"): _HANGS,
        (_CASE, "2.2.2"): _HANGS,
        (_CASE, "2.5.1"): _FENCED,
        (_CASE, "2.8.2"): _FENCED,
        (_CASE, "3.9.1"): _FENCED,
    },
    default_releases=("2.2.2", "2.5.1"),
)
