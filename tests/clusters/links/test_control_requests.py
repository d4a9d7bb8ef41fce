"""Control requests that kchaos writes, compared byte by byte with those that real brokers sent."""

from typing import Any

import pytest

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.control_requests import (
    EPOCH_SINCE,
    WRITABLE,
    newest_version,
    request_bytes,
)
from kchaos.clusters.links.layouts import LAYOUTS
from kchaos.clusters.links.wire import Reader, compiled, decode, read_string
from tests.support.captured import CAPTURED

REQUESTS = [
    entry
    for entry in CAPTURED
    if entry["direction"] == "request"
    and entry["api"] in {"LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA", "CONTROLLED_SHUTDOWN"}
]


def test_what_a_broker_sent_is_written_again_byte_by_byte():
    for entry in REQUESTS:
        written, sent = written_again(entry), bytes.fromhex(entry["hex"])
        assert written == sent, (entry["api"], entry["version"], entry["captured_from"])


def written_again(entry: dict[str, Any]) -> bytes:
    """What a broker sent, read and written."""
    sent = bytes.fromhex(entry["hex"])
    api_key, version = ApiKey[entry["api"]], entry["version"]
    layout = LAYOUTS[api_key]
    reader = Reader(view=memoryview(sent), position=12, size=len(sent))
    client_id = ""
    if (api_key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
        client_id = read_string(reader, compact=False) or ""
    if version >= layout.flexible_since:
        assert reader.unsigned_varint() == 0
    steps = compiled(layout.request, version, flexible=version >= layout.flexible_since)
    values, is_whole = decode(steps, reader)
    assert is_whole
    return request_bytes(
        api_key,
        version,
        values,
        correlation_id=int.from_bytes(sent[8:12], "big"),
        client_id=client_id,
    )


def test_every_version_that_can_be_written_was_recorded_from_a_real_broker():
    recorded = {(ApiKey[captured["api"]], captured["version"]) for captured in REQUESTS}
    spelled: dict[Any, Any] = dict(WRITABLE)
    writable = {(ApiKey(api), version) for api in spelled for version in spelled[api]}
    assert writable - recorded == set()


@pytest.mark.parametrize(
    ("protocol", "versions"),
    [
        ((0, 10, 2), (0, 3, 0, 1)),
        ((2, 1), (1, 4, 0, 1)),
        ((2, 2), (2, 5, 1, 2)),
        ((2, 8), (2, 7, 1, 2)),
        ((3, 9), (2, 8, 1, 2)),
    ],
)
def test_a_protocol_below_2_2_has_no_version_with_a_broker_epoch(protocol, versions):
    assert tuple(newest_version(api, protocol) for api in WRITABLE) == versions
    tells = [newest_version(api, protocol) >= EPOCH_SINCE[api] for api in WRITABLE]
    assert all(tells) if protocol >= (2, 2) else not any(tells)
