"""A leader that missed an epoch commits what its follower has lost; an acknowledged record is gone.

A (0) leads, and B (1) has fetched a record that C (2) has not. C is elected and B truncates, but A
is never told, for the controller cannot reach it. C dies and A is elected again; only a controller
in a new epoch tells A, and tells it how things stand now. A led before and leads now, so it keeps
what it knew of its followers, and B's log end offset is that from before the truncation
(kafka.cluster.Partition.makeLeader forgets it only where the broker did not lead: 2.5.1, 2.8.2,
3.9.0). With A and B in the ISR the high watermark moves, and acks=all is acknowledged although only
A has the record. A dies, B leads: nobody was elected uncleanly, and it is gone.
"""

import kchaos as k
from tests.support.case_steps import held, write_that_waits
from tests.support.looking import log_lines

BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
LOGS = r"t-0 .*starts at leader epoch"
RELEASES = {"2.5.1": False, "3.9.1": False}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
    k.ReorderReplicas(topic="t", partition=0, replicas=(2, 0, 1)),
    k.Inject(name="behind", fault=k.CutLink(name="behind", source=0, target=2)),
    write_that_waits("record", timeout_s=120),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=1),
    k.AwaitQuiet(),
    # Reset, so that nothing waits at the cut to arrive when it heals.
    k.Inject(name="unheard", fault=k.CutLink(name="unheard", source=3, target=0, style="reset")),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitFollowing(topic="t", partition=0, follower=1, leader=2),
    k.AwaitReplicated(topic="t", partition=0, brokers=(1,), log_end_offset=0),
    k.AwaitQuiet(),
    held("fetches", "Fetch", source=1, target=0, direction="request"),
    k.Inject(name="down", fault=k.KillBroker(broker=2)),
    k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Inject(name="controller", fault=k.MoveController()),
    # Until then the old controller tries again to tell 0 what it had queued.
    k.AwaitLog(broker=3, pattern=r"Controller id=3\] Resigned"),
    k.Heal(name="unheard"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.AwaitAnswer(operation="record"),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=1),
    k.TakeSnapshot(label="acknowledged"),
    k.Inject(name="leader-down", fault=k.KillBroker(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    k.Heal(name="leader-down"),
    k.Heal(name="fetches"),
    k.Heal(name="down"),
    k.Heal(name="behind"),
)


def seen(run, release):
    assert not log_lines(run, 0, r"t-0 .*starts at leader epoch 2 ")
    assert log_lines(run, 0, r"t-0 .*starts at leader epoch 3 from offset 1 ")
