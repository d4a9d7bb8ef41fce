"""Looks for followers that lag: how many it takes until a leader shrinks the ISR."""

from kchaos.checkers.model.releases.rule import Rule

TWO_LOOKS = Rule(
    name="two looks before the ISR shrinks",
    since=("2.5.0",),
    source="kafka.cluster.Partition, 2.5.0",
    meaning=(
        "A leader looks for followers that lag under its lock for reading, and if there are any, "
        "once more under the one for writing. Before, it looked once, under the latter."
    ),
    followed="elsewhere",
)
