"""KAFKA-6119: a transaction that timed out is committed in part, and its client is told nothing."""

import kchaos as k

LEADER, FOLLOWER = 0, 1
_CASE = "slow"
_PROPERTIES = {
    **k.QUICK,
    # How often a coordinator looks whose time is over. 0.11.0.0 knows it, and looks once a minute.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (LEADER, FOLLOWER)), properties=_PROPERTIES, client_links=True
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEADER, FOLLOWER), (LEADER, FOLLOWER))),
        k.WriteAcrossTimeout(
            operation="in-transaction", topic="t", partition=0, next_partition=1, broker=LEADER
        ),
    )


def _witness(error: str) -> dict[str, object]:
    return {"observed": {"kind": "after-timeout", "error": error}}


_LOST = k.Expectation(
    safe=False, findings=(("committed-as-aborted", (LEADER,), 0, 0),), witness=(_witness(""),)
)
_FENCED = k.Expectation(safe=True, witness=(_witness("INVALID_PRODUCER_EPOCH"),))

KAFKA_6119 = k.Entry(
    name="KAFKA-6119",
    title="A transaction that timed out is committed in part, and the rest is lost without a word",
    story=(
        "A transactional producer writes a record to one partition and is slow. Its coordinator "
        "aborts the transaction when its time is over, and writes the marker. In 0.11.0.0 and "
        "0.11.0.1 it does so in the producer's own epoch. So the producer, which has heard "
        "nothing, may add another partition, writes there too, and commits: that is a new "
        "transaction to the coordinator, and it answers without an error. The first record is "
        "aborted, and its client heard that it is committed. From 0.11.0.2 on the coordinator "
        "takes the next epoch before it aborts, and the producer is fenced at its next request."
    ),
    source="KAFKA-6119 (fixed in 0.11.0.2 and 1.0.0)",
    cases={_CASE: "the producer goes on when the abort of its transaction is written"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "0.11.0.3"): _FENCED,
        (_CASE, "0.11.0.0"): _LOST,
        (_CASE, "1.1.1"): _FENCED,
        (_CASE, "2.8.2"): _FENCED,
        (_CASE, "3.9.1"): _FENCED,
    },
    default_releases=("0.11.0.0", "0.11.0.3"),
)
