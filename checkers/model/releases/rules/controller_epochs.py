"""Requests of a controller that has been replaced are refused."""

from kchaos.checkers.model.releases.rule import Rule

CONTROLLER_EPOCHS = Rule(
    name="controller epochs",
    since=("0.10.2.0",),
    is_of_zookeeper=True,
    source="kafka.server.ReplicaManager, 0.10.2.0",
    meaning=(
        "LeaderAndIsr, StopReplica and UpdateMetadata with an older controller epoch than the "
        "broker knows are refused. A partition with a leader epoch that is not newer is refused by "
        "itself."
    ),
    followed="always",
)
