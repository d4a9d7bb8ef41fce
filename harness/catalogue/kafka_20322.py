"""KAFKA-20322: a coordinator sends markers that older brokers cannot read."""

import kchaos as k
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue.settings import QUICK_KRAFT

COORDINATOR, LEADER = 0, 1
OLDER = "4.1.2"
_CASE = "rolling"
_MARKER_S = 10.0


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(k.BrokerSpec(id=COORDINATOR, kafka=kafka), k.BrokerSpec(id=LEADER, kafka=OLDER)),
        mode="kraft",
        properties=QUICK_KRAFT,
        client_links=True,
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    aborted = k.WriteAfterAbort(
        operation="in-transaction", topic="t", partition=0, broker=LEADER, timeout_s=_MARKER_S
    )
    return (
        k.CreateTopic(topic="__transaction_state", assignment=((COORDINATOR,),)),
        k.CreateTopic(topic="t", assignment=((LEADER, COORDINATOR),)),
        k.IfPossible(do=aborted),
    )


def _cannot_show(_case: str, release: str) -> str:
    if release_of(release) < release_of("4.2.0"):
        return f"{release} sends markers that {OLDER} reads: the nearest release is 4.2.0"
    return ""


_UNREAD = {"log": {"broker": LEADER, "pattern": r"\(WriteTxnMarkers\) and unsupported version 2"}}
_LATE = {"observed": {"kind": "late-batch", "error": "INVALID_TXN_STATE"}}

KAFKA_20322 = k.Entry(
    name="KAFKA-20322",
    title="While brokers are rolled to 4.2.0 transactions never end",
    story=(
        "A transaction's coordinator runs 4.2.0 already, and the leader of a partition in it does "
        "not. 4.2.0 has a new version of WriteTxnMarkers (KIP-1228), and its coordinators do not "
        "ask a broker which versions it knows. The older leader hangs up on each request. So the "
        "transaction was aborted, or committed, to its producer's knowledge, and no marker is ever "
        "written. Consumers with read_committed get nothing of that partition any more until its "
        "leader runs 4.2 as well. From 4.2.1 on coordinators ask."
    ),
    source=(
        "KAFKA-20322 (4.2.0, fixed in 4.2.1); kafka.coordinator.transaction."
        "TransactionMarkerChannelManager, 4.2.0 and 4.2.1; measured"
    ),
    cases={_CASE: f"the coordinator has the release, and the partition's leader {OLDER}"},
    cluster=_cluster,
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_CASE, "4.2.0"): k.Expectation(
            safe=False, findings=(("hanging-transaction", (LEADER,), 0, 0),), witness=(_UNREAD,)
        ),
        (_CASE, "4.2.1"): k.Expectation(safe=True, witness=(_LATE,)),
    },
)
