"""KAFKA-17062: a copy to the remote tier that failed does not count towards retention by size.

Until then a leader counts every segment that the metadata topic names and that is not deleted, also
one whose copy began and never ended; each attempt names another one
(kafka.log.remote.RemoteLogManager.buildRetentionSizeData, 3.6.2, 3.8.0, 3.8.1 and 3.9.1).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_17062 = Rule(
    name="KAFKA-17062",
    since=("3.8.1", "3.9.0"),
    source="kafka.log.remote.RemoteLogManager, 3.9.1",
    meaning=(
        "A leader of a tiered log counts the copies that have ended towards retention.bytes. "
        "Before, it counted those that failed too, and deleted segments too early."
    ),
    change=lambda known: replace(known, counts_failed_copies=False),
)
