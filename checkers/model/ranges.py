"""Which releases follow which rule; `python -m checkers.model.sources` compares it with the source.

Meanings, Kafka classes and lines are in docs/rules.md, which that command writes.
"""

from collections.abc import Mapping
from types import MappingProxyType

from checkers.model.releases import ReleaseRange, Since


def _since(*first_releases: str) -> ReleaseRange:
    return ReleaseRange(Since(*first_releases))


RANGES: Mapping[str, ReleaseRange] = MappingProxyType(
    {
        "truncation to the high watermark": _since("0.10.2.0"),
        "KIP-101": _since("0.11.0.0"),
        "OffsetForLeaderEpoch v0": _since("0.11.0.0"),
        "KAFKA-6857": _since("0.11.0.3", "1.0.2", "1.1.1", "2.0.0"),
        "initial fetch offset": _since("1.1.0"),
        "KIP-279": _since("2.0.0"),
        "OffsetForLeaderEpoch v1": _since("2.0.0"),
        "KAFKA-7128": _since("2.0.1"),
        "KAFKA-7164": _since("2.0.1"),
        "KAFKA-7414": _since("2.0.1"),
        "KAFKA-7415": _since("2.0.1"),
        "KIP-320": _since("2.1.0"),
        "OffsetForLeaderEpoch v2": _since("2.1.0"),
        "Fetch v10": _since("2.1.0"),
        "KAFKA-7786": _since("2.1.1"),
        "KAFKA-7897": _since("2.1.1"),
        "recovery without epoch 0": ReleaseRange(Since("2.1.1"), until=Since("2.6.1")),
        "KIP-380": _since("2.2.0"),
        "KAFKA-7601": _since("2.2.1"),
        "KIP-461": _since("2.3.0"),
        "high watermark in the log": _since("2.4.0"),
        "KAFKA-9654": _since("2.5.0"),
        "KAFKA-10432": _since("2.6.1"),
        "KAFKA-10706": _since("2.6.1"),
        "KAFKA-10554": _since("2.8.0"),
        "KAFKA-13141": _since("2.7.2", "2.8.1", "3.0.0"),
        "KAFKA-14704": _since("3.4.1", "3.5.0"),
    }
)
