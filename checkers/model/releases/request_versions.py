"""Versions of a fetcher's requests that a release can read; on any other it hangs up.

A follower asks in the version that its inter-broker protocol names, without asking the leader which
it knows. A leader that does not know it closes the connection (kafka.network.RequestChannel.Request
and SocketServer.Processor, 0.10.2 to 2.8). Versions are from FetchRequest, ListOffsetRequest and
OffsetsForLeaderEpochRequest, or their JSON from 2.3 on, at a tag of each release line.
"""

from collections.abc import Mapping

from kchaos.checkers.model.releases.versions import Version

_NEWEST: Mapping[str, tuple[tuple[Version, int], ...]] = {
    "Fetch": (
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
}


def can_read(release: Version, api: str, version: int) -> bool:
    """Tell whether a broker of that release reads that version of a request."""
    newest = next((known for first, known in _NEWEST[api] if release >= first), -1)
    return version <= newest
