"""KAFKA-13837: each partition of a fetch is read and counted before the next one.

Before, a leader reads all partitions of a follower's fetch, and counts how far the follower is in
them after that. Read from kafka.server.ReplicaManager.fetchMessages and readFromLocalLog, 3.2.3 and
3.3.2, and kafka.cluster.Partition.fetchRecords, 3.3.2, 3.8.0, 3.9.1, 4.1.2 and 4.3.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_13837 = Rule(
    name="KAFKA-13837",
    since=("3.3.0",),
    source="kafka.cluster.Partition, 3.3.2",
    meaning=(
        "A leader reads one partition of a follower's fetch, counts how far the follower is there, "
        "and goes on with the next one. So what it reads later may come of what it counted before. "
        "Until then it reads them all, and counts after that."
    ),
    change=lambda known: replace(known, counts_before_next_read=True),
)
