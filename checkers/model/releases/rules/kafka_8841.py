"""KAFKA-8841: a follower's fetch moves the high watermark only when it moved that follower's end.

Before, every fetch tried, so that the fetch of a follower that is level was enough after the ISR
had become smaller. Without KAFKA-13091 the high watermark may then stand still until the next
append. Read from kafka.cluster.Partition.updateFollowerFetchState (`prevFollowerEndOffset`), 2.4.0
and 2.8.2, and updateReplicaLogReadResult, 2.3.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_8841 = Rule(
    name="KAFKA-8841",
    since=("2.4.0",),
    source="kafka.cluster.Partition, 2.4.0",
    meaning=(
        "A follower's fetch moves the high watermark only when it moved that follower's log end "
        "offset. Before, every fetch of a follower tries."
    ),
    change=lambda known: replace(known, advances_after_fetch=lambda before, now: before != now),
)
