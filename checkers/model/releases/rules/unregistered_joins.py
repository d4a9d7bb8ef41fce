"""A leader takes a broker without a registration for one that is not fenced."""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

UNREGISTERED_JOINS = Rule(
    name="unregistered brokers join the ISR",
    since=("3.3.0",),
    until=("3.5.0",),
    mode="kraft",
    source="kafka.cluster.Partition, 3.3.2",
    meaning=(
        "A leader asks for a follower that is neither fenced nor shutting down in its metadata. A "
        "broker that is not in them at all counts as such. KIP-903 asks for its broker epoch."
    ),
    change=lambda known: replace(known, counts_unregistered=True),
)
