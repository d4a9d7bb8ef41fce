"""KAFKA-14616: a broker that starts sets a deleted topic's log aside before it loads the others.

Read from kafka.log.LogManager (`isStrayKraftReplica`), 3.7.1, and
kafka.server.metadata.BrokerMetadataPublisher (`findStrayPartitions`), 3.6.2.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_14616 = Rule(
    name="KAFKA-14616",
    since=("3.7.1",),
    mode="kraft",
    source="kafka.log.LogManager, 3.7.1",
    meaning=(
        "A broker that was away while a topic was deleted and made again makes a log of the new "
        "topic at its start. Before, the log of the old topic stood in the way, and then went: the "
        "broker had no replica until the partition's state changed again."
    ),
    change=lambda known: replace(known, replaces_strays=True),
)
