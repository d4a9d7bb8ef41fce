"""KAFKA-9491: the high watermark after a full truncation to a later offset."""

from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule

KAFKA_9491 = Rule(
    name="KAFKA-9491",
    since=("2.4.1", "2.5.0"),
    source="kafka.log.Log",
    tag="2.4.1",
    meaning="A full truncation to a later offset takes the high watermark up to the new log start.",
    probes=(
        Probe(
            file="Log",
            within=r"def updateLogStartOffset\(",
            present=r"highWatermark < offset",
        ),
    ),
)
