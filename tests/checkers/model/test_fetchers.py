"""Fetcher threads of a follower, and which of them has a partition."""

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.values.fetchers import fetcher_of, leader_of, source_of


@pytest.mark.parametrize(
    ("topic", "partition", "fetchers", "fetcher"),
    [
        # java.lang.String.hashCode of "t" is 116, of "hello" 99162322.
        ("t", 0, 2, 0),
        ("t", 1, 2, 1),
        ("t", 0, 1, 0),
        ("hello", 0, 1000, abs(31 * 99162322 - (1 << 32)) % 1000),
        # That of "polygenelubricants" is Integer.MIN_VALUE, and so is 31 times as much.
        ("polygenelubricants", 0, 3, 0),
        ("polygenelubricants", 1, 3, ((1 << 31) - 1) % 3),
    ],
)
def test_a_thread_is_chosen_by_the_hash_of_the_partition(
    topic: str, partition: int, fetchers: int, fetcher: int
) -> None:
    assert fetcher_of(TopicPartition(topic, partition), fetchers) == fetcher


def test_a_source_has_its_leader_and_that_of_the_first_thread_is_the_leaders_id() -> None:
    assert source_of(2, 0) == 2
    assert {leader_of(source_of(2, fetcher)) for fetcher in range(3)} == {2}
    assert len({source_of(leader, fetcher) for leader in range(3) for fetcher in range(3)}) == 9
