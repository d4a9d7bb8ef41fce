"""Gates about fetching: whether a follower follows its leader now. Links show it."""

from collections.abc import Callable

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.rules.fetch_loops import ANSWERS
from kchaos.clusters.links import ApiKey
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import links_of
from kchaos.harness.gates import gates
from kchaos.harness.play.play import Play


def await_fetching(
    play: Play,
    partition: TopicPartition,
    follower: int,
    leader: int,
    *,
    timeout_s: float,
    abort: Callable[[], None] | None = None,
) -> None:
    """Wait until the follower's current process has sent this leader a Fetch.

    Then it is done with truncating: its questions for leader epochs come before. A fetch from
    before the leader's present term does not count. Without links nothing is awaited.

    `abort` raises if waiting is of no use.
    """
    await_until(
        lambda: is_fetching(play, partition, follower, leader),
        timeout_s=timeout_s,
        waiting_for=f"broker {follower} to fetch {partition.name} from {leader} at a link",
        last_seen=lambda: links_of(play.cluster).fetches.last(follower, leader, partition),
        abort=abort,
    )


def is_fetching(play: Play, partition: TopicPartition, follower: int, leader: int) -> bool:
    """Return whether the fetch of `await_fetching` has come; True without links."""
    links = play.cluster.links
    if links is None:
        return True
    fetch = links.fetches.last(follower, leader, partition)
    if fetch is None or fetch.sequence < _led_since(play, partition, follower, leader):
        return False
    # With KRaft no request tells the follower of the leader's present term. Its own request has
    # the leader epoch of that, or of a later one.
    state = play.cluster.metadata.state(*partition) if play.cluster.is_kraft else None
    named = fetch.partition(*partition) or {}
    return state is None or int(named.get("current_leader_epoch", -1)) >= state.leader_epoch


def await_fetches(
    play: Play,
    follower: int,
    leader: int,
    count: int,
    *,
    timeout_s: float,
    abort: Callable[[], None] | None = None,
) -> None:
    """Wait until the leader got `count` more fetches of this follower, idle ones included.

    One fetcher sends the next only when it has done what the answer to the last one says, such as
    to truncate: two tell that it has looked at an answer from after the call. Without links nothing
    is awaited.

    `abort` is as in `gates.await_log_end`.
    """
    if play.cluster.links is None:
        return
    before = _fetches(play, follower, leader)
    await_until(
        lambda: _fetches(play, follower, leader) >= before + count,
        timeout_s=timeout_s,
        waiting_for=f"broker {follower} to fetch {count} times more from {leader}",
        last_seen=lambda: f"{_fetches(play, follower, leader) - before} fetches",
        remedy=f"see the fetchers' lines in brokers/{follower}/server.log",
        abort=abort or gates.no_exit(play),
    )


def _fetches(play: Play, follower: int, leader: int) -> int:
    return sum(
        count.passed
        for key, count in links_of(play.cluster).counts().items()
        if (key.source, key.target) == (follower, leader)
        and (key.api_key, key.direction) == (ApiKey.FETCH, "request")
    )


def _led_since(play: Play, partition: TopicPartition, follower: int, leader: int) -> int:
    """Return the sequence number of the request that first informed the follower of its leader.

    Of the leader's present term, that is: requests that name the same leader again, with a later
    epoch, do not restart a fetcher up to 2.0. What the follower refused, such as a request of a
    controller that is none any more, changes nothing.
    """
    started = max(play.observer.links_started.get(broker, 0) for broker in (follower, leader))
    since = started
    if play.cluster.is_kraft:
        return since
    before: int | None = None
    heard = [
        record
        for record in links_of(play.cluster).log(started, ApiKey.LEADER_AND_ISR)
        if record.target == follower
    ]
    refused = {
        (record.connection, record.correlation_id)
        for record in heard
        if record.direction == "response" and not gates.is_accepted(record, partition)
    }
    for record in heard:
        named = record.partition(*partition) if record.direction == "request" else None
        if named is not None and (record.connection, record.correlation_id) not in refused:
            if named["leader"] == leader and before != leader:
                since = record.sequence
            before = named["leader"]
    return since


def fetch_loop(play: Play, follower: int, leader: int, partition: TopicPartition) -> str:
    """Return how often a follower got OFFSET_OUT_OF_RANGE, or "" unless it goes on.

    A follower that is out of range asks where the leader's log begins and ends, and fetches from
    there; once or twice is usual. Without links nobody can tell.
    """
    links = play.cluster.links
    if links is None:
        return ""
    answers = links.fetches.failed(follower, leader, partition)[-ANSWERS:]
    if len(answers) < ANSWERS:
        return ""
    errors = {(answer.partition(*partition) or {}).get("error_code") for answer in answers}
    if errors != {ErrorCode.OFFSET_OUT_OF_RANGE}:
        return ""
    seconds = answers[-1].monotonic_s - answers[0].monotonic_s
    return (
        f"its last {ANSWERS} fetches from broker {leader}, {ANSWERS / seconds:.0f} a second, were "
        "all answered with OFFSET_OUT_OF_RANGE"
    )
