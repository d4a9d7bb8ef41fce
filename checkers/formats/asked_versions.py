"""In which version brokers ask each other, by the protocol that they speak to each other.

As kafka.server.ReplicaFetcherThread and kafka.controller.ControllerChannelManager choose it, and
from 3.3 on org.apache.kafka.server.common.MetadataVersion (compared at 2.8.2 and 3.7.0, and with
what the links of the golden runs of every release line saw).
"""

from collections.abc import Mapping

_Line = tuple[int, ...]
_SINCE: Mapping[str, tuple[tuple[_Line, int], ...]] = {
    "FETCH": (
        ((0, 10, 1), 3),
        ((0, 11), 5),
        ((1, 1), 7),
        ((2, 0), 8),
        ((2, 1), 10),
        ((2, 3), 11),
        ((2, 7), 12),
        ((3, 1), 13),
        ((3, 5), 15),
        ((3, 7), 16),
        ((3, 9), 17),
    ),
    "LEADER_AND_ISR": (
        ((0, 10, 1), 0),
        ((1, 0), 1),
        ((2, 2), 2),
        ((2, 4), 4),
        ((2, 8), 5),
        ((3, 2), 6),
        ((3, 4), 7),
    ),
    "OFFSET_FOR_LEADER_EPOCH": (
        ((0, 11), 0),
        ((2, 0), 1),
        ((2, 1), 2),
        ((2, 3), 3),
        ((2, 8), 4),
    ),
    "UPDATE_METADATA": (
        ((0, 10, 2), 3),
        ((1, 0), 4),
        ((2, 2), 5),
        ((2, 4), 6),
        ((2, 8), 7),
        ((3, 4), 8),
    ),
}
_WITHOUT_TOPIC_IDS = 12
"""The version in which a Fetch names topics that have no id yet."""


def asked_versions(api: str, line: _Line) -> frozenset[int]:
    """The versions in which a broker whose protocol is that of a release line asks so.

    Args:
        api: Kafka's name of the request, in capitals.
        line: Such as (2, 8), or (0, 10, 2).

    Returns:
        Empty for a request of which this table does not tell.
    """
    known = [version for since, version in _SINCE.get(api, ()) if since <= line]
    if not known:
        return frozenset()
    if api == "FETCH":
        return frozenset({known[-1], min(known[-1], _WITHOUT_TOPIC_IDS)})
    return frozenset(known[-1:])
