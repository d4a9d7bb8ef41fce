"""KIP-380: a replica is stopped, or deleted, by a request to its broker's earlier generation."""

import kchaos as k
from kchaos.harness.catalogue.kip_380_bounced import (
    BOUNCING,
    OTHER,
    bounced_cluster,
    late_answer,
    topic_with_a_record,
)

_STOPPED, _DELETED = "stopped", "deleted"


def _steps(case: str) -> tuple[k.Step, ...]:
    deletes = case == _DELETED
    replicas = (BOUNCING,) if deletes else (OTHER, BOUNCING)
    return (
        *topic_with_a_record(replicas),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=replicas, high_watermark=1),
        k.Tell(text="a StopReplica for broker 1 is made, and is late"),
        k.Inject(
            name="late",
            fault=k.StaleRequest(
                api="StopReplica", broker=BOUNCING, partitions=(("t", 0),), deletes=deletes
            ),
        ),
        k.Tell(text="broker 1 bounces; the controller notices, and it has all its replicas again"),
        k.Inject(name="bounce", fault=k.FastBounce(broker=BOUNCING)),
        k.AwaitState(topic="t", partition=0, leader=replicas[0], isr=replicas),
        k.AwaitFollowing(topic="t", partition=0, follower=BOUNCING, leader=replicas[0]),
        k.AwaitReplicated(topic="t", partition=0, brokers=replicas, log_end_offset=1),
        k.Tell(text="now the request to its earlier generation arrives"),
        k.Heal(name="late"),
        *(
            ()
            if deletes
            else (k.Produce(operation="m2", topic="t", partition=0, records=1, acks=1),)
        ),
    )


_OBEYED, _REFUSED = late_answer("StopReplica", 0), late_answer("StopReplica", 77)

KIP_380_STALE_STOP_REPLICA = k.Entry(
    name="KIP-380-stale-stop-replica",
    title="A replica is stopped by a request that was meant for the broker's earlier generation",
    story=(
        "Broker 1 has bounced, has heard of its replicas, and follows again, or leads. Then a "
        "StopReplica arrives that the controller had made for its earlier generation, as it does "
        "during a controlled shutdown. Up to 2.1 nothing in the request says so: the broker obeys. "
        "Its fetcher is gone, and it drops out of the ISR with the next write. It never comes "
        "back, since nobody sends it a LeaderAndIsr any more; with delete=true its log is deleted, "
        "and if it was the only replica, what was acknowledged is gone. From 2.2 on the request "
        "carries the czxid of the broker's registration and is refused with STALE_BROKER_EPOCH "
        "(77). The request is made by kchaos at the injection and delivered after the bounce. One "
        "that the controller itself sent and that a hold keeps back cannot show it: when the "
        "controller notices that the broker was gone, it closes the connection and drops what it "
        "had not got an answer to (ControllerChannelManager.removeBroker)."
    ),
    source="KIP-380, motivation, first example; measured on real brokers",
    cases={
        _STOPPED: "delete=false, to a follower that is in sync",
        _DELETED: "delete=true, to the only replica",
    },
    cluster=bounced_cluster,
    steps=_steps,
    expectations={
        (_STOPPED, "2.1.1"): k.Expectation(
            safe=False,
            findings=(
                ("stale-request-accepted", (BOUNCING,), -1, -1),
                ("replication-stopped", (BOUNCING,), -1, -1),
            ),
            witness=(_OBEYED,),
        ),
        (_DELETED, "2.1.1"): k.Expectation(
            safe=False,
            findings=(
                ("stale-request-accepted", (BOUNCING,), -1, -1),
                ("offline-partition", (), -1, -1),
                ("committed-loss", (BOUNCING,), 0, 0),
                # With its last partition gone the broker leaves its checkpoint as it was.
                ("missing-tail", (BOUNCING,), 0, 0),
            ),
            witness=(_OBEYED,),
        ),
    }
    | {
        (case, "2.2.2"): k.Expectation(safe=True, witness=(_REFUSED,))
        for case in (_STOPPED, _DELETED)
    },
)
