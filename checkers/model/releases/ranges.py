"""Which releases follow which rule, as `checkers.model.releases.sources` compares them.

Meanings, Kafka classes and lines are in docs/rules.md, which that command writes. A range is about
the binary alone; the inter-broker protocol that some rules also need is in `sources.toml`.
"""

from collections.abc import Mapping
from types import MappingProxyType

from kchaos.checkers.model.releases.versions import ReleaseRange, Since, Version


def _since(*first_releases: str) -> ReleaseRange:
    return ReleaseRange(Since(*first_releases))


_TRUNCATION = {
    "truncation to the high watermark": ReleaseRange(Since("0.10.2.0"), until=Since("0.11.0.0")),
    "KIP-101": _since("0.11.0.0"),
    "OffsetForLeaderEpoch v0": _since("0.11.0.0"),
    "KAFKA-6857": _since("0.11.0.3", "1.0.2", "1.1.1", "2.0.0"),
    "initial fetch offset": _since("1.1.0"),
    "KIP-279": _since("2.0.0"),
    "OffsetForLeaderEpoch v1": _since("2.0.0"),
    "KAFKA-7415": _since("2.0.1"),
    "KAFKA-7164": _since("2.0.1"),
    "KAFKA-7414": _since("2.0.1"),
    "KIP-320": _since("2.1.0"),
    "OffsetForLeaderEpoch v2": _since("2.1.0"),
    "Fetch v10": _since("2.1.0"),
    "KAFKA-7786": _since("2.1.1"),
    "KAFKA-9338": _since("2.5.0"),
    "KAFKA-9654": _since("2.5.0"),
    "diverging epoch in the Fetch response": _since("2.7.0"),
    "KAFKA-10554": _since("2.8.0"),
    "KAFKA-12996": _since("2.7.2", "2.8.1", "3.0.0"),
    "KAFKA-13141": _since("2.7.2", "2.8.1", "3.0.0"),
    "KAFKA-13207": _since("2.8.1", "3.0.0"),
    "KAFKA-14704": _since("3.4.1", "3.5.0"),
    "last fetched epoch lost": ReleaseRange(Since("3.5.1"), until=Since("3.7.0")),
    "KAFKA-18723": _since("3.9.1"),
    "KIP-461": _since("2.3.0"),
    "KAFKA-6975": _since("1.0.2", "1.1.1", "2.0.0"),
}

_LOG = {
    "KAFKA-7897": _since("2.1.1"),
    "recovery without epoch 0": ReleaseRange(Since("2.1.1"), until=Since("2.6.1")),
    "KAFKA-10432": _since("2.6.1"),
    "KAFKA-7601": _since("2.2.1"),
    "KAFKA-10706": _since("2.6.1"),
    "asynchronous epoch checkpoint": _since("3.8.0"),
    "KAFKA-5634": _since("0.11.0.1", "1.0.0"),
    "KAFKA-8306": _since("2.2.1"),
    "KAFKA-9835": _since("2.5.1", "2.6.0"),
}

_HIGH_WATERMARK = {
    "unknown high watermark of a new leader": ReleaseRange(
        Since("0.10.2.0"), until=Since("1.0.2", "1.1.0")
    ),
    "KAFKA-3978": ReleaseRange(Since("1.0.2", "1.1.0"), until=Since("2.4.0")),
    "high watermark in the log": _since("2.4.0"),
    "KAFKA-9491": _since("2.4.1", "2.5.0"),
    "leader's state after the fetch": ReleaseRange(
        Since("1.0.0"), until=Since("1.0.2", "1.1.1", "2.0.0")
    ),
    "KAFKA-8841": _since("2.4.0"),
    "KAFKA-8400": _since("2.4.0"),
    "high watermark wakes fetches": ReleaseRange(Since("2.4.0"), until=Since("2.6.0")),
    "KIP-207": _since("2.2.0"),
    "KAFKA-15583": _since("3.7.0"),
    "KAFKA-15021": _since("3.6.0"),
}

_ISR = {
    "KAFKA-7128": _since("2.0.1"),
    "KAFKA-7152": _since("2.1.0"),
    "KIP-497": _since("2.7.0"),
    "KAFKA-12751": _since("2.7.2", "2.8.1", "3.0.0"),
    "KAFKA-12686": _since("3.0.0"),
    "KAFKA-13091": _since("3.1.0"),
    "KAFKA-14010": _since("3.2.1", "3.3.0"),
    "KIP-841": _since("3.3.0"),
    "no fetch at an election": _since("3.3.0"),
    "two looks before the ISR shrinks": _since("2.5.0"),
    "KAFKA-13790": _since("3.3.0"),
}

_TIER = {
    "KAFKA-15241": _since("3.7.0"),
    "KAFKA-15695": _since("3.7.0"),
}

_CONTROL = {
    "leader alive in the metadata cache": _since("0.10.2.0"),
    "controller epochs": _since("0.10.2.0"),
    "KAFKA-6082": _since("2.1.0"),
    "KAFKA-3143": _since("2.3.0"),
    "last member stays in the ISR": _since("1.1.0"),
    "shutting down without being told": ReleaseRange(Since("1.1.0"), until=Since("2.1.0")),
    "KIP-380": _since("2.2.0"),
    "broker epochs": _since("2.2.0"),
    "broker epochs told": _since("2.2.0"),
    "KAFKA-9839": _since("2.5.1", "2.6.0"),
    "KIP-570": _since("2.6.0"),
    "leader epochs told to stop": _since("2.6.0"),
    "KAFKA-13972": _since("3.4.1", "3.5.0"),
    "KIP-227": _since("1.1.0"),
    "KIP-537": _since("2.5.0"),
    "KIP-106": _since("0.11.0.0"),
}

RANGES: Mapping[str, ReleaseRange] = MappingProxyType(
    {**_TRUNCATION, **_LOG, **_HIGH_WATERMARK, **_ISR, **_TIER, **_CONTROL}
)

LAG = "replica.lag.time.max.ms"


def default_lag_s(release: Version) -> float:
    """Return the default of `LAG` in seconds (KIP-537)."""
    return 30.0 if RANGES["KIP-537"].includes(release) else 10.0
