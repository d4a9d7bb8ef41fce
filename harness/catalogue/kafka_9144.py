"""KAFKA-9144: a broker that starts forgets whom a coordinator has fenced, and a zombie writes."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import StopBroker
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.if_possible import AwaitInSync
from kchaos.harness.steps.scenario_steps import CreateTopic, Heal, Inject, Step
from kchaos.harness.steps.transactions import LetTransactionTimeOut, WriteWhenTimedOut

FIRST, SECOND = 0, 1
_CASE = "rolled"
_PROPERTIES = {
    **QUICK,
    # How often a coordinator looks whose time is over.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def _cluster(kafka: str) -> ClusterSpec:
    return ClusterSpec(
        brokers=brokers_of(kafka, (FIRST, SECOND)), properties=_PROPERTIES, client_links=True
    )


def _restart(broker: int) -> tuple[Step, ...]:
    name = f"{broker}-restarts"
    return Inject(name=name, fault=StopBroker(broker=broker)), Heal(name=name), AwaitInSync()


def _steps(_case: str) -> tuple[Step, ...]:
    return (
        CreateTopic(topic="t", assignment=((FIRST, SECOND),)),
        Produce(operation="before", topic="t", partition=0, broker=FIRST, records=1, acks=-1),
        LetTransactionTimeOut(topic="t", partition=0, broker=FIRST),
        *_restart(SECOND),
        *_restart(FIRST),
        WriteWhenTimedOut(operation="late", topic="t", partition=0, broker=SECOND),
    )


def _witness(error: str) -> dict[str, object]:
    return {"observed": {"kind": "late-batch", "error": error}}


_HANGS = Expectation(
    safe=False, findings=(("hanging-transaction", (SECOND,), 2, 2),), witness=(_witness(""),)
)
_FENCED = Expectation(safe=True, witness=(_witness("INVALID_PRODUCER_EPOCH"),))

KAFKA_9144 = Entry(
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
