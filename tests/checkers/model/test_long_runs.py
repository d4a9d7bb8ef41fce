"""The length of a run is no limit: what lies behind is forgotten, and each step costs the same."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kchaos.checkers.model import follow
from kchaos.checkers.model.follow import search
from kchaos.checkers.model.follow.observations import FetchAnswered, Record, ResponseSeen
from kchaos.checkers.model.follow.unavoidable import Reached
from kchaos.checkers.model.values.prediction import ReplicaMoment
from tests.support.loaded_record import loaded_record
from tests.support.work import calls_of


def with_longer_records(record: Record, place: int) -> tuple[Record, set[str]]:
    """The record with more records in the first answer from a place on that has any.

    Besides the sources by which that may be named: of the answer, and of what comes soon after.
    """
    for index, item in enumerate(record.seen[place:], start=place):
        what = item.what
        if not isinstance(what, ResponseSeen):
            continue
        for partition, said in what.partitions.items():
            if isinstance(said, FetchAnswered) and said.last_offset is not None:
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
) -> None:
    monkeypatch.setattr(search, "KEPT", 20)
    kept: list[int] = []
    forget = search._Branches._forget

    def noting(branches: search._Branches) -> None:
        forget(branches)
        kept.append(sum(map(len, branches._visited.values())))

    monkeypatch.setattr(search._Branches, "_forget", noting)
    prediction = follow(loaded_record(60, partitions=3))

    assert prediction.emptied_by is None
    assert len(kept) > 20
    assert max(kept) < 200 < prediction.states
    assert all(produce.acknowledged for produce in prediction.produces)


def test_a_changed_batch_far_from_the_beginning_is_found_and_named_where_branches_were_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "KEPT", 20)
    record, sources = with_longer_records(loaded_record(60, partitions=3), 300)

    prediction = follow(record, patience=200)

    assert prediction.emptied_by is not None
    assert prediction.emptied_by.source in sources
    # What was forgotten may have led further: it is confirmed by other orders, and not proved.
    assert not prediction.emptied_by.is_proved
    assert not prediction.limit


def test_a_run_of_twice_the_length_takes_about_twice_the_work() -> None:
    short, long = loaded_record(50), loaded_record(100)

    assert calls_of(lambda: follow(long)) < 2.5 * calls_of(lambda: follow(short))


def test_a_state_does_not_grow_by_the_clients_that_have_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []

    def noting(path: Sequence[Reached]) -> tuple[ReplicaMoment, ...]:
        sizes.append(len(path[-1].state.components()))
        return ()

    monkeypatch.setattr(search, "replica_moments", noting)
    for produces in (20, 40):
        follow(loaded_record(produces, partitions=1))

    assert sizes[0] == sizes[1]
