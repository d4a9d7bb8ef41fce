"""KIP-405: the remote store hangs while consumers read what is only there."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.clusters.agent.points import REMOTE_READ
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2
_CASE = "read-times-out"


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_405.failing_store(kafka, A, REMOTE_READ)


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _CASE
    return (
        kip_405.created((A, B), segment_messages=2, local_messages=1),
        *kip_405.messages(0, 1, 2, 3, 4),
        *kip_405.settled(A, (A, B), 5),
        kip_405.shipped((0, 1, 0), (2, 3, 0)),
        kip_405.begins(A, 4),
        *kip_405.read_all("before", A),
        k.Tell(text="the store hangs: what is asked of it is not answered"),
        k.Inject(
            name="store hangs", fault=k.HoldPoint(name="no-read", broker=A, point=REMOTE_READ)
        ),
        k.AskAs(
            operation="asked-hanging",
            topic=kip_405.TOPIC,
            partition=kip_405.PARTITION,
            broker=A,
            offset=2,
            leader_epoch=0,
        ),
        _consumer("consumer-hanging"),
        k.TakeSnapshot(label="hanging"),
        k.Tell(text="the store answers again"),
        k.Heal(name="store hangs"),
        *kip_405.read_all("after", A),
        _consumer("consumer-after"),
    )


def _consumer(operation: str) -> k.ConsumeFrom:
    return k.ConsumeFrom(
        operation=operation,
        topic=kip_405.TOPIC,
        partition=kip_405.PARTITION,
        coordinator=CONTROLLER,
        offset=0,
        leader_epoch=0,
        records=5,
    )


_REQUESTS = (
    "Fetch v10",
    "Fetch v11",
    "Fetch v11, current_leader_epoch",
    "Fetch v12, last_fetched_epoch",
)
_WITNESS: tuple[Mapping[str, Any], ...] = (
    {"hit": {"point": REMOTE_READ, "broker": A, "fate": "held"}},
    *(
        {
            "observed": {
                "kind": "asked",
                "operation": "asked-hanging",
                "request": request,
                "error_code": 0,
                "records": [],
            }
        }
        for request in _REQUESTS
    ),
    # Only the consumer asks for what is in the first segment.
    {"hit": {"point": REMOTE_READ, "fate": "held", "seen": "(start=0,position=0)"}},
    {"observed": {"kind": "consumed", "operation": "consumer-hanging", "records": []}},
    {
        "observed": {
            "kind": "consumed",
            "operation": "consumer-after",
            "records": [[offset, f"message-{offset:06d}-0"] for offset in range(5)],
        }
    },
)

KIP_405_SLOW_READS = k.Entry(
    name="KIP-405-slow-reads",
    title="A remote read that takes too long brings a consumer nothing, and no error",
    story=(
        "Consumers ask for offsets that are only in the remote store, and it does not answer. The "
        "broker waits as long as the consumer's fetch.max.wait.ms (up to 3.7; "
        "remote.fetch.max.wait.ms since), cancels the read, and answers without records and "
        "without an error: the consumer stands still and cannot tell why. Each Fetch takes one "
        "more of remote.log.reader.threads. Once the store answers again, everything is there."
    ),
    source="KIP-405; kafka.server.DelayedRemoteFetch, 3.6.2 and 3.9; KAFKA-15776",
    cases={_CASE: "no read of the remote store is answered for a while"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, release): k.Expectation(safe=True, witness=_WITNESS)
        for release in ("3.6.2", "3.9.1")
    },
    measured_only=(_CASE,),
)
