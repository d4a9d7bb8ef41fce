"""KIP-903: a replica that lost its disk joins the ISR by what its leader saw before that."""

from typing import Any

import kchaos
from kchaos.harness.catalogue.settings import QUICK_KRAFT

LEADER, FOLLOWER, CONTROLLER = 0, 1, 100
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "rebooted"


def _cluster(kafka: str) -> kchaos.ClusterSpec:
    return kchaos.ClusterSpec(
        brokers=kchaos.brokers_of(kafka, (LEADER, FOLLOWER)),
        mode="kraft",
        # The leader is to wait for the answer that is held while its follower starts again.
        properties={**QUICK_KRAFT, "request.timeout.ms": "120000"},
    )


def _hold(name: str, api: str, source: int, target: int, **more: Any) -> kchaos.Inject:
    fault = kchaos.HoldRequests(name=name, api=api, source=source, target=target, **more)
    return kchaos.Inject(name=name, fault=fault)


def _steps(_case: str) -> tuple[kchaos.Step, ...]:
    return (
        kchaos.CreateTopic(topic="t", assignment=((LEADER, FOLLOWER),)),
        kchaos.Produce(operation="both", records=5, acks=-1, **_T0),
        kchaos.AwaitHighWatermark(brokers=(LEADER, FOLLOWER), high_watermark=5, **_T0),
        kchaos.Tell(text="1 is killed and comes back whole; 0 asks for it to join the ISR"),
        kchaos.Inject(name="follower-down", fault=kchaos.KillBroker(broker=FOLLOWER)),
        kchaos.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        _hold("join", "AlterPartition", LEADER, CONTROLLER),
        kchaos.Heal(name="follower-down"),
        kchaos.AwaitHeld(name="join"),
        kchaos.Tell(text="before the controller hears that, 1 loses power and all that it had"),
        kchaos.Inject(name="power", fault=kchaos.KillBroker(broker=FOLLOWER)),
        kchaos.Inject(name="disk", fault=kchaos.LoseTail(broker=FOLLOWER, log_end_offset=0, **_T0)),
        _hold("fetches", "Fetch", FOLLOWER, LEADER, **_T0),
        kchaos.Heal(name="power"),
        kchaos.AwaitHeld(name="fetches"),
        kchaos.Tell(
            text="1 is back, has nothing, and gets nothing; the controller hears the old wish"
        ),
        kchaos.Heal(name="join"),
        kchaos.AwaitMessage(api="AlterPartition", source=LEADER, direction="response"),
        kchaos.Tell(text="the leader dies: may 1 lead?"),
        kchaos.Inject(name="leader-down", fault=kchaos.KillBroker(broker=LEADER)),
        kchaos.Heal(name="fetches"),
        kchaos.Heal(name="leader-down"),
        kchaos.AwaitState(isr=(LEADER, FOLLOWER), **_T0),
    )


_ASKED = {"link": {"api": "AlterPartition", "source": LEADER, "fate": "released"}}
_INELIGIBLE = 107

KIP_903 = kchaos.Entry(
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
        (_CASE, "3.4.1"): kchaos.Expectation(
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
        (_CASE, "3.5.1"): kchaos.Expectation(
            safe=True,
            witness=(
                _ASKED,
                {
                    "link": {
                        "api": "AlterPartition",
                        "source": LEADER,
                        "direction": "response",
                        "partition": {"topic": "t", "error_code": _INELIGIBLE},
                    }
                },
            ),
        ),
    },
)
