"""KIP-631 and KIP-500: brokers read decisions in the metadata log, and nobody sends them any."""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

METADATA_LOG_READ = Rule(
    name="decisions by the metadata log",
    since=("3.3.0",),
    mode="kraft",
    source="kafka.server.ReplicaManager, 3.3.0",
    meaning=(
        "A broker takes up each state of a partition whose partition epoch is not older than its "
        "own. Role, epoch cache and followers change with the leader epoch, the ISR always. A "
        "replica without a leader steps down, and a follower fetches from any leader that is "
        "registered. An answer to AlterPartition counts only while the leader waits for it."
    ),
    change=lambda known: replace(known, reads_metadata_log=True),
)
