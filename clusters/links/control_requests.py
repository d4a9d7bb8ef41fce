"""Control requests as kchaos itself sends them: bytes made by the tables that read them.

So are requests in a broker's name to KRaft controllers, which ask for no more either.

A broker takes such a request from whoever connects to it, if it names the controller's id and epoch
(kafka.server.KafkaApis, 0.10.2 to 3.9; only an authorizer would ask for more).
"""

import struct
from collections.abc import Mapping
from typing import Any

from kchaos.checkers.acts import STALE_CLIENT_ID
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.layouts import LAYOUTS
from kchaos.clusters.links.messages import read_request, read_response
from kchaos.clusters.links.sessions import FetchSessions
from kchaos.clusters.links.writing import encode, text
from kchaos.clusters.system.exchange import exchange

WRITABLE: Mapping[str, Mapping[int, tuple[int, int]]] = {
    "LeaderAndIsr": {0: (0, 8), 1: (1, 0), 2: (2, 2)},
    "UpdateMetadata": {
        **{0: (0, 8), 1: (0, 9), 2: (0, 10), 3: (0, 10), 4: (1, 0), 5: (2, 2)},
        **{6: (2, 4), 7: (2, 8), 8: (3, 4)},
    },
    "StopReplica": {0: (0, 8), 1: (2, 2)},
    "ControlledShutdown": {0: (0, 8), 1: (0, 9), 2: (2, 2)},
}
"""The versions of each API that can be written, and the inter-broker protocol that brought each.

Source: kafka.controller.ControllerChannelManager (sendRequestsToBrokers) and
kafka.server.KafkaServer (controlledShutdown), 2.2.2 and 3.4.1. Brokers up to 3.9 still take all of
them. Of UpdateMetadata there is every version: before 7 it names no topic ids, and brokers from 3.1
on would forget those that they know.
"""
EPOCH_SINCE = {"LeaderAndIsr": 2, "UpdateMetadata": 5, "StopReplica": 1, "ControlledShutdown": 2}
"""The version from which on the request carries a broker epoch (KIP-380)."""


def newest_version(api: str, protocol: tuple[int, ...]) -> int:
    """Return the version in `WRITABLE` that a broker of this inter-broker protocol sends."""
    return max(version for version, since in WRITABLE[api].items() if protocol[:2] >= since)


def request_bytes(
    api_key: ApiKey, version: int, values: Mapping[str, Any], *, correlation_id: int, client_id: str
) -> bytes:
    """Encode one request in a frame; ``values`` as `clusters.links.wire.decode` returns them."""
    layout = LAYOUTS[api_key]
    is_flexible = version >= layout.flexible_since
    header = struct.pack(">hhi", api_key, version, correlation_id)
    if not (api_key == ApiKey.CONTROLLED_SHUTDOWN and version == 0):
        header += text(client_id)
    if is_flexible:
        header += b"\x00"
    body = encode(layout.request, version, values, flexible=is_flexible)
    return struct.pack(">i", len(header) + len(body)) + header + body


def send_control_request(
    address: str, api: str, version: int, values: Mapping[str, Any], *, timeout_s: float
) -> dict[str, Any]:
    """Send one control request, and return what the answer says, as link records have it.

    Raises NotSent or NoAnswer as `clusters.system.exchange.exchange` does.
    """
    key = ApiKey(api)  # type: ignore[arg-type] # It takes names too.
    frame = request_bytes(key, version, values, correlation_id=1, client_id=STALE_CLIENT_ID)
    topics, sessions = TopicNames(), FetchSessions()
    request = read_request(
        memoryview(frame),
        size=len(frame),
        target=-1,
        connection_source=None,
        topics=topics,
        sessions=sessions,
    )
    answer = struct.pack(">i", 0) + exchange(address, frame, timeout_s=timeout_s)
    response = read_response(
        memoryview(answer), size=len(answer), request=request, topics=topics, sessions=sessions
    )
    return dict(response.detail or {})
