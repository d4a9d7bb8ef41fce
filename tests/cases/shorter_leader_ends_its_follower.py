"""A broker whose log is longer than its leader's ends itself where unclean elections are off.

1 was elected with one record of three, which the topic's unclean.leader.election.enable allowed
then; it is off again when 0 returns. In the message format of 0.10.2 follower 0 fetches from its
high watermark, 3, is out of range, and is told that the leader's log ends at 1: it does not
truncate, and its process ends (kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange, 1.1.1;
KAFKA-7414).
"""

import kchaos as k
from tests.support.looking import log_lines, messages, of_partition, values

LOGS = "log truncation is not allowed"
RELEASES = {"1.1.1": False}
PROPERTIES = {"log.message.format.version": "0.10.2"}


def unclean(value: str) -> k.Inject:
    return k.Inject(
        name=f"unclean-{value}",
        fault=k.ConfigureTopic(
            topic="t", configuration=(("unclean.leader.election.enable", value),)
        ),
    )


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    unclean("true"),
    k.Produce(
        operation="both", topic="t", partition=0, records=3, acks=-1, one_record_batches=True
    ),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=3),
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Inject(name="1-down", fault=k.KillBroker(broker=1)),
    k.Inject(name="tail", fault=k.LoseTail(broker=1, topic="t", partition=0, log_end_offset=1)),
    k.Heal(name="1-down"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.Inject(name="0-down", fault=k.KillBroker(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    unclean("false"),
    k.Heal(name="0-down"),
    k.Heal(name="link"),
    k.AwaitLog(broker=0, pattern=LOGS),
)


def seen(run, release):
    (answer,) = [
        of_partition(line) for line in messages(run, "ListOffsets", 0, 1, direction="response")
    ]
    assert answer["offset"] == 1
    assert log_lines(run, 0, LOGS)
    assert len(values(run, "final", 0)) == 3
