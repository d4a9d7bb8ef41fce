"""KAFKA-14704 (3.4.1, 3.5.0): an answer with a diverging epoch moves no high watermark first.

Read from kafka.server.AbstractFetcherThread.processFetchRequest, 3.4.0 and 3.4.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import own_high_watermark

KAFKA_14704 = Rule(
    name="KAFKA-14704",
    since=("3.4.1", "3.5.0"),
    source="kafka.server.AbstractFetcherThread, 3.4.1",
    meaning=(
        "A Fetch response with a diverging epoch no longer moves the follower's high watermark "
        "and log start offset before the truncation."
    ),
    change=lambda known: replace(known, high_watermark_at_divergence=own_high_watermark),
)
