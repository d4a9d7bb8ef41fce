"""KIP-501: writes are refused for want of followers that fetched in time."""

from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.clusters.spec import ClusterSpec
from kchaos.faults import SlowFetchReads
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.kip_501 import (
    CONTROLLER,
    LEADER,
    MEASURED,
    OTHER,
    begun,
    cluster_of,
    write,
)
from kchaos.harness.steps.clients import AwaitAnswer
from kchaos.harness.steps.if_possible import AwaitInSync
from kchaos.harness.steps.observing import AwaitLog
from kchaos.harness.steps.scenario_steps import AwaitHeld, AwaitState, Heal, Inject, Step, Tell

_REFUSED = "acks-all-refused"


def _cluster(kafka: str) -> ClusterSpec:
    return cluster_of(kafka, min_insync_replicas="2")


def _steps(case: str) -> tuple[Step, ...]:
    assert case == _REFUSED
    return (
        *begun(),
        Tell(text="both followers ask, and the leader is slow to read for them"),
        Inject(name="slow", fault=SlowFetchReads(broker=LEADER, topic="t", partition=0)),
        AwaitHeld(name="slow"),
        # Up to 2.6 the thread of a write also reads for fetches that wait, before it answers.
        write("alone", acks=1, await_answer=False),
        AwaitHeld(name="slow", count=2),
        Tell(text="the leader finds both followers slow, and refuses what acks=all asks for"),
        AwaitState(topic="t", partition=0, leader=LEADER, isr=(LEADER,)),
        # From 2.7 on the state is there before the leader has heard that it may.
        AwaitLog(broker=LEADER, pattern=r"ISR updated to \[?1\b[^,]"),
        write("refused", acks=-1, accept_error=True),
        Heal(name="slow"),
        AwaitAnswer(operation="alone"),
        AwaitInSync(),
    )


KIP_501_MIN_ISR = Entry(
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
    source=MEASURED,
    cases={_REFUSED: "both followers wait for the leader's reads; two replicas are required"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_REFUSED, release): Expectation(
            safe=False,
            findings=(("under-min-isr", (CONTROLLER, OTHER), -1, -1),),
            witness=(
                {"hit": {"point": "fetch-read", "broker": LEADER, "fate": "held"}},
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
