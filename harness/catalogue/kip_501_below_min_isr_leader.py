"""KIP-501 says that a partition below min.insync.replicas cannot get another leader: it can."""

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue.kip_501 import CONTROLLER, LEADER, OTHER, begun, cluster_of, write

_TWO_OF_THREE = "two-of-three"


def _cluster(kafka: str) -> k.ClusterSpec:
    return cluster_of(kafka, min_insync_replicas="3")


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _TWO_OF_THREE
    return (
        *begun(),
        k.Tell(text="one follower is cut off; two of three that are required stay in sync"),
        k.Inject(name="link", fault=k.CutLink(source=OTHER, target=LEADER)),
        write("two", acks=1),
        k.AwaitState(topic="t", partition=0, leader=LEADER, isr=(LEADER, CONTROLLER)),
        # From 2.7 on the state is there before the leader has heard that it may.
        k.AwaitLog(broker=LEADER, pattern=r"ISR updated to \[?1,0\b"),
        write("refused", acks=-1, accept_error=True),
        k.Tell(text="the leader dies, and the other in-sync replica leads"),
        k.Inject(name="down", fault=k.KillBroker(broker=LEADER)),
        k.AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=(CONTROLLER,)),
        write("goes-on", acks=1),
    )


KIP_501_BELOW_MIN_ISR_LEADER = k.Entry(
    name="KIP-501-below-min-isr-leader",
    title="A partition below min.insync.replicas still gets another leader",
    story=(
        "KIP-501 says that a partition goes offline when fewer than min.insync.replicas are in "
        "sync and its leader goes down, since no other follower can lead. With two of three in "
        "sync writes with acks=all are refused. But when the leader dies the other in-sync replica "
        "is elected, cleanly, and takes writes with acks=1: an election does not look at "
        "min.insync.replicas. The partition goes offline when the leader was the only one in sync."
    ),
    source="KIP-501, motivation, second scenario; measured on real brokers",
    cases={_TWO_OF_THREE: "two in sync, three required; then the leader dies"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_TWO_OF_THREE, "2.8.2"): k.Expectation(
            safe=True,
            witness=(
                {
                    "operation": {
                        "operation": "refused",
                        "error_code": ErrorCode.NOT_ENOUGH_REPLICAS.value,
                    }
                },
                {"operation": {"operation": "goes-on", "broker": CONTROLLER, "outcome": "ok"}},
            ),
        )
    },
)
