"""A follower that is out of range asks for its leader's log end, and waits for the answer.

1 was elected with one record of three: the topic itself has unclean.leader.election.enable, which
the follower reads too, since without it a broker that has more than its leader ends itself. Without
leader epochs, on 0.10.2 and in its message format, follower 0 truncates to its high watermark, 3,
fetches from there, and is out of range. The answer to what it asks then (ListOffsets) is held, and
1 gets three more records. So long 0 keeps its own three; then it truncates to the end that 1 had
when it answered, not to the one that it has, and gets the new ones
(kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange).
"""

import kchaos as k
from tests.support.case_steps import LED_BY_THE_SHORTER, THREE_RECORDS, held
from tests.support.looking import messages, of_partition, values

RELEASES = {"0.10.2.2": True, "2.8.2": True}
PROPERTIES = {
    "log.message.format.version": "0.10.2",
    # When its time is over a follower fetches from 3 again, which is in range by then.
    "replica.socket.timeout.ms": "12000",
    "request.timeout.ms": "12000",
}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Inject(
        name="unclean",
        fault=k.ConfigureTopic(
            topic="t", configuration=(("unclean.leader.election.enable", "true"),)
        ),
    ),
    *THREE_RECORDS,
    *LED_BY_THE_SHORTER,
    held("answer", "ListOffsets", target=1, direction="response"),
    k.Heal(name="0-down"),
    k.Heal(name="link"),
    k.AwaitHeld(name="answer"),
    k.Produce(
        operation="more", topic="t", partition=0, records=3, acks=-1, one_record_batches=True
    ),
    k.TakeSnapshot(label="waiting"),
    k.Heal(name="answer"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=4),
)


def seen(run, release):
    answers = [
        of_partition(line) for line in messages(run, "ListOffsets", 0, 1, direction="response")
    ]
    assert {answer["offset"] for answer in answers} == {1}
    assert len(values(run, "waiting", 0)) == 3
    assert len(values(run, "waiting", 1)) == 4
