"""A new high watermark wakes waiting fetches: 2.4.0 to 2.5.1.

A follower that has not been told the leader's high watermark is answered at once, although there is
nothing to read; the answer has what was read first (kafka.server.ReplicaManager.fetchMessages and
DelayedFetch with KIP-392, 2.4.0; taken back in 2.6.0).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

HIGH_WATERMARK_WAKES = Rule(
    name="high watermark wakes fetches",
    source="kafka.cluster.Replica",
    change=lambda known: replace(known, answers_nothing_at_once=True),
)
