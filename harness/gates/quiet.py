"""Quiet: what a fault has set off is over before the next act.

With links a run is followed message by message, and acts follow at once unless the scenario asks
for quiet (`AwaitQuiet`). Without links nothing tells in which order brokers worked: the model lets
controller and followers do all that they can after each act (`checkers.model.settle.rounds`), so
the harness waits until a cluster has done so.
"""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.releases.rules.kafka_3143 import KAFKA_3143
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.waiting import await_until
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates.able import is_able, may_keep_back
from kchaos.harness.gates.replication import fetcher_failure
from kchaos.harness.play.play import Play

QUIET_S = 10.0
"""How long quiet may take until the scenario goes on without it, in seconds."""


def await_quiet_without_links(play: Play, *, level: bool = False) -> None:
    """As `await_quiet` where only quiet tells the order of things; else returns at once."""
    if play.cluster.links is None:
        await_quiet(play, level=level)


def await_quiet(play: Play, *, level: bool = False) -> None:
    """Returns once controller and followers have done what they can after the last act.

    That is, for each partition: no broker that is gone leads it, or is in the ISR beside its
    leader; every replica has answered the LeaderAndIsr with the present state; every follower has
    fetched from the present leader. What a cut, a hold, a pause or a network that is away may keep
    back is not awaited: a leader that cannot hear that it leads answers no follower, and one that a
    broker without a session still reaches takes it into the ISR again. Nor is it awaited up to 2.2
    that a controller takes brokers out of the ISR that were gone before its election, nor before
    2.1 that it tells of what a former controller wrote after it. What does not come in time (a
    truncation that never ends, say) is observed as "not-quiet", and the scenario goes on.

    Args:
        level: Also that every follower's log ends where the leader's ends.
    """
    missing: list[str] = []

    def is_quiet() -> bool:
        missing[:] = _missing(play, level=level)
        return not missing

    try:
        await_until(
            is_quiet,
            timeout_s=QUIET_S,
            waiting_for="what the last act set off to be over",
            last_seen=lambda: "; ".join(missing),
        )
    except AwaitTimeout as error:
        play.observed("not-quiet", detail=str(error))


def _missing(play: Play, *, level: bool) -> Iterator[str]:
    metadata = play.cluster.metadata
    able = {one.id for one in play.cluster.brokers.values() if is_able(one)}
    able &= metadata.registered()
    elected = metadata.controller()
    if not able or (elected is not None and not _can_work(play, elected, able)):
        # Nobody works, or it is a controller that cannot, and whose session has not ended.
        return
    if elected is None:
        yield "no broker is the controller"
        return
    left_in_isr = _left_in_isr(play, elected, play.observer.look_at_controller())
    for topic in metadata.topics():
        for partition, replicas in metadata.assignment(topic).items():
            about = TopicPartition(topic, partition)
            state = metadata.state(*about)
            if state is not None:
                working = [one for one in replicas if one in able]
                yield from _of_partition(play, about, state, working, elected, left_in_isr, level)


def _can_work(play: Play, elected: int, able: set[int]) -> bool:
    return elected in able and not may_keep_back(play, elected, None)


def _left_in_isr(play: Play, elected: int, known: frozenset[int]) -> frozenset[int]:
    """Brokers that the controller does not take out of the ISR (KAFKA-3143).

    Up to 2.2 those that were gone when it was elected; its predecessor is one of them.

    Args:
        known: Who has been registered since its election.
    """
    release = parse_version(play.cluster.brokers[elected].judged_as)
    if KAFKA_3143.releases.includes(release):
        return frozenset()
    return frozenset(play.cluster.brokers) - known


def _of_partition(
    play: Play,
    about: TopicPartition,
    state: LeaderAndIsr,
    replicas: list[int],
    elected: int,
    left_in_isr: frozenset[int],
    level: bool,
) -> Iterator[str]:
    """What the partition still lacks.

    Args:
        replicas: Those that run, are registered and can answer.
        elected: The controller.
        left_in_isr: Brokers that it does not take out of the ISR.
    """
    name = f"{about.topic}-{about.partition}"
    leader, isr = state.leader, list(state.isr)
    if gates.is_news_to_controller(play, about, state, elected):
        return
    if leader < 0:
        if set(isr) & set(replicas):
            yield f"{name} has no leader, and of its ISR {isr} some could lead"
        return
    gone = [
        broker
        for broker in sorted({*isr} - play.cluster.metadata.registered() - left_in_isr)
        if not gates.was_taken_out(play, about, broker, elected)
    ]
    if gone:
        yield f"{gone} are gone, and {name} has leader {leader} and ISR {isr}"
        return
    unaware = [one for one in replicas if not gates.is_delivered(play, about, one, state)]
    for broker in replicas:
        if may_keep_back(play, elected, broker):
            continue
        if broker in unaware:
            yield f"broker {broker} has not heard of {name} with {state}"
        elif broker == leader or leader not in replicas or leader in unaware:
            continue
        elif not may_keep_back(play, broker, leader):
            yield from _of_follower(play, about, broker, leader, level)


def _of_follower(
    play: Play, about: TopicPartition, broker: int, leader: int, level: bool
) -> Iterator[str]:
    name = f"{about.topic}-{about.partition}"
    if fetcher_failure(play, broker, leader, about):
        return
    if not fetching.is_fetching(play, about, broker, leader):
        yield f"broker {broker} has not fetched {name} from {leader}"
    elif level:
        own, end = (gates.last_offset(play, one, about) + 1 for one in (broker, leader))
        if own != end:
            yield f"{name} ends at {own} on broker {broker}, and at {end} on {leader}"
