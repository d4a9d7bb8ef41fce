"""A question for a leader epoch that comes too late is refused, and asked again (KIP-320).

Of three replicas one dies: the leader stays, its epoch grows, and the other follower asks where its
own epoch ends, which a follower does from 2.1 on in each new epoch of the same leader too. The
question is held. The follower's session ends, the leader has one more epoch, and the follower does
not hear of it yet: the question is refused with FENCED_LEADER_EPOCH (74), again and again, until
the follower asks in the new epoch (kafka.server.AbstractFetcherThread, 2.2.2).
"""

import kchaos as k
from tests.support.case_steps import held
from tests.support.looking import messages, of_partition

FIRST_BROKER = 0
# The fetcher must still wait for the answer when the question is let go.
PROPERTIES = {"replica.socket.timeout.ms": "10000"}
RELEASES = {"2.2.2": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
    k.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1, 2), high_watermark=1),
    held("question", "OffsetForLeaderEpoch", source=2, target=0),
    k.Inject(name="one", fault=k.KillBroker(broker=1)),
    k.AwaitHeld(name="question"),
    held("news", "LeaderAndIsr", source=0, target=2),
    k.Inject(name="other", fault=k.ExpireSession(broker=2)),
    k.AwaitHeld(name="news"),
    k.Heal(name="question"),
    k.AwaitMessage(
        api="OffsetForLeaderEpoch",
        source=2,
        target=0,
        direction="response",
        topic="t",
        says=(("error_code", 74),),
    ),
    k.Heal(name="news"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 2), log_end_offset=1),
)


def seen(run, release):
    asked = [
        of_partition(line)["current_leader_epoch"]
        for line in messages(run, "OffsetForLeaderEpoch", 2, 0, direction="request")
    ]
    answers = [
        of_partition(line)["error_code"]
        for line in messages(run, "OffsetForLeaderEpoch", 2, 0, direction="response")
    ]
    assert (asked[0], asked[-1]) == (1, 2), asked
    assert (answers[0], answers[-1]) == (74, 0), answers
