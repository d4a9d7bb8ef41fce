"""A log cleaner leaves one of two records of a batch, and an empty follower copies what is left.

The batch keeps its offsets (kafka.log.Cleaner.cleanInto, 3.9.0), so the copy begins at offset 0
and has no record there, as its leader's.
"""

import kchaos as k
from tests.support.looking import values

RELEASES = {"3.9.1": True}
PROPERTIES = {
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2000000",
}
# Each batch gets a segment of its own.
SETTINGS = (("segment.bytes", "150"), ("min.cleanable.dirty.ratio", "0.01"))


def policy(name: str) -> k.Inject:
    return k.Inject(
        name=name, fault=k.ConfigureTopic(topic="t", configuration=(("cleanup.policy", name),))
    )


def write(operation: str, records: int, keys: str) -> k.Produce:
    return k.Produce(
        operation=operation, topic="t", partition=0, records=records, acks=-1, keys=keys
    )


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),), configuration=SETTINGS),
    write("first", 2, "key"),
    write("again", 1, "key"),
    write("last", 1, "last"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=4),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    policy("compact"),
    k.AwaitCleaned(topic="t", partition=0, broker=0, cleaned_until=3),
    policy("delete"),
    k.Inject(name="wiped", fault=k.WipeLogDirectory(broker=1)),
    k.Heal(name="down"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
)


def seen(run, release):
    for broker in (0, 1):
        assert values(run, "final", broker)[:3] == ["first-1", "again-0", "last-0"]
