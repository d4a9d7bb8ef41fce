"""Partitions are followed apart: alike where nothing ties them, and nothing is proved there."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow import apart
from kchaos.checkers.model.follow.apart import follow_run, of_partitions, partitions_of
from kchaos.checkers.model.follow.matching import answer_as_seen
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.releases.asked import watching_rules
from tests.support.loaded_record import loaded_record
from tests.support.work import calls_of

T0, T1 = m.TopicPartition("t", 0), m.TopicPartition("t", 1)
BATCH = m.PredictedBatch(base_offset=0, last_offset=0, leader_epoch=0, magic=2, payload="")


def with_changed_answer(record: Record, partition: m.TopicPartition) -> tuple[Record, str]:
    """The record with more records in the first answer with any of a partition, and its source."""
    for index, item in enumerate(record.seen):
        said = (
            item.what.partitions.get(partition) if isinstance(item.what, m.ResponseSeen) else None
        )
        if isinstance(said, m.FetchAnswered) and said.last_offset is not None:
            assert isinstance(item.what, m.ResponseSeen)
            longer = replace(said, last_offset=said.last_offset + 100)
            what = replace(item.what, partitions={**item.what.partitions, partition: longer})
            seen = (*record.seen[:index], replace(item, what=what), *record.seen[index + 1 :])
            return replace(record, seen=seen), item.source
    raise AssertionError(f"nobody was sent records of {partition}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "most", "in_children"), [("TOGETHER", 3, 1000), ("LONG", 100, 1000), ("LONG", 100, 1)]
)
def test_what_is_predicted_of_each_partition_by_itself_is_what_is_predicted_of_all(
    limit: str, most: int, in_children: int, monkeypatch: pytest.MonkeyPatch
):
    record = loaded_record(30, partitions=4)
    together = follow(record)
    monkeypatch.setattr(apart, limit, most)
    monkeypatch.setattr(apart, "IN_CHILDREN", in_children)

    prediction = follow_run(record)

    assert (prediction.emptied_by, prediction.limit) == (None, "")
    assert prediction.states > together.states
    assert prediction.snapshots == together.snapshots
    assert set(prediction.produces) == set(together.produces)
    assert prediction.generations == together.generations


def test_rules_that_somebody_watches_are_asked_in_this_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(apart, "LONG", 100)
    with watching_rules() as expected:
        follow_run(loaded_record(30, partitions=4))
    monkeypatch.setattr(apart, "IN_CHILDREN", 1)

    with watching_rules() as watched:
        follow_run(loaded_record(30, partitions=4))

    assert watched.rules == expected.rules


def test_a_record_of_one_partition_has_what_links_record_of_it_alone():
    record = loaded_record(30, partitions=4)

    own = of_partitions(record, [T1])

    fetches = [
        item.what for item in own.seen if isinstance(item.what, m.RequestSeen | m.ResponseSeen)
    ]
    assert fetches
    assert {partition for fetch in fetches for partition in fetch.partitions} == {T1}
    others = [fetch for fetch in fetches if not fetch.partitions]
    assert all(fetch.carries_others for fetch in others if isinstance(fetch, m.ResponseSeen))
    assert len(own.seen) < len(record.seen) / 2
    assert partitions_of(record) == partitions_of(own)


@pytest.mark.slow
def test_twice_as_many_partitions_take_about_twice_the_work(monkeypatch: pytest.MonkeyPatch):
    """With each Fetch that carries records of others they take four times the work."""
    monkeypatch.setattr(apart, "TOGETHER", 8)
    few, many = (loaded_record(2 * count, partitions=count) for count in (10, 20))

    assert calls_of(lambda: follow_run(many)) < 3 * calls_of(lambda: follow_run(few))


def test_an_answer_with_room_for_more_is_left_out_where_it_has_records_of_others_alone():
    record = loaded_record(30, partitions=6)
    without_room = replace(record, seen=tuple(map(having_no_room, record.seen)))

    crowded, own = (of_partitions(each, [T1]) for each in (without_room, record))

    answers = [item.what for item in own.seen if isinstance(item.what, m.ResponseSeen)]
    assert answers
    assert all(answer.partitions for answer in answers)
    assert len(own.seen) < len(crowded.seen)
    assert follow(own).emptied_by is None
    assert set(follow(own).produces) == set(follow(crowded).produces)


def having_no_room(item: m.Seen) -> m.Seen:
    """The same observation; nobody knows whether records were left out of an answer."""
    what = item.what
    if not isinstance(what, m.ResponseSeen):
        return item
    return replace(item, what=replace(what, has_room=False))


@pytest.mark.parametrize(
    ("carries_others", "has_room"), [(True, False), (False, False), (True, True)]
)
def test_records_of_partitions_that_are_left_out_may_leave_no_room(
    *, carries_others: bool, has_room: bool
):
    seen = m.ResponseSeen(
        number=(1, 0),
        fate=m.Fate.ARRIVES,
        api="Fetch",
        follower=1,
        leader=0,
        partitions={},
        carries_others=carries_others,
        has_room=has_room,
    )

    told, differs = answer_as_seen(T0, m.FetchAnswer(batches=(BATCH,), high_watermark=0), seen)

    assert told is None
    assert bool(differs) is (has_room or not carries_others)


@pytest.mark.slow
def test_what_nothing_explains_of_a_partition_by_itself_is_a_suspect(
    monkeypatch: pytest.MonkeyPatch,
):
    """A fetcher that other partitions keep alive handles what it was answered before."""
    record, source = with_changed_answer(loaded_record(10, partitions=4), T1)
    monkeypatch.setattr(apart, "TOGETHER", 3)

    prediction = follow_run(record, patience=200)

    assert prediction.limit.startswith("of ")
    assert prediction.emptied_by is not None
    assert (prediction.emptied_by.source, prediction.emptied_by.is_proved) == (source, False)
    assert "t-1" in prediction.emptied_by.why


@pytest.mark.slow
def test_what_is_not_explained_of_a_long_record_is_followed_together(
    monkeypatch: pytest.MonkeyPatch,
):
    record, source = with_changed_answer(loaded_record(10, partitions=2), T1)
    together: list[bool] = []

    def noting(followed: Record, *, patience: int) -> m.Prediction:
        together.append(len(partitions_with_fetches(followed)) == 2)
        return follow(followed, patience=patience)

    monkeypatch.setattr(apart, "LONG", 50)
    monkeypatch.setattr(apart, "follow", noting)

    prediction = follow_run(record, patience=200)

    assert together == [False, False, True]
    assert prediction.emptied_by is not None
    assert prediction.emptied_by.source == source


def test_a_suspect_is_not_confirmed_where_each_partition_by_itself_is_explained(
    monkeypatch: pytest.MonkeyPatch,
):
    """What a search over all partitions does not explain is then their order in messages."""
    record = loaded_record(5, partitions=2)
    suspect = m.EmptiedBy(source="line:9", what="RequestSeen", why="", is_proved=False)

    def confirmed(followed: Record, *, patience: int) -> m.Prediction:
        alone = len(partitions_with_fetches(followed)) < 2
        prediction = follow(followed, patience=patience)
        return prediction if alone else replace(prediction, emptied_by=suspect)

    monkeypatch.setattr(apart, "follow", confirmed)

    prediction = follow_run(record)

    assert prediction.limit.startswith("of ")
    assert prediction.emptied_by == suspect


def partitions_with_fetches(record: Record) -> Mapping[m.TopicPartition, None]:
    return dict.fromkeys(
        partition
        for item in record.seen
        if isinstance(item.what, m.RequestSeen)
        for partition in item.what.partitions
    )


def test_searches_in_other_orders_that_run_out_of_patience_confirm_nothing():
    """Such searches confirmed any suspect: with little patience a good run was not as predicted."""
    record = loaded_record(5, partitions=1)

    assert follow(record).emptied_by is None
    prediction = follow(record, patience=2)
    assert prediction.emptied_by is not None
    assert prediction.limit.startswith("of ")
