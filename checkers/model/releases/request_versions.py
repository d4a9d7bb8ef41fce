"""Versions of brokers' requests: which a release can read, and in which a protocol asks.

A follower asks in the version that its inter-broker protocol names, without asking the leader which
it knows. A leader that does not know it closes the connection (kafka.network.RequestChannel.Request
and SocketServer.Processor, 0.10.2 to 2.8). What a release can read is from FetchRequest,
ListOffsetRequest and OffsetsForLeaderEpochRequest, or their JSON from 2.3 on, at a tag of each
release line. In which version it asks is chosen in kafka.server.ReplicaFetcherThread and
kafka.controller.ControllerChannelManager, and from 3.3 on in
org.apache.kafka.server.common.MetadataVersion (compared at 2.8.2 and 3.7.0, and with what the links
of the golden runs of every release line saw).
"""

from collections.abc import Mapping

from kchaos.checkers.model.releases.versions import Version

_Line = tuple[int, ...]
_NEWEST: Mapping[str, tuple[tuple[Version, int], ...]] = {
    "Fetch": (
        ((4, 1, 0, 0), 18),
        ((3, 9, 0, 0), 17),
        ((3, 7, 0, 0), 16),
        ((3, 5, 0, 0), 15),
        ((3, 1, 0, 0), 13),
        ((2, 7, 0, 0), 12),
        ((2, 3, 0, 0), 11),
        ((2, 1, 0, 0), 10),
        ((2, 0, 0, 0), 8),
        ((1, 1, 0, 0), 7),
        ((1, 0, 0, 0), 6),
        ((0, 11, 0, 0), 5),
        ((0, 10, 2, 0), 3),
    ),
    "ListOffsets": (
        ((4, 0, 0, 0), 11),
        ((3, 9, 0, 0), 9),
        ((3, 5, 0, 0), 8),
        ((3, 0, 0, 0), 7),
        ((2, 8, 0, 0), 6),
        ((2, 2, 0, 0), 5),
        ((2, 1, 0, 0), 4),
        ((2, 0, 0, 0), 3),
        ((0, 11, 0, 0), 2),
        ((0, 10, 2, 0), 1),
    ),
    "OffsetForLeaderEpoch": (
        ((2, 8, 0, 0), 4),
        ((2, 3, 0, 0), 3),
        ((2, 1, 0, 0), 2),
        ((2, 0, 0, 0), 1),
        ((0, 11, 0, 0), 0),
    ),
    "WriteTxnMarkers": (((4, 2, 0, 0), 2), ((2, 8, 0, 0), 1), ((0, 11, 0, 0), 0)),
}


def can_read(release: Version, api: str, version: int) -> bool:
    """Return whether a broker of that release reads that version of a request."""
    newest = next((known for first, known in _NEWEST[api] if release >= first), -1)
    return version <= newest


_ASKED_IN: Mapping[str, tuple[tuple[_Line, int], ...]] = {
    "Fetch": (
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
        ((4, 1), 18),
    ),
    "LeaderAndIsr": (
        ((0, 10, 1), 0),
        ((1, 0), 1),
        ((2, 2), 2),
        ((2, 4), 4),
        ((2, 8), 5),
        ((3, 2), 6),
        ((3, 4), 7),
    ),
    "OffsetForLeaderEpoch": (((0, 11), 0), ((2, 0), 1), ((2, 1), 2), ((2, 3), 3), ((2, 8), 4)),
    "UpdateMetadata": (
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
    """Return the versions that brokers of a release line use for the API.

    Args:
        api: Kafka's name of the request.
        line: Such as (2, 8), or (0, 10, 2).

    Returns:
        Empty for a request of which this table does not tell.
    """
    known = [version for since, version in _ASKED_IN.get(api, ()) if since <= line]
    if not known:
        return frozenset()
    if api == "Fetch":
        return frozenset({known[-1], min(known[-1], _WITHOUT_TOPIC_IDS)})
    return frozenset(known[-1:])
