import pytest

from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import (
    broker_settings_refused,
    magic_of_format,
    topic_settings_refused,
)

PROTOCOL, FORMAT = "inter.broker.protocol.version", "log.message.format.version"


@pytest.mark.parametrize(
    ("release", "properties"),
    [
        ("0.10.2.2", {FORMAT: "0.9.0"}),
        ("1.1.1", {FORMAT: "0.10.0-IV1"}),
        ("1.1.1", {PROTOCOL: "1.1", FORMAT: "1.1"}),
        ("2.0.1", {PROTOCOL: "1.1.1", FORMAT: "1.1-IV0"}),
        ("2.8.2", {PROTOCOL: "2.7-IV1", FORMAT: "2.7-IV0"}),
        ("3.9.1", {PROTOCOL: "3.0", FORMAT: "3.1"}),
        ("3.9.1", {"log.segment.bytes": "168"}),
        ("4.0.2", {"log.segment.bytes": "1048576"}),
        ("3.9.1", {}),
    ],
)
def test_what_a_release_takes_is_not_refused(release: str, properties: dict[str, str]):
    assert broker_settings_refused(release_of(release), properties) == ""


@pytest.mark.parametrize(
    ("release", "properties", "why"),
    [
        ("1.1.1", {FORMAT: "2.0"}, "is 2.0, which 1.1.1 does not know: it is older"),
        ("1.1.1", {PROTOCOL: "2.0"}, "is 2.0, which 1.1.1 does not know: it is older"),
        ("2.8.2", {PROTOCOL: "2.0", FORMAT: "2.1"}, f"2.1, which {PROTOCOL} 2.0 forbids"),
        ("2.8.2", {PROTOCOL: "2.7-IV0", FORMAT: "2.7-IV1"}, "forbids: raise that first"),
        ("3.9.1", {PROTOCOL: "2.8", FORMAT: "3.0"}, "3.0, which"),
        ("2.8.2", {FORMAT: "v1"}, "write it like 1.1 or 2.7-IV1"),
        ("4.0.2", {"log.segment.bytes": "168"}, "is 168, and 4.0.2 takes 1048576 at least"),
    ],
)
def test_what_a_broker_would_not_start_with_is_refused(
    release: str, properties: dict[str, str], why: str
):
    assert why in broker_settings_refused(release_of(release), properties)


def test_topic_settings_are_those_of_the_release():
    release, since = release_of("2.2.2"), release_of("2.3.1")
    lag = {"max.compaction.lag.ms": "1000"}
    assert "2.2.2 does not know" in topic_settings_refused(release, {}, lag)
    assert topic_settings_refused(since, {}, lag) == ""
    small = {"segment.bytes": "500"}
    assert "takes 1048576 at least" in topic_settings_refused(release_of("4.1.2"), {}, small)
    assert topic_settings_refused(release_of("3.9.1"), {}, small) == ""
    assert "is named 'retention'" in topic_settings_refused(since, {}, {"retention": "1"})
    newer = {"message.format.version": "2.3"}
    assert "message.format.version is 2.3" in topic_settings_refused(release, {}, newer)
    assert topic_settings_refused(since, {PROTOCOL: "1.1"}, newer).endswith(
        f"{PROTOCOL} 1.1 forbids: raise that first"
    )


@pytest.mark.parametrize(
    ("release", "properties", "own", "magic"),
    [
        ("1.1.1", {}, None, 2),
        ("1.1.1", {FORMAT: "0.10.2"}, None, 1),
        ("1.1.1", {FORMAT: "0.10.2"}, "0.9.0", 0),
        ("1.1.1", {FORMAT: "0.10.2"}, "0.11.0", 2),
        ("3.9.1", {FORMAT: "0.10.2"}, "0.9.0", 2),
        ("3.9.1", {PROTOCOL: "2.8", FORMAT: "0.10.2"}, None, 1),
    ],
)
def test_a_topics_format_goes_before_the_brokers_and_protocol_3_0_ignores_both(
    release: str, properties: dict[str, str], own: str | None, magic: int
):
    assert magic_of_format(release_of(release), properties, own) == magic
