"""A follower that is cut off and has everything stays in the ISR from 2.1 on.

Its leader asks who has lagged for longer than replica.lag.time.max.ms. Up to 2.0 only time counts,
and the follower of `t`, to which nobody writes, goes as well as those of `u` and `w`. From 2.1 on a
follower whose log ends where the leader's does is in sync
(kafka.cluster.Partition.getOutOfSyncReplicas, 2.0.1 and 2.1.0). `w` is written to when `u`'s
follower is out: a whole round of the check lies between the two.
"""

from looking import number, observations

from kchaos import AwaitHighWatermark, AwaitState, CreateTopic, CutLink, Inject, Produce

PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"2.0.1": True, "2.1.0": True}


def steps(release):
    isr = (0,) if number(release) < (2, 1) else (0, 1)
    return (
        CreateTopic(topic="t", assignment=((0, 1),)),
        CreateTopic(topic="u", assignment=((0, 1),)),
        CreateTopic(topic="w", assignment=((0, 1),)),
        Produce(operation="t-both", topic="t", partition=0, records=1, acks=-1),
        AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
        Inject(name="link", fault=CutLink(source=0, target=1)),
        Produce(operation="u-alone", topic="u", partition=0, records=1, acks=1),
        AwaitState(topic="u", partition=0, leader=0, isr=(0,)),
        Produce(operation="w-alone", topic="w", partition=0, records=1, acks=1),
        AwaitState(topic="w", partition=0, leader=0, isr=(0,)),
        AwaitState(topic="t", partition=0, leader=0, isr=isr),
    )


def seen(run, release):
    states = [line["state"] for line in observations(run, "state") if line["topic"] == "t"]
    assert states[-1]["isr"] == ([0] if number(release) < (2, 1) else [0, 1])
