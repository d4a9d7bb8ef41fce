"""KAFKA-13141 (2.7.2, 2.8.1): a fetch that is answered with a diverging epoch tells nothing.

Before, a leader took its offset for the follower's log end offset. Read from
kafka.server.ReplicaManager.updateFollowerFetchState, 2.8.0 and 2.8.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_13141 = Rule(
    name="KAFKA-13141",
    since=("2.7.2", "2.8.1", "3.0.0"),
    source="kafka.server.ReplicaManager, 2.8.1",
    meaning=(
        "A fetch that is answered with a diverging epoch does not count as the follower's "
        "position. So the high watermark does not move over what the follower is about to "
        "truncate."
    ),
    change=lambda known: replace(
        known, counts_fetch=lambda answer: not answer.error and answer.diverging is None
    ),
)
