"""A client has records deleted: the leader's log begins later at once, and its follower's with it.

The offset lies within a batch. A follower that is back with an empty disk gets the whole batch: its
log begins where the batch does, and then where its leader's does (KAFKA-6975).
"""

import kchaos as k
from tests.support.looking import messages, observations, of_partition

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="first", topic="t", partition=0, records=2, acks=-1),
    k.Produce(operation="second", topic="t", partition=0, records=4, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=6),
    k.DeleteRecords(topic="t", partition=0, before_offset=3),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.Inject(name="wiped", fault=k.WipeLogDirectory(broker=1)),
    k.Heal(name="down"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Produce(operation="third", topic="t", partition=0, records=1, acks=-1),
)


def seen(run, release):
    (deleted,) = observations(run, "records-deleted")
    assert (deleted["error_code"], deleted["low_watermark"]) == (0, 3)
    answers = [of_partition(line) for line in messages(run, "Fetch", 1, 0, direction="response")]
    bases = [(answer.get("base_offset"), answer.get("last_offset")) for answer in answers]
    assert (2, 5) in bases[bases.index((2, 5)) + 1 :], bases
