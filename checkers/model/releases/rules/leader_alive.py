"""A follower needs its leader in its own metadata cache."""

from kchaos.checkers.model.releases.rule import Rule

LEADER_ALIVE = Rule(
    name="leader alive in the metadata cache",
    since=("0.10.2.0",),
    until=("4.2.0",),
    source="kafka.server.ReplicaManager, 0.10.2.0",
    meaning=(
        "A broker follows a leader only if that is alive in the broker's own metadata cache, which "
        "UpdateMetadata fills. If it is not, the partition keeps its role, leader, leader epoch "
        "and fetcher. The log is made if there is none, and the answer says no error."
    ),
    followed="always",
)
