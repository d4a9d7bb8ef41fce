"""KAFKA-14010: an AlterPartition that failed is sent again."""

from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule

KAFKA_14010 = Rule(
    name="KAFKA-14010",
    since=("3.2.1", "3.3.0"),
    source="kafka.server.AlterIsrManager",
    tag="3.2.1",
    meaning=(
        "An AlterPartition that failed in a way that may pass is sent again. From 2.7 to 3.0 it "
        "stays in flight until the next LeaderAndIsr. In 3.1 and 3.2.0 the leader gives it up, and "
        "asks anew when it next looks."
    ),
    probes=(
        Probe(
            file="AlterPartitionManager",
            present=(
                r"unsentIsrUpdates\.remove\([^)]*topic(Id)?Partition\).{0,400}\.future"
                r"\.complete\("
            ),
        ),
    ),
    followed="always",
)
