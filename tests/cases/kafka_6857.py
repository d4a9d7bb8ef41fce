"""KAFKA-6857: asked for an epoch that nobody has, a leader answers its log end, up to 1.1.0.

In the message format of 0.10.2 there are no leader epochs. A follower asks for epoch -1, and a
leader whose epochs are empty too finds that this is its latest one. 0 and 1 wrote different records
at offset 1; 0 follows 1, hears that -1 ends at 2, and keeps what it has. From 1.1.1 on (and in
1.0.2 and 0.11.0.3) the answer is -1, and the follower truncates to its high watermark
(kafka.server.epoch.LeaderEpochFileCache.endOffsetFor, 1.1.0 and 1.1.1).
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import messages, of_partition, values

PROPERTIES = {"log.message.format.version": "0.10.2"}
RELEASES = {"1.1.0": False}
STEPS = (
    *both_have_one(0, 1),
    k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0)),
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="0-only", topic="t", partition=0, records=1, acks=1),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
    k.AwaitFollowing(topic="t", partition=0, follower=0, leader=1),
    k.Produce(operation="1-only", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="link"),
)


def seen(run, release):
    answers = [
        of_partition(line)["end_offset"]
        for line in messages(run, "OffsetForLeaderEpoch", 0, 1, direction="response")
        if of_partition(line)
    ]
    kept = values(run, "final", 0)[1]
    wanted = ("1-only-0", -1) if RELEASES.get(release, True) else ("0-only-0", 2)
    assert (kept, answers[-1]) == wanted, (kept, answers)
