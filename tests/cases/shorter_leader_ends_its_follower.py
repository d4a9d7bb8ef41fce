"""A broker whose log is longer than its leader's ends itself where unclean elections are off.

1 was elected with one record of three, which the topic's unclean.leader.election.enable allowed
then; it is off again when 0 returns. In the message format of 0.10.2 follower 0 fetches from its
high watermark, 3, is out of range, and is told that the leader's log ends at 1: it does not
truncate, and its process ends (kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange, 1.1.1;
KAFKA-7414).
"""

import kchaos as k
from tests.support.case_steps import LED_BY_THE_SHORTER, THREE_RECORDS
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
    *THREE_RECORDS,
    *LED_BY_THE_SHORTER,
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
