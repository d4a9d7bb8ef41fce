"""Fetcher threads: which of them fetches a partition, where a follower has several for one leader.

Read from kafka.server.AbstractFetcherManager.getFetcherId, 1.1.1, 2.8.2 and 3.8.0: with
num.replica.fetchers above 1 the thread is chosen by the partition's hash. Each has a connection, a
fetch session and a request in flight of its own.

A thread is known to the machine by its source: the leader that it fetches from, and which of the
follower's threads for that leader it is. The source of the first thread is the leader's id.
"""

from kchaos.checkers.acts import TopicPartition

_SPAN = 1 << 32
"""More than any broker id (an int32)."""


def source_of(leader: int, fetcher: int) -> int:
    """Return the source of the thread of that number, from 0 on, that fetches from a leader."""
    return leader + fetcher * _SPAN


def sources_of(leader: int, fetchers: int) -> tuple[int, ...]:
    """Return the sources of all threads, as many as that, that fetch from a leader."""
    return tuple(source_of(leader, fetcher) for fetcher in range(fetchers))


def leader_of(source: int) -> int:
    """Return the leader of a source."""
    return source % _SPAN


def fetcher_of(partition: TopicPartition, fetchers: int) -> int:
    """Return the number of the thread that fetches a partition, out of so many threads."""
    if fetchers == 1:
        return 0
    code = _int32(31 * _hash_code(partition.topic) + partition.partition)
    # Utils.abs has 0 for the one number whose absolute value is none of Java's.
    return (0 if code == -(1 << 31) else abs(code)) % fetchers


def _hash_code(text: str) -> int:
    """Return java.lang.String.hashCode of a topic's name, which is ASCII."""
    code = 0
    for character in text:
        code = _int32(31 * code + ord(character))
    return code


def _int32(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)
