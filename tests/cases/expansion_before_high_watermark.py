"""A fetch first takes its follower into the ISR, and moves the high watermark after that.

The follower has records up to 201 when it leaves the ISR, and its leader records up to 601. From
2.7 to 3.0 the high watermark stays at 1 meanwhile (until KAFKA-13091). So the fetch at 201 is above
it, and its leader asks for the follower; then the high watermark may move to 201 alone
(kafka.cluster.Partition.updateFollowerFetchState, 2.8.2). On other releases it is at 601 since the
ISR shrank, and the fetch at 201 takes nobody in.
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held_from
from tests.support.looking import messages, number, of_partition

RELEASES = {"2.6.3": True, "2.7.2": True, "2.8.2": True, "3.0.2": True, "3.1.2": True}
PROPERTIES = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.max.bytes": "1000",
}


STEPS = (
    *both_have_one(0, 1),
    # The fetch at 1 finds the leader at 401, so that the one at 201 does not count as caught up.
    held_from("all", 1, 0, 1),
    k.AwaitHeld(name="all"),
    k.Produce(operation="first", topic="t", partition=0, records=200, acks=1),
    k.Produce(operation="second", topic="t", partition=0, records=200, acks=1),
    held_from("next", 1, 0, 2),
    k.Heal(name="all"),
    k.AwaitHeld(name="next"),
    k.Produce(operation="third", topic="t", partition=0, records=200, acks=1),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    # The controller tells all brokers of the smaller ISR, maybe before it answers the leader.
    k.AwaitLog(broker=0, pattern=r"ISR updated (from AlterIsr )?to \[?0\]? and"),
    k.Heal(name="next"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
)


def seen(run, release):
    answers = map(of_partition, messages(run, "Fetch", 1, 0, direction="response"))
    (told,) = {said["high_watermark"] for said in answers if said.get("base_offset") == 401}
    waits = (2, 7) <= number(release) < (3, 1)
    assert told == (201 if waits else 601), told
