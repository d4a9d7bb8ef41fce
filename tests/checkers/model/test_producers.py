"""Batches of producers with ids that a leader appends, on every release alike."""

from dataclasses import replace
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.model import predict
from tests.support.model_timelines import replica, state, write
from tests.support.rule_timelines import AFTER, pair, restarted_after


def sent(operation: str, base_sequence: int, *, epoch: int = 0, **more: Any) -> m.Produce:
    """A batch of producer 7."""
    records = more.pop("records", 1)
    mark = m.ProducerMark(producer_id=7, producer_epoch=epoch, base_sequence=base_sequence, **more)
    return replace(write(operation, 0, count=records, acks=-1), producer=mark)


def marker(operation: str, *, epoch: int = 0, coordinator_epoch: int = 0) -> m.Produce:
    more = {"is_transactional": True, "coordinator_epoch": coordinator_epoch}
    return sent(operation, -1, epoch=epoch, **more)


def outcomes(*events: m.Event) -> dict[str, tuple[int, str]]:
    """Offset and error of each produce."""
    produces: tuple[m.PredictedProduce, ...] = predict((*pair("2.8.2"), *events, AFTER)).produces
    return {produce.operation: (produce.base_offset, produce.error) for produce in produces}


def test_batches_in_sequence_are_appended_and_what_they_say_is_predicted():
    events = (sent("a", 0, records=2), sent("b", 2, is_transactional=True), marker("end"))

    assert outcomes(*events) == {"a": (0, ""), "b": (2, ""), "end": (3, "")}
    batches = replica(predict((*pair("2.8.2"), *events, AFTER)), 1).batches
    assert [str(batch.producer) for batch in batches] == [
        "producer 7, 0, 0",
        "transactional, producer 7, 0, 2",
        "transactional, control, producer 7, 0, -1",
    ]


def test_a_batch_that_is_sent_again_is_acknowledged_where_it_lies():
    outcome = outcomes(sent("a", 0), sent("b", 1, records=2), sent("again", 1, records=2))

    assert outcome["again"] == (1, "")
    assert outcomes(sent("a", 0), sent("b", 1))["b"] == (1, "")


def test_a_duplicate_waits_for_its_own_offset_and_not_for_the_end_of_the_log():
    cut = m.CutLink(source=1, target=0)
    prediction = predict((*pair("2.8.2"), sent("a", 0), cut, sent("b", 1), sent("again", 0)))

    assert {produce.operation: produce.acknowledged for produce in prediction.produces} == {
        "a": True,
        "b": None,
        "again": True,
    }


@pytest.mark.parametrize("release", ["0.11.0.3", "1.1.1", "2.0.1", "3.9.1"])
@pytest.mark.parametrize(
    ("sequence", "error"), [(0, ""), (7, "OUT_OF_ORDER_SEQUENCE_NUMBER")], ids=["again", "refused"]
)
def test_a_batch_that_is_not_appended_leaves_its_leader_s_epoch(
    release: str, sequence: int, error: str
):
    """Up to 1.1 nothing else notes the epoch of a leader that has appended nothing in it."""
    led_on = state(0, 3, (0, 1))
    prediction = predict((*pair(release), sent("a", 0), led_on, sent("b", sequence), AFTER))

    assert prediction.produces[-1].error == error
    assert replica(prediction, 0).batches[-1].base_offset == 0
    assert replica(prediction, 0).epoch_entries[-1] == (3, 1)


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ((sent("a", 0), sent("x", 2)), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ((sent("a", 0), sent("x", 3, epoch=1)), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        ((sent("a", 0, epoch=1), sent("x", 1)), "INVALID_PRODUCER_EPOCH"),
        ((marker("end", epoch=1), sent("x", 0)), "INVALID_PRODUCER_EPOCH"),
        ((sent("a", 0, epoch=1), marker("x")), "INVALID_PRODUCER_EPOCH"),
        ((marker("end", coordinator_epoch=2), marker("x")), "TRANSACTION_COORDINATOR_FENCED"),
        ((sent("a", 0, is_transactional=True), sent("x", 1)), "INVALID_TXN_STATE"),
    ],
)
def test_a_batch_that_its_producer_s_state_forbids_is_not_appended(
    events: tuple[m.Produce, ...], error: str
):
    outcome = outcomes(*events)

    assert outcome["x"] == (-1, error)
    assert outcomes(events[0], replace(events[1], producer=None))["x"] == (1, "")


def test_who_starts_knows_the_last_batch_of_a_producer_alone():
    written = [sent("a", 0), sent("b", 1)]
    again = [sent("first", 0), sent("last", 1)]
    prediction = predict((*restarted_after("2.8.2", *written), *again, AFTER))

    answered = {produce.operation: produce.error for produce in prediction.produces}
    assert answered["first"] == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert answered["last"] == ""
    assert outcomes(*written, *again)["first"] == (0, "")


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("2.3.1", "2.3.1", ""),
        ("2.4.1", "2.4.1", "INVALID_PRODUCER_EPOCH"),
        # The old release writes no time, and the new one has no use for what has none.
        ("2.3.1", "2.4.1", ""),
        # The old release has no use for what has no batch.
        ("2.4.1", "2.3.1", ""),
        ("0.11.0.3", "0.11.0.3", "INVALID_PRODUCER_EPOCH"),
    ],
)
def test_who_wrote_and_who_reads_the_snapshot_decides_who_is_fenced(
    before: str, after: str, error: str
):
    events = restarted_after(before, sent("a", 0), marker("end", epoch=1))
    rolled = [
        replace(event, release=after)
        if isinstance(event, m.StartBroker) and index > len(pair(before))
        else event
        for index, event in enumerate(events)
    ]
    prediction = predict((*rolled, sent("zombie", 0), AFTER))

    assert {produce.operation: produce.error for produce in prediction.produces}["zombie"] == error


def test_a_truncation_below_its_end_takes_a_snapshot_away():
    log = m.Log().append(m.batches_of(["a"], base_offset=0, leader_epoch=0, magic=2, codec="none"))
    loaded = replace(log, producers=m.ProducerSnapshot(end_offset=1))

    assert loaded.append(log.truncate_fully_and_start_at(1).batches).producers.end_offset == 1
    assert loaded.truncate_to(1).producers.end_offset == 1
    assert loaded.truncate_to(0).producers == m.NO_SNAPSHOT
    assert (
        m.loaded_snapshot(m.Log().batches, loaded.producers, 0, forgets_fenced=False)
        == m.NO_SNAPSHOT
    )


def test_a_new_epoch_begins_with_sequence_0_and_a_marker_may_bump_it():
    outcome = outcomes(sent("a", 0), marker("end", epoch=1), sent("b", 0, epoch=1))

    assert outcome == {"a": (0, ""), "end": (1, ""), "b": (2, "")}


def test_the_last_batches_alone_are_remembered_and_sequences_begin_anew_after_the_largest():
    events = [sent(f"{number}", number) for number in range(6)]
    batches = m.Shared(replica(predict((*pair("2.8.2"), *events, AFTER)), 0).batches)
    state = m.producer_state(batches, 7)

    first, second = (
        m.ProducerMark(producer_id=7, producer_epoch=0, base_sequence=sequence)
        for sequence in (0, 1)
    )
    assert m.sent_before(state, second, 1, 5) == state.batches[0]
    assert m.sent_before(state, first, 1, 5) is None
    assert m.producer_state(batches, 8).producer_epoch == -1
    largest = replace(state.batches[-1], last_sequence=(1 << 31) - 1)
    assert replace(state, batches=(largest,)).follows(0)
