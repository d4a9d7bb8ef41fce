"""A new high watermark wakes waiting fetches: 2.4.0 to 2.5.1.

A follower that has not been told the leader's high watermark is answered at once, although there is
nothing to read; the answer has what was read first (kafka.server.ReplicaManager.fetchMessages and
DelayedFetch with KIP-392, 2.4.0; taken back in 2.6.0).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

HIGH_WATERMARK_WAKES = Rule(
    name="high watermark wakes fetches",
    since=("2.4.0",),
    until=("2.6.0",),
    source="kafka.cluster.Replica, 2.4.0",
    meaning=(
        "A fetch that waits at the leader is answered as soon as the high watermark is above what "
        "that follower last got. Otherwise followers learn it with the next records or when "
        "the wait ends (from KAFKA-8443 to KAFKA-9952)."
    ),
    change=lambda known: replace(known, answers_nothing_at_once=True),
)
