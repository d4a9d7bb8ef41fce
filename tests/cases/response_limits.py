"""An answer has room for one partition's records, and the others wait for a later one (KIP-74).

What comes first in an answer comes whatever the limits are; for the rest there is no room then.
"""

from kchaos import AwaitReplicated, CreateTopic, Heal, Inject, KillBroker, Produce
from tests.support.looking import messages, of_partition

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"replica.fetch.response.max.bytes": "1"}
_PARTITIONS = (0, 1, 2)
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),) * len(_PARTITIONS)),
    Inject(name="down", fault=KillBroker(broker=1)),
    *(
        Produce(
            operation=f"p{partition}-{number}", topic="t", partition=partition, records=2, acks=1
        )
        for number in range(2)
        for partition in _PARTITIONS
    ),
    Heal(name="down"),
    *(
        AwaitReplicated(topic="t", partition=partition, brokers=(0, 1), log_end_offset=4)
        for partition in _PARTITIONS
    ),
)


def seen(run, release):
    answers = [*messages(run, "Fetch", 1, 0, direction="response")]
    carried = [
        {
            partition
            for partition in _PARTITIONS
            if of_partition(line, partition=partition).get("batch_count")
        }
        for line in answers
    ]
    full = [each for each in carried if each]
    assert len(full) >= len(_PARTITIONS)
    assert all(len(each) == 1 for each in full), full
