"""KAFKA-9198 (2.4.0): a broker that stops a replica answers the Fetches of it that wait.

Before, they wait until their time is over. If the topic is made again meanwhile, and the broker
that led it follows, it looks at them in the new, lower leader epoch. From KIP-320 on that is
UNKNOWN_LEADER_EPOCH, which nobody catches: the LeaderAndIsr fails, and the broker fetches none of
its partitions until their next epoch. Read from kafka.server.ReplicaManager (stopReplica,
makeFollowers) and kafka.server.DelayedFetch, 2.1.1, 2.3.1 and 2.4.0.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_9198 = Rule(
    name="KAFKA-9198",
    since=("2.4.0",),
    source="kafka.server.ReplicaManager, 2.4.0",
    meaning=(
        "A broker that deletes a replica answers the Fetches of it that wait. Before, one that "
        "waits while the topic is made again makes the LeaderAndIsr fail by which the broker would "
        "follow (from 2.1.0 on), and it fetches nothing in that leader epoch."
    ),
    change=lambda known: replace(known, fails_on_waiting_fetch=False),
)
