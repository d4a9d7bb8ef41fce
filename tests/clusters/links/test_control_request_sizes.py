"""Late requests as bytes: their size, of which docs/kip-380.md tells, and topics by their ids."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from kchaos.checkers.acts import StaleRequest
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.control_requests import request_bytes
from kchaos.faults.wire.stale_request import request_values

PAGE = Path(__file__).parents[3] / "docs" / "kip-380.md"
TOPIC = "a-topic-of-24-characters"
VERSIONS = {
    "LeaderAndIsr": (ApiKey.LEADER_AND_ISR, 1, 2),
    "UpdateMetadata": (ApiKey.UPDATE_METADATA, 4, 5),
    "StopReplica": (ApiKey.STOP_REPLICA, 0, 1),
}
REPLICAS = (0, 1, 2)


def size(api: str, version: int, partitions: int) -> int:
    """Of a request about one topic with three replicas of each partition, its size field apart."""
    return len(frame(api, version, partitions)) - 4


def frame(api: str, version: int, partitions: int, ids: Mapping[str, bytes] = {}) -> bytes:
    """Such a request, with the topic's id if there is one."""
    act = StaleRequest(
        api=api,  # type: ignore[arg-type]
        broker=1,
        target=1,
        version=version,
        generation=1,
        broker_epoch=1,
        controller=0,
        controller_epoch=1,
        states=tuple((TOPIC, n, 0, 0, REPLICAS, 1, 0, REPLICAS) for n in range(partitions)),
        live=REPLICAS,
    )
    endpoints = {
        each: {
            "host": "broker.example",
            "port": 9092,
            "endpoints": [
                {
                    "listener": "PLAINTEXT",
                    "host": "broker.example",
                    "port": 9092,
                    "security_protocol": 0,
                }
            ],
        }
        for each in REPLICAS
    }
    values = request_values(act, endpoints, ids)
    key = VERSIONS[api][0]
    return request_bytes(key, version, values, correlation_id=1, client_id="0")


@pytest.mark.parametrize("version", [7, 8])
def test_a_late_update_metadata_names_the_ids_which_a_broker_would_forget_otherwise(version: int):
    topic_id = bytes(range(16))
    assert topic_id in frame("UpdateMetadata", version, 1, {TOPIC: topic_id})
    without = frame("UpdateMetadata", version, 1, {TOPIC: topic_id}).replace(topic_id, bytes(16))
    assert frame("UpdateMetadata", version, 1) == without


@pytest.mark.parametrize("partitions", [1, 100, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("api", VERSIONS)
def test_the_page_tells_what_naming_a_topic_once_saves(api: str, partitions: int):
    _, old, new = VERSIONS[api]
    before, after = size(api, old, partitions), size(api, new, partitions)
    saved = 100 * (before - after) / before
    row = f"| {api} | {partitions:,} | {before:,} (v{old}) | {after:,} (v{new}) | {saved:.1f} % |"
    assert row in PAGE.read_text(encoding="utf-8"), row
