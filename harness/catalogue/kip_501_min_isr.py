"""KIP-501: writes are refused for want of followers that fetched in time."""

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue import kip_501

_REFUSED = "acks-all-refused"


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_501.cluster_of(kafka, min_insync_replicas="2")


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _REFUSED
    return (
        *kip_501.begun(),
        k.Tell(text="both followers ask, and the leader is slow to read for them"),
        k.Inject(
            name="slow", fault=k.SlowFetchReads(broker=kip_501.LEADER, topic="t", partition=0)
        ),
        k.AwaitHeld(name="slow"),
        # Up to 2.6 the thread of a write also reads for fetches that wait, before it answers.
        kip_501.write("alone", acks=1, await_answer=False),
        k.AwaitHeld(name="slow", count=2),
        k.Tell(text="the leader finds both followers slow, and refuses what acks=all asks for"),
        k.AwaitState(topic="t", partition=0, leader=kip_501.LEADER, isr=(kip_501.LEADER,)),
        # From 2.7 on the state is there before the leader hears that it may. With KRaft it hears
        # by the answer or by the metadata log, whichever comes first.
        k.AwaitLog(broker=kip_501.LEADER, pattern=r"ISR updated to \[?1\b[^,]|isr=\[1\]"),
        kip_501.write("refused", acks=-1, accept_error=True),
        k.Heal(name="slow"),
        k.AwaitAnswer(operation="alone"),
        k.AwaitInSync(),
    )


KIP_501_MIN_ISR = k.Entry(
    name="KIP-501-min-isr",
    title="Writes with acks=all are refused although every follower fetched in time",
    story=(
        "Two in-sync replicas are required. The leader has read the fetches of both followers from "
        "the network and is slow to read its log for them; it goes on in all else. After "
        "replica.lag.time.max.ms it takes both followers, who can do nothing but wait for its "
        "answer, for slow, and shrinks the ISR to itself. Up to 2.6 it writes that to ZooKeeper, "
        "from 2.7 on it asks the controller. From then until its reads go on it refuses every "
        "write with acks=all."
    ),
    source=kip_501.MEASURED,
    cases={_REFUSED: "both followers wait for the leader's reads; two replicas are required"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_REFUSED, release): k.Expectation(
            safe=False,
            findings=(("under-min-isr", (kip_501.CONTROLLER, kip_501.OTHER), -1, -1),),
            witness=(
                {"hit": {"point": "fetch-read", "broker": kip_501.LEADER, "fate": "held"}},
                {
                    "operation": {
                        "operation": "refused",
                        "error_code": ErrorCode.NOT_ENOUGH_REPLICAS.value,
                    }
                },
            ),
        )
        for release in ("2.6.3", "2.8.2")
    },
)
