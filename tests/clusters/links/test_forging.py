"""Answers that a link forges: as a broker would write them, to one asker, and both written down."""

import json
import struct
from pathlib import Path

import pytest

from kchaos.checkers.acts import FORGED_ERRORS, ForgeAnswers
from kchaos.clusters.links import ApiKey, Match, RuleRefused
from kchaos.clusters.links.details import TopicNames
from kchaos.clusters.links.forging import answer_bytes, can_be_forged, forged
from kchaos.clusters.links.messages import Message, read_response, response_values
from kchaos.clusters.links.sessions import FetchSessions

EPOCHS = ApiKey.OFFSET_FOR_LEADER_EPOCH
CAPTURED = json.loads((Path(__file__).parent / "captured_epoch_answers.json").read_text())
NOT_LEADER = FORGED_ERRORS["NOT_LEADER_FOR_PARTITION"]
FORGE = ForgeAnswers(name="f", source=1, target=0, error="NOT_LEADER_FOR_PARTITION")


def told(entry) -> tuple[Message, memoryview]:
    """The answer of a real broker to a question for the end of epoch 0 of t-0."""
    frame = memoryview(bytes.fromhex(entry["hex"]))
    request = Message(
        direction="request",
        api_key=EPOCHS,
        api_version=entry["version"],
        correlation_id=int.from_bytes(frame[4:8], "big"),
        client_id="c",
        source=1,
        target=0,
        fetch_offsets={("t", 0): None},
        is_complete=True,
        is_readable=True,
        detail=None,
    )
    answer = read_response(
        frame, size=len(frame), request=request, topics=TopicNames(), sessions=FetchSessions()
    )
    return answer, frame


def named(entry) -> str:
    return f"{entry['captured_from']}-v{entry['version']}-{entry['asked'].replace(' ', '-')}"


def test_what_a_broker_answered_is_written_again_byte_by_byte():
    for entry in CAPTURED:
        answer, frame = told(entry)
        written = answer_bytes(answer, response_values(frame, answer))
        assert written == bytes(frame), named(entry)


@pytest.mark.parametrize(
    "entry", [captured for captured in CAPTURED if captured["asked"] == "the leader"], ids=named
)
def test_a_forged_answer_is_what_a_broker_that_does_not_lead_answered(entry):
    (of_follower,) = (
        captured["hex"]
        for captured in CAPTURED
        if captured["asked"] == "a follower"
        and (captured["captured_from"], captured["version"])
        == (entry["captured_from"], entry["version"])
    )
    answer, frame = told(entry)
    made, written = forged(answer, frame, NOT_LEADER)
    assert written.hex() == of_follower
    assert made.detail == told({**entry, "hex": of_follower})[0].detail


def test_every_version_was_recorded_from_a_real_broker():
    assert {captured["version"] for captured in CAPTURED} == set(range(5))


def test_only_an_answer_that_was_read_to_its_end_can_be_forged():
    answer, _ = told(CAPTURED[0])
    assert can_be_forged(answer)
    for field, value in (
        ("direction", "request"),
        ("api_key", ApiKey.FETCH),
        ("detail", None),
        ("detail", {"is_whole": False}),
    ):
        changed = {name: getattr(answer, name) for name in Message.__dataclass_fields__}
        assert not can_be_forged(Message(**changed | {field: value}))


BODY = struct.pack(">ihsii", 1, 1, b"t", 1, 0) + struct.pack(">i", 0)
LEADERS = bytes.fromhex(CAPTURED[0]["hex"])
FOLLOWERS = bytes.fromhex(CAPTURED[1]["hex"])


def ask(make_request, pair, source=1):
    client, server = pair
    client_id = b"broker-%d-fetcher-0" % source
    client.send(make_request(1, client_id=client_id, api_key=EPOCHS, body=BODY))
    server.read_frame()
    server.send(LEADERS)
    return client.read(len(LEADERS))


def test_the_asker_gets_the_error_and_both_answers_are_written_down(lab, make_request):
    pair, other = lab.pair(), lab.pair(source=2)
    with lab.links.forge(FORGE) as forgery:
        assert lab.links.forgeries == {"f": FORGE}
        assert ask(make_request, pair) == FOLLOWERS
        assert ask(make_request, other, source=2) == LEADERS
        assert lab.links.may_keep_back(1, 0)
        assert not lab.links.may_keep_back(2, 0)
    answers = [
        message
        for message in lab.links.log()
        if message.correlation_id and message.direction == "response"
    ]
    assert [(answer.source, answer.fate) for answer in answers] == [
        (1, "replaced"),
        (1, "forged"),
        (2, "passed"),
    ]
    entries = [answer.partition("t", 0) for answer in answers]
    assert [(entry["error_code"], entry["end_offset"]) for entry in entries] == [
        (0, 1),
        (6, -1),
        (0, 1),
    ]
    forgery.end()
    assert ask(make_request, pair) == LEADERS
    counts = [
        (key.source, count.passed, count.forged)
        for key, count in lab.links.counts().items()
        if key.direction == "response" and key.api_key == EPOCHS
    ]
    assert sorted(counts) == [(1, 1, 1), (2, 1, 0)]


def test_an_answer_that_was_held_is_forged_when_it_goes_on(lab, make_request):
    client, server = lab.pair()
    match = Match(api_keys=frozenset({EPOCHS}), source=1, target=0, direction="response")
    with lab.links.hold(match) as hold, lab.links.forge(FORGE):
        client.send(make_request(1, api_key=EPOCHS, body=BODY))
        server.read_frame()
        server.send(LEADERS)
        hold.await_held(timeout_s=10, waiting_for="the answer")
        hold.release()
        assert client.read(len(LEADERS)) == FOLLOWERS
    fates = [message.fate for message in lab.links.log() if message.correlation_id]
    assert fates == ["passed", "held", "replaced", "forged"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"name": "g", "error": "NONE"},
            "no answer can be forged to be 'NONE'; known: UNKNOWN_SERVER_ERROR",
        ),
        ({"name": "g", "source": 7}, "broker 7 has no link"),
        ({}, "a forgery named 'f' lasts already"),
    ],
)
def test_what_cannot_be_forged_is_refused(changes, message, lab):
    fields = {"name": "f", "source": 1, "target": 0, "error": "REQUEST_TIMED_OUT"} | changes
    with lab.links.forge(FORGE), pytest.raises(RuleRefused, match=message):
        lab.links.forge(ForgeAnswers(**fields))
