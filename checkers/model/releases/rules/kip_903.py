"""KIP-903: who joins the ISR has fetched since it registered. KAFKA-15221: and nobody else fetches.

Read from kafka.cluster.Partition (`isBrokerEpochIsrEligible`) and kafka.cluster.Replica
(`updateFetchStateOrThrow`), 3.5.2, 3.6.2, 3.7.1 and 4.1.2.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_903 = Rule(
    name="KIP-903",
    since=("3.5.0",),
    mode="kraft",
    source="kafka.cluster.Partition, 3.5.0",
    meaning=(
        "A leader asks for a follower only if the broker epoch of its last Fetch is that of its "
        "registration in the leader's metadata, or -1. A broker that came back with an empty disk "
        "does not join by what its former process had fetched."
    ),
    change=lambda known: replace(known, checks_replica_epoch=True),
)

KAFKA_15221 = Rule(
    name="KAFKA-15221",
    since=("3.7.0",),
    mode="kraft",
    source="kafka.cluster.Partition, 3.7.0",
    meaning=(
        "A leader refuses a Fetch whose broker epoch is older than that of the follower's "
        "registration, with NOT_LEADER_OR_FOLLOWER. Before, the Fetch counted, also between the "
        "two checks that let a follower join the ISR."
    ),
    change=lambda known: replace(known, refuses_stale_replica=True),
)
