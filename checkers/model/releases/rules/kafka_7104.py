"""1.0.0, 1.0.1 and 1.1.0: the answer to a fetch has the high watermark that the fetch has moved.

KAFKA-7104 ended that. Read from kafka.server.ReplicaManager.updateFollowerLogReadResults and
LogReadResult.updateLeaderReplicaInfo, 1.0.0, 1.0.2, 1.1.0 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule

STATE_AFTER_THE_FETCH = Rule(
    name="leader's state after the fetch",
    source="kafka.server.ReplicaManager",
    change=lambda known: replace(known, answers_with_moved_high_watermark=True),
)
