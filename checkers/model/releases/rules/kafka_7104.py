"""1.0.0, 1.0.1 and 1.1.0: the answer to a fetch has the high watermark that the fetch has moved.

KAFKA-7104 ended that. Read from kafka.server.ReplicaManager.updateFollowerLogReadResults and
LogReadResult.updateLeaderReplicaInfo, 1.0.0, 1.0.2, 1.1.0 and 1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

STATE_AFTER_THE_FETCH = Rule(
    name="leader's state after the fetch",
    since=("1.0.0",),
    until=("1.0.2", "1.1.1", "2.0.0"),
    source="kafka.server.ReplicaManager, 1.0.0",
    meaning=(
        "A follower's fetch may move the high watermark or the low watermark. Then its answer "
        "carries the leader's high watermark, log start and log end as they are after the log was "
        "read. Before and since (KAFKA-7104) they are those from before the read."
    ),
    change=lambda known: replace(known, answers_with_moved_high_watermark=True),
)
