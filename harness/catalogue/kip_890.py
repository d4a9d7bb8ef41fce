"""KIP-890: a transactional batch that comes late begins a transaction that nobody ends."""

import kchaos as k

LEADER, FOLLOWER = 0, 1
_CASE = "late"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (LEADER, FOLLOWER)), properties=k.QUICK, client_links=True
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEADER, FOLLOWER),)),
        k.WriteAfterAbort(operation="in-transaction", topic="t", partition=0, broker=LEADER),
    )


def _witness(error: str) -> dict[str, object]:
    return {"observed": {"kind": "late-batch", "error": error}}


_HANGS = k.Expectation(
    safe=False, findings=(("hanging-transaction", (LEADER,), 2, 2),), witness=(_witness(""),)
)
_REFUSED = k.Expectation(safe=True, witness=(_witness("INVALID_TXN_STATE"),))

KIP_890 = k.Entry(
    name="KIP-890",
    title="A batch that comes when its transaction is over begins one that nobody ends",
    story=(
        "A transactional producer writes a record and aborts; the marker is written. Then another "
        "batch of the same producer, epoch and transaction arrives, which was long on its way. Up "
        "to 3.5 the leader looks at epoch and sequence number alone, appends it, and so begins a "
        "transaction of which the coordinator knows nothing. No marker ever ends it: the last "
        "stable offset stays there, and read_committed clients get nothing of that partition any "
        "more. From 3.6 on the leader asks the coordinator first, and refuses the batch."
    ),
    source="KIP-890, motivation; KAFKA-14402 (fixed in 3.6.0)",
    cases={_CASE: "the second batch arrives when the abort of its transaction is written"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "1.1.1"): _HANGS,
        (_CASE, "2.8.2"): _HANGS,
        (_CASE, "3.3.2"): _HANGS,
        (_CASE, "3.6.2"): _REFUSED,
        (_CASE, "3.9.1"): _REFUSED,
    },
    default_releases=("2.8.2", "3.9.1"),
)
