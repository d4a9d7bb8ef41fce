"""A quota of producers delays answers, and nothing is wrong (KIP-13).

Up to 1.1 a broker keeps the answer back, here for longer than a client waits. What kchaos writes
itself when the cluster comes to rest is no exception: there the leader's high watermark tells that
it was replicated. From 2.0 on the answer comes at once (KIP-219).
"""

from typing import Any

import kchaos as k

RELEASES = {"1.1.1": True}
PROPERTIES = {"quota.producer.default": "3"}
_T: dict[str, Any] = {"topic": "t", "partition": 0}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="late", records=3, acks=-1, timeout_s=120.0, **_T),
)


def seen(run, release):
    settled = run.read("outcome.json")["settle"]
    assert settled["state"] == "converged", settled
    assert "gave no answer" in settled["probes"][0]["error"], settled
