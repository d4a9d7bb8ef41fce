"""KAFKA-8400: a fetch that fails says nothing of its follower."""

from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule

KAFKA_8400 = Rule(
    name="KAFKA-8400",
    since=("2.4.0",),
    source="kafka.server.ReplicaManager",
    tag="2.4.0",
    meaning=(
        "A follower's fetch that fails at the leader does not count. Before, it makes that "
        "follower's log end offset unknown, -1, until its next fetch."
    ),
    probes=(
        Probe(
            file="ReplicaManager",
            within=r"def updateFollowerFetchState\(|def readFromLog\(|def readFromLocalLog\(",
            present=r"readResult\.error != Errors\.NONE|partition\.fetchRecords\(",
        ),
    ),
    followed="always",
)
