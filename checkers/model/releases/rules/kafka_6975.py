"""KAFKA-6975: an empty follower may begin its log below where it had begun."""

from kchaos.checkers.model.releases.probes import Probe
from kchaos.checkers.model.releases.rule import Rule

KAFKA_6975 = Rule(
    name="KAFKA-6975",
    since=("1.0.2", "1.1.1", "2.0.0"),
    source="kafka.cluster.Partition",
    tag="1.0.2",
    meaning=(
        "A follower whose log is empty starts it again at the base offset of the first batch that "
        "it gets, when that lies below its log start. Before, and whenever the log is not empty, "
        "a batch below the log end offset is an error."
    ),
    probes=(
        Probe(
            file="Partition",
            present=r"case e: UnexpectedAppendOffsetException",
        ),
    ),
)
