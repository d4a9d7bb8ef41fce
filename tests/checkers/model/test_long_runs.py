"""The length of a run is no limit: what lies behind is forgotten, and each step costs the same."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow import internal_leader_steps, search
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.settle.predict import prediction_of
from kchaos.checkers.model.values import replacing
from tests.support.loaded_record import loaded_record
from tests.support.work import calls_of


def with_longer_records(record: Record, place: int) -> tuple[Record, set[str]]:
    """The record with more records in the first answer from a place on that has any.

    Besides the sources by which that may be named: of the answer, and of what comes soon after.
    """
    for index, item in enumerate(record.seen[place:], start=place):
        what = item.what
        if not isinstance(what, m.ResponseSeen):
            continue
        for partition, said in what.partitions.items():
            if isinstance(said, m.FetchAnswered) and said.last_offset is not None:
                longer = replace(said, last_offset=said.last_offset + 100)
                changed = replace(what, partitions={**what.partitions, partition: longer})
                seen = (
                    *record.seen[:index],
                    replace(item, what=changed),
                    *record.seen[index + 1 :],
                )
                return replace(record, seen=seen), {
                    each.source for each in seen[index : index + 20]
                }
    raise AssertionError("nobody was sent records")


def test_branches_far_behind_are_forgotten_and_a_run_is_explained_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(search, "KEPT", 20)
    kept: list[int] = []
    forget = search._Branches._forget

    def noting(branches: search._Branches) -> None:
        forget(branches)
        kept.append(sum(map(len, branches._visited.values())))

    monkeypatch.setattr(search._Branches, "_forget", noting)
    monkeypatch.setattr(search, "_STROKE", 1)
    prediction = follow(loaded_record(120, partitions=3))

    assert prediction.emptied_by is None
    assert len(kept) > 20
    assert max(kept) < 200 < prediction.states
    assert all(produce.acknowledged for produce in prediction.produces)


@pytest.mark.slow
def test_a_changed_batch_far_from_the_beginning_is_found_and_named_where_branches_were_forgotten(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(search, "KEPT", 20)
    record, sources = with_longer_records(loaded_record(60, partitions=1), 300)

    prediction = follow(record, patience=3000)

    assert prediction.emptied_by is not None
    assert prediction.emptied_by.source in sources
    # What was forgotten may have led further: only a search from shortly before has ended.
    assert not prediction.emptied_by.is_proved
    assert not prediction.limit


def test_writes_and_fetches_at_a_stroke_come_to_what_single_steps_come_to(
    monkeypatch: pytest.MonkeyPatch,
):
    record = loaded_record(60, partitions=3)

    at_a_stroke = follow(record)
    monkeypatch.setattr(search, "_QUIET", len(record.seen) + 1)
    by_steps = follow(record)

    assert at_a_stroke.states < len(record.seen) / 2 < by_steps.states
    assert replace(at_a_stroke, states=0) == replace(by_steps, states=0)


def test_what_is_taken_at_a_stroke_ends_before_the_first_step_that_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch,
):
    ends: list[int] = []
    at_a_stroke = search._Search._at_a_stroke

    def noting(self: search._Search, step: search._Step, most: int) -> search._Step | None:
        following = at_a_stroke(self, step, most)
        ends.extend([] if following is None else [following.node.seen])
        return following

    monkeypatch.setattr(search._Search, "_at_a_stroke", noting)
    monkeypatch.setattr(search, "is_out_of_reach", lambda *given: given[-1] > 149)

    search._Search(loaded_record(60, partitions=3), {}, 50)._search_depth_first()

    assert max(ends) == 149


def test_a_value_is_replaced_as_by_its_constructor():
    request = m.Exchange(api="Fetch", asked=(), number=(1, 2))
    changes: dict[str, Any] = {"stage": m.Stage.READ, "is_awaited": False}

    assert replacing.replace(request, **changes) == dataclasses.replace(request, **changes)


def test_a_run_of_twice_the_length_takes_about_twice_the_work():
    short, long = loaded_record(50), loaded_record(100)

    assert calls_of(lambda: follow(long)) < 2.5 * calls_of(lambda: follow(short))


def test_a_state_does_not_grow_by_the_clients_that_have_their_answers(
    monkeypatch: pytest.MonkeyPatch,
):
    sizes: list[int] = []

    def noting(state: m.State, *rest: Any) -> m.Prediction:
        sizes.append(len(state.components()))
        return prediction_of(state, *rest)

    monkeypatch.setattr(search, "prediction_of", noting)
    for produces in (20, 40):
        follow(loaded_record(produces, partitions=1))

    assert sizes[0] == sizes[1]


def with_changed(record: Record, place: int, change: Callable[[m.Seen], m.Seen | None]) -> Record:
    """The record with the first item from a place on changed of which the change makes another."""
    for index in range(place, len(record.seen)):
        changed = change(record.seen[index])
        if changed is not None:
            seen = (*record.seen[:index], changed, *record.seen[index + 1 :])
            return replace(record, seen=seen)
    raise AssertionError("nothing to change")


def of_answer(item: m.Seen, **changes: Callable[[m.FetchAnswered], object]) -> m.Seen | None:
    """An answer with records of which each field is changed like this; None for anything else."""
    what = item.what
    if not isinstance(what, m.ResponseSeen):
        return None
    for partition, said in what.partitions.items():
        if isinstance(said, m.FetchAnswered) and said.last_offset is not None:
            fields = {name: change(said) for name, change in changes.items()}
            partitions = {**what.partitions, partition: replace(said, **fields)}  # type: ignore[arg-type]
            return replace(item, what=replace(what, partitions=partitions))
    return None


def fetched_further(item: m.Seen) -> m.Seen | None:
    """A Fetch from an offset later; None for anything else."""
    what = item.what
    if not isinstance(what, m.RequestSeen):
        return None
    for partition, asked in what.partitions.items():
        if isinstance(asked, m.FetchAsked):
            later = replace(asked, fetch_offset=asked.fetch_offset + 1)
            partitions = {**what.partitions, partition: later}
            return replace(item, what=replace(what, partitions=partitions))
    return None


def acknowledged_elsewhere(item: m.Seen) -> m.Seen | None:
    """An acknowledgement of an offset later; None for anything else."""
    what = item.what
    if not isinstance(what, m.ClientAnswered):
        return None
    return replace(item, what=replace(what, base_offset=what.base_offset + 1))


def acknowledged_early(record: Record, place: int) -> Record:
    """The record with an acknowledgement right behind its produce, from a place on."""
    answers = (
        (index, item)
        for index, item in enumerate(record.seen)
        if index > place + 1 and isinstance(item.what, m.ClientAnswered)
    )
    for index, item in answers:
        sent = next(
            at
            for at, each in enumerate(record.seen)
            if getattr(each.what, "operation", None) == getattr(item.what, "operation", "")
        )
        if place < sent:
            before, between = record.seen[: sent + 1], record.seen[sent + 1 : index]
            early = replace(item, time=record.seen[sent].time)
            return replace(record, seen=(*before, early, *between, *record.seen[index + 1 :]))
    raise AssertionError("nothing was acknowledged")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda item: of_answer(item, base_offset=lambda said: (said.last_offset or 0) + 1),
            id="a lost batch",
        ),
        pytest.param(
            lambda item: of_answer(item, last_leader_epoch=lambda said: 1), id="a wrong epoch"
        ),
        pytest.param(
            lambda item: of_answer(item, high_watermark=lambda said: said.high_watermark + 1),
            id="a high watermark one too high",
        ),
        pytest.param(fetched_further, id="a Fetch beyond the follower's end"),
        pytest.param(acknowledged_elsewhere, id="a wrong offset"),
    ],
)
def test_a_change_of_what_was_seen_in_a_quiet_stretch_is_not_explained(
    change: Callable[[m.Seen], m.Seen | None],
):
    record = loaded_record(30, partitions=3)

    assert follow(record).emptied_by is None
    assert follow(with_changed(record, 100, change), patience=200).emptied_by is not None


def test_a_record_that_is_acknowledged_before_a_follower_has_it_is_not_explained():
    record = loaded_record(30, partitions=3)

    assert follow(acknowledged_early(record, 100), patience=200).emptied_by is not None


def test_a_fetch_that_has_to_wait_on_leads_nowhere_else(monkeypatch: pytest.MonkeyPatch):
    record = loaded_record(30, partitions=3)
    quick = follow(record)
    waits = internal_leader_steps._waits_on
    kept = []

    def noting(step: internal_leader_steps._LeaderStep) -> bool:
        if waits(step):
            kept.append(list(internal_leader_steps._in_each_manner(step)))
        return False

    monkeypatch.setattr(internal_leader_steps, "_waits_on", noting)

    assert follow(record) == quick
    assert kept
    assert not any(kept)
