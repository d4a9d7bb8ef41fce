"""What is left out of a stored run is missed, and what may have happened unseen is not."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow import search
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from tests.golden.stored import HARD, recorded
from tests.support.model_timelines import state

pytestmark = pytest.mark.slow

T = m.TopicPartition("t", 0)


def without(whole: Record, left_out: object) -> Record:
    """Leave out the answer with this number, or the produce of this operation with its answer."""
    seen = tuple(
        item
        for item in whole.seen
        if not (
            (
                isinstance(item.what, m.Produce | m.ClientAnswered)
                and item.what.operation == left_out
            )
            or (isinstance(item.what, m.ResponseSeen) and item.what.number == left_out)
        )
    )
    assert len(seen) < len(whole.seen)
    return replace(whole, seen=seen)


@pytest.mark.parametrize(
    ("name", "left_out", "said"),
    [
        # A produce, and who has its record on disk.
        ("3.9.1-asked-early", "record-19", "holds high watermark 9 of t-0, possible was one of"),
        ("2.0.1-unanswered-writes", "settle-t-0", "t-0: records up to 6, possible was an answer"),
        # An answer that gave a follower its high watermark.
        ("3.3.2", (57, 4), "holds high watermark 8 of t-1, possible was one of"),
        # One that let a fetcher go on.
        ("1.1.1-forgotten", (20, 7), "t-0: fetched from 7, possible was 5"),
        # One that moved the high watermark, and so is seen.
        ("2.0.1-unanswered-writes", (8, 2), "sent broker 0 a high watermark above 0 of t-0"),
        # The first one of a fetch session, which says everything.
        ("2.0.1-unanswered-writes", (42, 31), "would have sent broker 0 a high watermark of t-0"),
    ],
)
def test_what_is_left_out_of_a_run_is_missed(name: str, left_out: object, said: str):
    prediction = follow(without(recorded(name, runs=HARD), left_out), patience=4_000)

    assert prediction.limit == ""
    assert prediction.emptied_by is not None
    assert said in prediction.emptied_by.why


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("2.0.1-left-session", (30, 2)),
        # Its leader is told that it leads on before a later message tells that it was answered.
        ("0.11.0.3", (11, 3)),
    ],
)
def test_what_was_answered_unseen_is_answered_before_that_would_be_seen(
    name: str, number: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    """A new high watermark is left out; the links do not record an answer with the old one."""
    changed_run = without(recorded(name, runs=HARD), number)
    prediction = follow(changed_run, patience=2_000)
    monkeypatch.setattr(search, "never_answered", lambda *_: "")
    before = follow(changed_run, patience=2_000)

    assert (prediction.limit, prediction.emptied_by) == ("", None)
    assert before.emptied_by is not None
    assert not before.emptied_by.is_proved


def test_unanswered_writes_that_no_copy_shows_are_tried_last():
    whole = recorded("2.0.1-unanswered-writes", runs=HARD)
    prediction = follow(without(whole, "record-11"), patience=2_000)
    assert (prediction.limit, prediction.emptied_by) == ("", None)


FETCH = m.RequestSeen(
    number=(7, 0),
    fate=m.Fate.ARRIVES,
    api="Fetch",
    follower=0,
    leader=2,
    partitions={T: m.FetchAsked(fetch_offset=5, leader_epoch=None, last_fetched_epoch=None)},
    is_full=True,
    version=3,
)


def test_a_term_of_a_leader_ends_where_it_is_told_so_before_a_later_message():
    led, followed, other = (
        state(leader, 1, (leader,), version=1, partition=partition)
        for leader, partition in ((2, 0), (1, 0), (1, 1))
    )

    def leads(*states: m.PartitionState, later: bool = True) -> bool:
        sent = m.ControlSent(
            number=(9, 1),
            api="LeaderAndIsr",
            controller=1,
            controller_epoch=1,
            broker=2,
            broker_epoch=-1,
            states=states,
        )
        last = replace(FETCH, number=(7, 1)) if later else replace(FETCH, number=(8, 0))
        seen = tuple(m.Seen(what=what, time=1.0) for what in (FETCH, sent, last, sent))
        return Lookahead(Record(seen=seen, decided=())).leads_until_later(2, T, (7, 0), 1)

    assert leads(led)
    assert leads(other)
    assert not leads(followed)
    assert not leads(led, later=False)


def test_a_session_that_did_not_begin_on_a_connection_may_leave_out_what_it_said_before():
    cut = m.ResponseSeen(
        number=(7, 0),
        fate=m.Fate.ARRIVES,
        api="Fetch",
        follower=0,
        leader=2,
        partitions={},
        is_whole=False,
    )

    def begins(*seen: m.RequestSeen | m.ResponseSeen) -> bool:
        whole = Record(seen=tuple(m.Seen(what=what, time=1.0) for what in seen), decided=())
        return Lookahead(whole).begins_session((7, 1), 0, FETCH.source, len(seen))

    later = replace(FETCH, number=(7, 1), is_full=False)
    assert begins(FETCH, later)
    assert not begins(later)
    assert not begins(replace(FETCH, number=(6, 0)), later)
    # What was not read of an answer may have said it.
    assert not begins(FETCH, cut, later)
