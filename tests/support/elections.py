"""Sign of an election of the preferred replica."""

import pytest

import kchaos as k
from tests.support.replicated_topic import Topic


def prefer(topic: Topic, *replicas: int) -> None:
    """Make another replica the preferred one; the leader stays."""
    metadata = topic.cluster.metadata
    metadata.reassign(topic.name, 0, replicas)
    k.await_until(
        lambda: not metadata.reassigning(),
        timeout_s=60,
        waiting_for=f"the replicas of {topic.name} to be {replicas}",
        last_seen=topic.state,
    )


def check_election(replicas: Topic, journal: k.MemoryJournal, by: str, done_by: str) -> None:
    """Broker 0 leads; then broker 1 is preferred, and elected."""
    cluster = replicas.cluster
    prefer(replicas, 1, 0)
    before = replicas.state()
    assert before["leader"] == 0
    fault = k.PreferredElection(topic=replicas.name, partition=0, by=by)  # type: ignore[arg-type]
    with fault.inject(cluster, journal) as injection:
        after = replicas.state()
        assert after["leader"] == 1
        assert after["leader_epoch"] == before["leader_epoch"] + 1
        assert after["isr"] == [0, 1]
        assert injection.before["leader_epoch"] == before["leader_epoch"]
        assert injection.effect["leader_epoch"] == after["leader_epoch"]
        assert injection.effect["by"] == done_by
    assert replicas.state() == after
    assert replicas.produce(1, acks=-1).error_code == 0
    with pytest.raises(k.NoEffect, match=r"broker 1, the preferred replica .* leads already"):
        fault.inject(cluster, journal).__enter__()
