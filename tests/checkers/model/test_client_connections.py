"""Requests behind one that its broker refuses, on a connection of which nobody saw answers."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow.client_connections import ClientConnections
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from tests.support.loaded_record import loaded_record
from tests.support.work import calls_of


def with_unanswered(record: Record, count: int) -> Record:
    """The record with so many writes to a broker that does not lead, before all others."""
    at = next(at for at, item in enumerate(record.seen) if isinstance(item.what, m.Produce))
    sent = record.seen[at].what
    assert isinstance(sent, m.Produce)
    other = (sent.broker + 1) % 3
    names = [f"unanswered-{number}" for number in range(count)]
    unanswered = tuple(
        replace(record.seen[at], what=replace(sent, operation=name, broker=other, producer=None))
        for name in names
    )
    behind = dict(zip(names[1:], zip(names), strict=False))
    return replace(
        record,
        seen=(*record.seen[:at], *unanswered, *record.seen[at:]),
        behind={**record.behind, **behind},
    )


@pytest.mark.slow
def test_writes_that_a_follower_refused_unseen_cost_as_much_however_many_they_are():
    record = loaded_record(30, partitions=1)
    few, many = (with_unanswered(record, count) for count in (50, 200))

    assert calls_of(lambda: follow(many)) < 2.5 * calls_of(lambda: follow(few))
    assert follow(many).emptied_by is None


def test_fetches_that_ask_for_later_offsets_are_not_looked_at_one_by_one():
    lookahead = Lookahead(loaded_record(30, partitions=1))

    def looking() -> None:
        assert [*lookahead.empty_answers(0, m.TopicPartition("t", 0), -1, "unanswered", 0)] == []

    looking()  # What is made of the record once is made now.
    assert calls_of(looking) < 5


def test_what_comes_next_on_a_connection_is_the_next_request_or_the_next_that_was_answered():
    record = loaded_record(3, partitions=1)
    produces = [item.what for item in record.seen if isinstance(item.what, m.Produce)]
    answered = produces[-1].operation
    record = replace(
        record,
        seen=tuple(
            item
            for item in record.seen
            if not isinstance(item.what, m.ClientAnswered) or item.what.operation == answered
        ),
    )
    connections, end = ClientConnections(record), len(record.seen)
    first = produces[0]

    assert connections.without([first], first.operation, end) == (produces[1],)
    skipped = connections.without([first], first.operation, end, with_unanswered=True)
    assert skipped == (produces[2],)
