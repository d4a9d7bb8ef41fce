"""KAFKA-15583: min.insync.replicas counts as at most the number of replicas.

A topic of one replica wants two in sync. Up to 3.6 its leader refuses what is written with acks=all
(kafka.cluster.Partition.appendRecordsToLeader, 3.6.2). From 3.7 on it acknowledges that, and its
high watermark moves (`effectiveMinIsr`, 3.7.0).
"""

from kchaos import AwaitHighWatermark, ConfigureTopic, CreateTopic, Inject, Produce, TakeSnapshot
from tests.support.looking import answer, high_watermark, number

RELEASES = {"3.6.2": True, "3.7.2": True, "3.9.1": True}


def _wants(replicas):
    configuration = (("min.insync.replicas", str(replicas)),)
    return Inject(
        name=f"wants-{replicas}", fault=ConfigureTopic(topic="t", configuration=configuration)
    )


def steps(release):
    end = 2 if number(release) >= (3, 7) else 1
    return (
        CreateTopic(topic="t", assignment=((0,),)),
        _wants(2),
        Produce(operation="all", topic="t", partition=0, records=1, acks=-1, accept_error=True),
        Produce(operation="leader", topic="t", partition=0, records=1, acks=1),
        AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=end),
        TakeSnapshot(label="two-wanted"),
        _wants(1),
    )


def seen(run, release):
    error = answer(run, "all").get("error")
    assert error == (None if number(release) >= (3, 7) else "NOT_ENOUGH_REPLICAS"), error
    assert high_watermark(run, "two-wanted", 0) == (2 if number(release) >= (3, 7) else 1)
