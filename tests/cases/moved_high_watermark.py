"""KAFKA-7104: in 1.0.0, 1.0.1 and 1.1.0 the answer to a fetch has the high watermark that it moved.

The follower gets one batch at a time. With its fetch at 1 the high watermark moves to 1, and the
answer with the next batch says so on these releases (kafka.server.LogReadResult.
updateLeaderReplicaInfo, 1.1.0). On the others it says 0, from before the read, and the follower
hears of 1 with its next fetch, which is held.
"""

import kchaos as k
from tests.support.case_steps import held_from
from tests.support.looking import messages, of_partition

PROPERTIES = {"replica.fetch.max.bytes": "1"}
AFTER_THE_FETCH = ("1.0.0", "1.0.1", "1.1.0")
RELEASES = {
    "0.11.0.3": True,
    "1.0.0": True,
    "1.0.1": True,
    "1.0.2": True,
    "1.1.0": True,
    "1.1.1": True,
}


def steps(release):
    after: k.AwaitHighWatermark | k.AwaitHighWatermarkKept
    if release in AFTER_THE_FETCH:
        after = k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=1)
    else:
        after = k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(1,), high_watermark=0)
    return (
        k.CreateTopic(topic="t", assignment=((0, 1),)),
        k.Inject(name="cut", fault=k.CutLink(source=1, target=0)),
        k.Produce(operation="first", topic="t", partition=0, records=1, acks=1),
        k.Produce(operation="second", topic="t", partition=0, records=1, acks=1),
        held_from("third-fetch", 1, 0, 2),
        k.Heal(name="cut"),
        k.AwaitHeld(name="third-fetch"),
        after,
        k.Heal(name="third-fetch"),
    )


def seen(run, release):
    answers = map(of_partition, messages(run, "Fetch", 1, 0, direction="response"))
    (told,) = {said["high_watermark"] for said in answers if said.get("base_offset") == 1}
    assert told == (1 if release in AFTER_THE_FETCH else 0), told
