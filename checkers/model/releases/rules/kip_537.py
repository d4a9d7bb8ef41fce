"""KIP-537: the default of replica.lag.time.max.ms."""

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import Version

KIP_537 = Rule(
    name="KIP-537",
    since=("2.5.0",),
    source="kafka.server.KafkaConfig, 2.5.0",
    meaning="The default of replica.lag.time.max.ms is 30 s. Before, it was 10 s.",
    followed="elsewhere",
)

LAG = "replica.lag.time.max.ms"


def default_lag_s(release: Version) -> float:
    """Return the default of `LAG` in seconds."""
    return 30.0 if KIP_537.releases.includes(release) else 10.0
