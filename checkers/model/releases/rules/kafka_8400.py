"""KAFKA-8400: a fetch that fails says nothing of its follower.

Before, each offset and the time of a read that failed were -1, and a leader noted them. So the
follower's log end offset was unknown until its next fetch, and it was as caught up as
before. Read from kafka.server.ReplicaManager.readFromLocalLog and kafka.cluster.Replica
.updateLogReadResult, 0.10.2.2, 1.1.1 and 2.3.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_8400 = Rule(
    name="KAFKA-8400",
    since=("2.4.0",),
    source="kafka.server.ReplicaManager, 2.4.0",
    meaning=(
        "A follower's fetch that fails at the leader does not count. Before, it makes that "
        "follower's log end offset unknown, -1, until its next fetch."
    ),
    change=lambda known: replace(known, forgets_end_of_refused=False),
)
