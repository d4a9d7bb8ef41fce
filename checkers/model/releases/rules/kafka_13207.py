"""KAFKA-13207: a diverging epoch counts only for a partition that the fetcher still has."""

from kchaos.checkers.model.releases.rule import Rule

KAFKA_13207 = Rule(
    name="KAFKA-13207",
    since=("2.8.1", "3.0.0"),
    source="kafka.server.AbstractFetcherThread, 2.8.1",
    meaning=(
        "A diverging epoch is ignored for a partition that was taken from the fetcher in the "
        "meantime."
    ),
    followed="always",
)
