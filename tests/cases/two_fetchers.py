"""A follower fetches from one leader with two threads, and a cut keeps one request of each waiting.

Which partition a thread has is said by its hash. Each thread has a connection, a fetch session and
a request in flight of its own, and truncates by itself when its leader changes.
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import held
from tests.support.looking import messages, of_partition

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"num.replica.fetchers": "2"}
_PARTITIONS = (0, 1, 2)


def _written(name: str, acks: int = -1) -> Any:
    return (
        k.Produce(
            operation=f"{name}-{partition}", topic="t", partition=partition, records=2, acks=acks
        )
        for partition in _PARTITIONS
    )


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),) * len(_PARTITIONS)),
    *_written("both"),
    held("held", "Fetch", source=1, target=0, topic="t", partition=1),
    k.Produce(operation="passes", topic="t", partition=0, records=1, acks=-1),
    k.TakeSnapshot(label="held"),
    k.Heal(name="held"),
    *_written("after"),
    k.AwaitHighWatermark(topic="t", partition=1, brokers=(0, 1), high_watermark=4),
    k.Inject(name="down", fault=k.KillBroker(broker=0)),
    *(
        k.AwaitState(topic="t", partition=partition, leader=1, isr=(1,))
        for partition in _PARTITIONS
    ),
    *_written("alone", acks=1),
    k.Heal(name="down"),
    *(
        k.AwaitState(topic="t", partition=partition, leader=1, isr=(0, 1))
        for partition in _PARTITIONS
    ),
    *_written("again"),
)


def seen(run, release):
    by_client: dict[str, set[int]] = {}
    for line in messages(run, "Fetch", 1, 0, direction="request"):
        named = {partition for partition in _PARTITIONS if of_partition(line, partition=partition)}
        by_client.setdefault(line["client_id"], set()).update(named)
    assert sorted(map(sorted, by_client.values())) == [[0, 2], [1]], by_client
