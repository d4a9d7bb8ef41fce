"""Cross-check of points: hits.jsonl beside itself, actions, links, and the gate's own count."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import HoldPoint, ReleasePoint, StartBroker, TopicPartition
from kchaos.checkers.evidence.hits import HITS
from kchaos.checkers.evidence.leader_view import LeaderView, leader_views
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.point_hit import FETCH_COUNTED, ISR_CHECK, PointHit
from kchaos.checkers.model.follow.observations import FetchAsked, RequestSeen
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.observations import PointHits, Released

_ASIDE_S = 10.0
"""Most seconds between a leader's clock and that of the harness when it tells what it knows."""
_CLOCK_S = 1.0
_HELLO = "hello"
_ALL_WRITTEN = (_HELLO, FETCH_COUNTED, ISR_CHECK)
_ENDED = ("released", "gone")
_Place = tuple[int, int, str]


def point_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields hits that cannot have been so, and those of which the count knows and no line tells.

    **Verifies**: that each hit is of a broker, life and point that the gate counted, that each life
    began with the agent's greeting, that a thread was held only by a hold that an act made, once,
    and went on once, not before its hold was released, which says how many it kept; that what
    leaders told is all there, and is of their replicas, of offsets that the follower asked for, and
    of times that had come, of a leader's first look at them too.
    **Does not verify**: threads that passed, of which only the first is written down.
    """
    counts = _counts(evidence)
    if not evidence.hits and not counts:
        return
    lives = Counter(
        timed.event.broker for timed in evidence.actions if isinstance(timed.event, StartBroker)
    )
    for hit in evidence.hits:
        if not 1 <= hit.life <= lives[hit.broker]:
            yield f"{hit.read_at} is of life {hit.life} of broker {hit.broker}, which had none such"
        elif counts and not counts[hit.broker, hit.life, hit.point]:
            yield f"{hit.read_at} is a hit at {hit.point}, of which the gate counted none"
    told = Counter(
        (hit.broker, hit.life, hit.point)
        for hit in evidence.hits
        if hit.fate == "told" or hit.point == _HELLO
    )
    for (broker, life, point), number in sorted(counts.items()):
        if point in _ALL_WRITTEN and told[broker, life, point] != number:
            yield (
                f"{HITS} has {told[broker, life, point]} hits of broker {broker} at {point}, and "
                f"the gate counted {number}"
            )
    yield from _holds(evidence)
    yield from _views(evidence)


def _counts(evidence: RunEvidence) -> Counter[_Place]:
    counts: Counter[_Place] = Counter()
    for _, counted in lines_of(evidence.observed, PointHits):
        for entry in counted.counts:
            counts[entry.broker, entry.life, entry.point] = entry.hits
    return counts


def _holds(evidence: RunEvidence) -> Iterator[str]:
    named = {timed.event.name for timed in evidence.actions if isinstance(timed.event, HoldPoint)}
    begun: dict[int, PointHit] = {}
    ended: set[int] = set()
    for hit in evidence.hits:
        before = begun.get(hit.number)
        if hit.fate in _ENDED:
            if before is None or hit.number in ended or _of(before) != _of(hit):
                yield f"{hit.read_at}: number {hit.number} was {hit.fate}, and was not held so"
            ended.add(hit.number)
            continue
        if before is not None:
            yield f"{hit.read_at} is number {hit.number} once more"
        begun[hit.number] = hit
        if hit.hold and not any(hit.hold in (name, f"{name}-{hit.broker}") for name in named):
            yield f"{hit.read_at} was {hit.fate} by {hit.hold!r}, which no act made"
    yield from _as_released(evidence, begun)
    for number, hit in begun.items():
        if hit.fate == "held" and number not in ended and evidence.outcome.finished:
            yield f"{hit.read_at} was held, and nothing says that it went on"


def _as_released(evidence: RunEvidence, begun: Mapping[int, PointHit]) -> Iterator[str]:
    """A hold that is released says which threads it kept; a held one goes on then, not before.

    A thread that is delayed goes on by itself.
    """
    kept = [hit for hit in begun.values() if hit.hold]
    placed: dict[str, list[float]] = {}
    for timed in evidence.actions:
        if isinstance(timed.event, HoldPoint):
            began = timed.time if timed.began is None else timed.began
            placed.setdefault(timed.event.name, []).append(began)

    def hold_at(name: str, time: float) -> tuple[str, int]:
        """The last hold of a name that was placed by then; a name is used again once released."""
        return name, max(bisect_right(placed.get(name, []), time), 1)

    kept_by = Counter(hold_at(hit.hold, hit.time) for hit in kept)
    # One that holds several brokers names its hits by broker.
    names = placed.keys() - {hit.hold.rpartition("-")[0] for hit in kept}
    for line, released in lines_of(evidence.observed, Released):
        name, held = released.name, len(released.held)
        number = kept_by[hold_at(name, line.time)]
        if name in names and number != held:
            yield f"{line.read_at} says that {name!r} kept {held} threads, and {HITS} has {number}"
    ended = {
        hold_at(timed.event.name, time): time
        for timed in evidence.actions
        if isinstance(timed.event, ReleasePoint)
        for time in [timed.time if timed.began is None else timed.began]
    }
    for hit in evidence.hits:
        before = begun.get(hit.number)
        until = None if before is None else ended.get(hold_at(hit.hold, before.time))
        was_held = hit.fate == "released" and before is not None and before.fate == "held"
        if was_held and until is not None and hit.time < until - _CLOCK_S:
            yield f"{hit.read_at} goes on {until - hit.time:.1f} s before {hit.hold!r} was released"


def _of(hit: PointHit) -> tuple[object, ...]:
    return hit.broker, hit.life, hit.point, hit.thread, hit.reader, hit.hold


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
            yield f"{view.read_at} tells of {view.time}, and was told at {times[view.read_at]}"
        of = {follower.follower for follower in view.followers} | {view.leader}
        if view.partition in replicas and not of <= replicas[view.partition]:
            yield f"{view.read_at} tells of brokers {sorted(of)}, not all of them replicas"
        for follower in view.followers:
            latest = max(follower.last_caught_up_at, follower.last_fetch_at or 0.0)
            if latest > view.time + _ASIDE_S:
                yield f"{view.read_at} tells of broker {follower.follower} at {latest}, later on"
            if not view.is_check and (follower.last_fetch_at is None) != (
                follower.log_end_offset < 0
            ):
                yield (
                    f"{view.read_at} tells of a fetch at {follower.last_fetch_at} from offset "
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
    """Questions of each follower: (leader, partition, follower, offset); None without links."""
    if evidence.links is None:
        return None
    return {
        (said.leader, partition, said.follower, asked.fetch_offset)
        for message in evidence.links
        if isinstance(said := message.said, RequestSeen)
        for partition, asked in said.partitions.items()
        if isinstance(asked, FetchAsked)
    }
