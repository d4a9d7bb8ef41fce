"""Layouts of messages as texts."""

import pytest

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.layout import fields, layouts
from kchaos.clusters.links.wire import NEWEST, Field


def test_a_field_has_its_versions_and_a_structure_its_fields():
    text = """
        broker_id int32, broker_epoch int64 2+, type int8 0-4, old bool 3, isr []int32 1+,
        topics [] 2-5 (
            topic string, partitions [](partition int32)),
        @1 leader 7+ (id int32), @0 dirs []uuid 1+
    """
    partition = Field(name="partition", type="int32")
    topic = Field(name="topic", type="string")
    partitions = Field(name="partitions", struct=(partition,), array=True)
    assert fields(text) == (
        Field(name="broker_id", type="int32", since=0, until=NEWEST),
        Field(name="broker_epoch", type="int64", since=2, until=NEWEST),
        Field(name="type", type="int8", since=0, until=4),
        Field(name="old", type="bool", since=3, until=3),
        Field(name="isr", type="int32", array=True, since=1, until=NEWEST),
        Field(name="topics", struct=(topic, partitions), array=True, since=2, until=5),
        Field(name="leader", struct=(Field(name="id", type="int32"),), since=7, tag=1),
        Field(name="dirs", type="uuid", array=True, since=1, tag=0),
    )


def test_an_api_has_its_versions_its_request_and_its_response():
    known = layouts("""
VOTE newest 2, flexible 0
    request: cluster_id string
    response: error_code int16
UNREGISTER_BROKER newest 0, flexible 1
    request: broker_id int32
    response: error_code int16, error_message string
""")
    assert list(known) == [ApiKey.VOTE, ApiKey.UNREGISTER_BROKER]
    assert (known[ApiKey.VOTE].newest, known[ApiKey.VOTE].flexible_since) == (2, 0)
    assert [field.name for field in known[ApiKey.UNREGISTER_BROKER].response] == [
        "error_code",
        "error_message",
    ]


@pytest.mark.parametrize(
    "text", ["", "a int32,", "a int32 b int32", "a (b int32", "a int32)", "a int32 2-", "a int32+"]
)
def test_what_is_no_layout_is_refused(text: str):
    with pytest.raises(ValueError, match="no "):
        fields(text)


def test_an_api_without_its_versions_is_refused():
    with pytest.raises(ValueError, match="no API: 'VOTE request"):
        layouts("VOTE\n    request: a int32\n    response: b int32")
