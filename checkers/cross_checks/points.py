"""Cross-check of points: a leader's view of its followers beside the links and its replicas."""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.leader_view import LeaderView, leader_views
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.follow.observations import FetchAsked, RequestSeen
from kchaos.checkers.model.values.events import TopicCreated

_ASIDE_S = 10.0
"""Most seconds between a leader's clock and that of the harness when it tells what it knows."""


def point_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield what a leader cannot have seen of its followers.

    **Verifies**: that a leader's view is of its replicas, of offsets that the follower asked for at
    a link, and of times that had come.
    **Does not verify**: how long threads were held, which kchaos alone writes down.
    """
    yield from _views(evidence)


def _views(evidence: RunEvidence) -> Iterator[str]:
    times = {hit.read_at: hit.time for hit in evidence.hits}
    replicas = {
        TopicPartition(event.topic, number): set(brokers)
        for timed in evidence.events
        if isinstance(event := timed.event, TopicCreated)
        for number, brokers in enumerate(event.assignment)
    }
    asked = _asked(evidence)
    for view in leader_views(evidence.hits, with_resets=True):
        if abs(view.time - times[view.read_at]) > _ASIDE_S:
            yield f"{view.read_at} names {view.time}, and was written at {times[view.read_at]}"
        of = {follower.follower for follower in view.followers} | {view.leader}
        if view.partition in replicas and not of <= replicas[view.partition]:
            yield f"{view.read_at} names brokers {sorted(of)}, not all of them replicas"
        for follower in view.followers:
            latest = max(follower.last_caught_up_at, follower.last_fetch_at or 0.0)
            if latest > view.time + _ASIDE_S:
                yield f"{view.read_at} names broker {follower.follower} at {latest}, later on"
            if not view.is_check and (follower.last_fetch_at is None) != (
                follower.log_end_offset < 0
            ):
                yield (
                    f"{view.read_at} names a fetch at {follower.last_fetch_at} from offset "
                    f"{follower.log_end_offset}: there was one, or there was none"
                )
            fetched = (view.leader, view.partition, follower.follower, follower.log_end_offset)
            if asked is not None and follower.log_end_offset >= 0 and fetched not in asked:
                yield (
                    f"{view.read_at}: broker {follower.follower} fetched from "
                    f"{follower.log_end_offset}, which it never asked for"
                )
        yield from _ends(view)


def _ends(view: LeaderView) -> Iterator[str]:
    for follower in view.followers:
        end = follower.leader_log_end_offset
        if end is not None and 0 <= end < follower.log_end_offset:
            yield f"{view.read_at}: broker {follower.follower} is beyond the leader's log end {end}"
        if view.log_end_offset is not None and end is not None and end > view.log_end_offset:
            yield f"{view.read_at}: the leader's log ends before {end}, where it had ended"


def _asked(evidence: RunEvidence) -> set[tuple[int, TopicPartition, int, int]] | None:
    """Return each follower's fetches as (leader, partition, follower, offset), or None."""
    if evidence.links is None:
        return None
    return {
        (said.leader, partition, said.follower, asked.fetch_offset)
        for message in evidence.links
        if isinstance(said := message.said, RequestSeen)
        for partition, asked in said.partitions.items()
        if isinstance(asked, FetchAsked)
    }
