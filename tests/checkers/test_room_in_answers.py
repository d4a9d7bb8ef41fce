"""How many records an answer to a Fetch has room for, by the settings that brokers had."""

from unittest.mock import Mock

import pytest

from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence import given_settings
from kchaos.checkers.evidence.given_settings import GivenSetting, room_in_answers_bytes
from kchaos.checkers.evidence.links import LinkMessage, records_bytes

MIB = 1024 * 1024


def room_bytes(monkeypatch: pytest.MonkeyPatch, **settings: str) -> float:
    given = [
        GivenSetting(owner="broker 0", name=name.replace("_", "."), value=value)
        for name, value in settings.items()
    ]
    monkeypatch.setattr(given_settings, "given_settings", lambda _: given)
    return room_in_answers_bytes(Mock())


def test_an_answer_has_room_if_two_more_of_the_largest_batches_would_fit(
    monkeypatch: pytest.MonkeyPatch,
):
    assert room_bytes(monkeypatch) == 8 * MIB - 24
    assert room_bytes(monkeypatch, max_message_bytes=str(3 * MIB)) == 4 * MIB
    assert room_bytes(monkeypatch, message_max_bytes=str(9 * MIB)) < 0
    assert room_bytes(monkeypatch, replica_fetch_response_max_bytes="200") < 0
    assert room_bytes(monkeypatch, fetch_max_bytes=str(4 * MIB)) == 2 * MIB - 24


def test_a_limit_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ScenarioDataError, match=r"fetch\.max\.bytes"):
        room_bytes(monkeypatch, fetch_max_bytes="many")


def test_records_of_an_answer_are_counted_with_those_of_internal_topics():
    def size(*partitions: object) -> float:
        return records_bytes(Mock(spec=LinkMessage, detail={"partitions": partitions}))

    assert size() == 0
    assert size({"topic": "t", "records_size_bytes": 5}, {"records_size_bytes": 7}) == 12
    assert size({"topic": "t", "records_size_bytes": 5}, {"topic": "u"}) == float("inf")
