"""KAFKA-9579: a fetch is refused while its leader is only half told that it leads.

Before it reads, a leader asks whether it leads, without the lock under which that changes. It takes
over the new leader epoch before it leads in it, and no longer leads before it takes the epoch over
(kafka.cluster.Partition.makeLeader and makeFollower, kafka.server.ReplicaManager.readFromLog,
3.6.0, 3.6.2 and 3.9.2). So a fetch in that epoch may be answered with NOT_LEADER_OR_FOLLOWER.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_9579 = Rule(
    name="KAFKA-9579",
    since=("3.6.0",),
    source="kafka.server.ReplicaManager, 3.6.0",
    meaning=(
        "A broker that handles a LeaderAndIsr may refuse a fetch with NOT_LEADER_OR_FOLLOWER "
        "although it leads in the fetch's epoch before or after it. For readFromLog first asks "
        "without the partition's lock."
    ),
    change=lambda known: replace(known, may_refuse_while_told=True),
)
