"""KIP-497: whether a waiting write with acks=all has enough replicas is asked of the maximal ISR.

All three replicas are wanted in sync. One dies while the write waits, comes back and is level, and
the AlterPartition that names it is held. Then the third gets the write too. From 2.7 to 3.6 it is
acknowledged at once, since the leader counts who it asked for, although the ISR is too small
(kafka.cluster.Partition.checkEnoughReplicasReachOffset). From 3.7 on the high watermark stands
still for so small an ISR (KAFKA-15583), and the write waits for the controller's answer.
"""

import kchaos as k
from tests.support.case_steps import held, write_that_waits
from tests.support.looking import answer, messages, number

BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
PROPERTIES = {"min.insync.replicas": "3"}
RELEASES = {"2.7.2": True, "2.8.2": True, "3.0.2": True, "3.6.2": True, "3.7.2": True}


def steps(release):
    waited_for = k.AwaitAnswer(operation="waits")
    answered_by_the_controller = k.Heal(name="asks")
    after: tuple[k.Step, ...]
    if number(release) < (3, 7):
        after = (waited_for, answered_by_the_controller)
    else:
        kept = k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1)
        after = (kept, answered_by_the_controller, waited_for)
    return (
        k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
        k.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1, 2), high_watermark=1),
        k.Inject(name="behind", fault=k.CutLink(source=1, target=0)),
        k.Inject(name="away", fault=k.CutLink(source=2, target=0)),
        write_that_waits("waits"),
        k.Inject(name="down", fault=k.KillBroker(broker=2)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
        # It is refused: the leader has heard that one has left.
        k.Produce(
            operation="refused",
            topic="t",
            partition=0,
            records=1,
            acks=-1,
            broker=0,
            accept_error=True,
            timeout_s=2,
        ),
        held("asks", "AlterPartition", source=0, target=3),
        k.Heal(name="away"),
        k.Heal(name="down"),
        k.AwaitHeld(name="asks"),
        k.Heal(name="behind"),
        k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1, 2), log_end_offset=2),
        *after,
    )


def seen(run, release):
    (asked,) = messages(run, "AlterPartition", 0, 3, direction="request", fate="released")
    waited = answer(run, "waits")
    assert waited["type"] == "ok", waited
    is_early = waited["time"] < asked["wall_time_s"]
    assert is_early is (number(release) < (3, 7)), (waited, asked)
