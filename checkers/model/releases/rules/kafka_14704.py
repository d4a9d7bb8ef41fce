"""KAFKA-14704 (3.4.1, 3.5.0): an answer with a diverging epoch moves no high watermark first.

Read from kafka.server.AbstractFetcherThread.processFetchRequest, 3.4.0 and 3.4.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.generation import Rule
from kchaos.checkers.model.releases.rules.first_release import own_high_watermark

KAFKA_14704 = Rule(
    name="KAFKA-14704",
    source="kafka.server.AbstractFetcherThread",
    change=lambda known: replace(known, high_watermark_at_divergence=own_high_watermark),
)
