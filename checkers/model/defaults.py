"""Defaults of brokers' settings that differ between releases."""

from kchaos.checkers.model.ranges import RANGES
from kchaos.checkers.model.releases import Version

LAG = "replica.lag.time.max.ms"


def default_lag_s(release: Version) -> float:
    """Return the default of `LAG` in seconds (KIP-537)."""
    return 30.0 if RANGES["KIP-537"].includes(release) else 10.0
