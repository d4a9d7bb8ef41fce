"""The journal of links under load: what it keeps, and what it refuses to say."""

from typing import Any

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.links import ApiKey, LinkError, LinkRecord
from kchaos.clusters.links.records import LinkJournal
from tests.support.stand_ins import link_record

ABOUT = TopicPartition("t", 0)
MOST = 3


def record(sequence: int, api_key: ApiKey, **changed: Any) -> LinkRecord:
    """A request of broker 1 to broker 0."""
    return link_record(api_key, 1, 0, sequence=sequence, correlation_id=sequence, **changed)


def named(topic: str, partition: int, **more: Any) -> dict[str, Any]:
    return {"topic": topic, "partition": partition, **more}


def fetch(sequence: int, field: str = "partitions", topic: str = "t", **changed: Any) -> LinkRecord:
    return record(sequence, ApiKey.FETCH, detail={field: [named(topic, 0)]}, **changed)


def answer(sequence: int, error_code: int) -> LinkRecord:
    detail = {"partitions": [named("t", 0, error_code=error_code)]}
    return record(sequence, ApiKey.FETCH, direction="response", detail=detail)


def journal_of(*records: LinkRecord) -> LinkJournal:
    journal = LinkJournal(most_of_an_api=MOST)
    for each in records:
        journal.keep(each)
    return journal


def test_a_rare_request_is_kept_however_many_fetches_come_after_it():
    first = record(1, ApiKey.LEADER_AND_ISR)
    fetches = [fetch(sequence) for sequence in range(2, 9)]
    last = record(9, ApiKey.LEADER_AND_ISR)
    journal = journal_of(first, *fetches, last)
    assert journal.log(0, ApiKey.LEADER_AND_ISR) == [first, last]
    assert journal.log(7) == [*fetches[-2:], last]
    assert journal.log(0, ApiKey.UPDATE_METADATA) == []


def test_a_forgotten_record_is_never_taken_for_one_that_was_not_there():
    journal = journal_of(*(fetch(sequence) for sequence in range(1, 6)))
    assert [each.sequence for each in journal.log(3, ApiKey.FETCH)] == [3, 4, 5]
    refused = r"the newest 3 records of an API, and none of <ApiKey.FETCH: 1> up to record 2: ask"
    for asked in [(), (ApiKey.FETCH,)]:
        with pytest.raises(LinkError, match=refused):
            journal.log(2, *asked)
    with pytest.raises(LinkError, match=refused):
        journal.set_sink(print, since=1)
    with pytest.raises(LinkError, match=refused):
        journal.await_record(
            lambda _: True, timeout_s=0, waiting_for="it", since=1, abort=None, api_keys=()
        )


def test_the_last_fetch_of_a_partition_is_known_however_long_ago_it_came():
    ours = fetch(1)
    forgets = fetch(2, "forgotten")
    others = [fetch(sequence, topic="u") for sequence in range(3, 9)]
    journal = journal_of(ours, forgets, *others, fetch(9, fate="held"))
    assert journal.fetches.last(1, 0, ABOUT) == ours
    assert journal.fetches.last(1, 0, ABOUT, "forgotten") == forgets
    assert journal.fetches.last(0, 1, ABOUT) is None
    assert journal.fetches.last(1, 0, TopicPartition("u", 0)) == others[-1]


def test_answers_with_an_error_are_known_until_one_has_none():
    failed = [answer(sequence, 1) for sequence in range(1, 6)]
    assert journal_of(*failed).fetches.failed(1, 0, ABOUT) == (*failed,)
    assert journal_of(*failed, answer(6, 0)).fetches.failed(1, 0, ABOUT) == ()
