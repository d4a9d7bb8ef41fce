"""KAFKA-6975: an empty follower takes a first batch that begins below its log start.

DeleteRecords may move a log start into a batch. A follower that begins anew there gets the whole
batch, and starts its log again where that begins; before, the append failed. Read from
kafka.cluster.Partition.appendRecordsToFollowerOrFutureReplica, 1.1.0 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_6975 = Rule(
    name="KAFKA-6975",
    since=("1.0.2", "1.1.1", "2.0.0"),
    source="kafka.cluster.Partition, 1.0.2",
    meaning=(
        "A follower whose log is empty may get a first batch that lies below its log start. Then "
        "it starts its log again at the base offset of that batch. Before, and whenever the log is "
        "not empty, a batch below the log end offset is an error."
    ),
    change=lambda known: replace(known, restarts_empty_log=True),
)
