"""KIP-903: a replica that lost its disk joins the ISR by what its leader saw before that."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import at_link

LEADER, FOLLOWER, CONTROLLER = 0, 1, 100
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "rebooted"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (LEADER, FOLLOWER)),
        mode="kraft",
        # The leader is to wait for the answer that is held while its follower starts again.
        properties={**QUICK_KRAFT, "request.timeout.ms": "120000"},
    )


def _hold(name: str, api: str, source: int, target: int, **more: Any) -> k.Inject:
    fault = k.HoldRequests(name=name, api=api, source=source, target=target, **more)
    return k.Inject(name=name, fault=fault)


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEADER, FOLLOWER),)),
        k.Produce(operation="both", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(LEADER, FOLLOWER), high_watermark=5, **_T0),
        k.Tell(text="1 is killed and comes back whole; 0 asks for it to join the ISR"),
        k.Inject(name="follower-down", fault=k.KillBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        _hold("join", "AlterPartition", LEADER, CONTROLLER),
        k.Heal(name="follower-down"),
        k.AwaitHeld(name="join"),
        k.Tell(text="before the controller hears that, 1 loses power and all that it had"),
        k.Inject(name="power", fault=k.KillBroker(broker=FOLLOWER)),
        k.Inject(name="disk", fault=k.LoseTail(broker=FOLLOWER, log_end_offset=0, **_T0)),
        _hold("fetches", "Fetch", FOLLOWER, LEADER, **_T0),
        k.Heal(name="power"),
        k.AwaitHeld(name="fetches"),
        k.Tell(text="1 is back, has nothing, and gets nothing; the controller hears the old wish"),
        k.Heal(name="join"),
        k.AwaitMessage(api="AlterPartition", source=LEADER, direction="response"),
        k.Tell(text="the leader dies: may 1 lead?"),
        k.Inject(name="leader-down", fault=k.KillBroker(broker=LEADER)),
        k.Heal(name="fetches"),
        k.Heal(name="leader-down"),
        k.AwaitState(isr=(LEADER, FOLLOWER), **_T0),
    )


_ASKED = {"link": {"api": "AlterPartition", "source": LEADER, "fate": "released"}}
_INELIGIBLE = 107

KIP_903 = k.Entry(
    name="KIP-903",
    title="A replica that has lost its disk joins the ISR, and leads with an empty log",
    story=(
        "Broker 1 is killed, comes back, and has caught up; the leader asks the controller to take "
        "it into the ISR, and that request is late. Meanwhile broker 1 loses power and its whole "
        "log, and is back with another broker epoch. Up to 3.4 the controller looks only whether "
        "it is unfenced, and takes it in. Then the leader dies, and broker 1 leads with an empty "
        "log. What acks=all had put on two disks is gone, though the leader's disk was whole. From "
        "3.5 on the request names the broker epoch that the leader saw, and the controller refuses "
        "a replica that has had another start since."
    ),
    source=(
        "KIP-903; KAFKA-14617 (fixed in 3.5.0); KAFKA-14139; "
        "ReplicationControlManager.ineligibleReplicasForIsr, 3.5.0"
    ),
    cases={_CASE: "the follower loses its log between the leader's wish and the controller"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.4.1"): k.Expectation(
            safe=False,
            findings=(("committed-loss", (LEADER, FOLLOWER), 0, 4),),
            witness=(
                _ASKED,
                {
                    "log": {
                        "broker": FOLLOWER,
                        "pattern": "Leader t-0 .*starts at leader epoch [1-9].* from offset 0 ",
                    }
                },
            ),
        ),
        (_CASE, "3.5.1"): k.Expectation(
            safe=True,
            witness=(
                _ASKED,
                at_link(
                    "AlterPartition",
                    "response",
                    LEADER,
                    partition={"topic": "t", "error_code": _INELIGIBLE},
                ),
            ),
        ),
    },
)
