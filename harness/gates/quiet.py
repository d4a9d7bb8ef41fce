"""Quiet: what a fault has set off is over before the next act.

With links a run is followed message by message, and acts follow at once unless the scenario asks
for quiet (`AwaitQuiet`). Without links nothing tells in which order brokers worked: the model lets
controller and followers do all that they can after each act (`checkers.model.settle.rounds`), so
the harness waits until a cluster has done so.
"""

from collections.abc import Collection, Iterator

from kchaos.checkers import observations
from kchaos.checkers.model.releases.every_rule import RANGES
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.gates.cluster_look import PartitionLook, look_at
from kchaos.harness.play.play import Play

QUIET_S = 10.0
"""Seconds that quiet may take until the scenario goes on without it."""


def await_quiet_without_links(play: Play, *, level: bool = False) -> None:
    """Wait as `await_quiet` if nothing but quiet gives the order; else return at once."""
    if play.cluster.links is None:
        await_quiet(play, level=level)


def await_quiet(play: Play, *, level: bool = False, uninformed: Collection[int] = ()) -> None:
    """Wait until controller and followers have done what they can after the last act.

    That is, for each partition: no broker that is gone leads it, or is in the ISR beside its
    leader; every replica has answered the LeaderAndIsr with the present state; every follower has
    fetched from the present leader. Every broker has answered the controller's last request too.
    What a cut, a hold, a pause or a network that is away may keep back is not awaited: a leader
    that cannot hear that it leads answers no follower, and one that a broker without a session
    still reaches takes it into the ISR again. Nor is it awaited up to 2.2 that a controller takes
    brokers out of the ISR that were gone before its election, nor before 2.1 that it tells of what
    a former controller wrote after it. What does not come in time (a truncation that never ends,
    say) is observed as "not-quiet", and the scenario goes on.

    With `level` every follower's log must also end at its leader's log end offset. Brokers that are
    `uninformed` get no request about their replicas, as predicted: they neither learn of them nor
    fetch.
    """
    missing: list[str] = []

    def is_quiet() -> bool:
        with play.cluster.metadata.one_look():
            missing[:] = _missing(play, level=level, uninformed=uninformed)
        return not missing

    try:
        await_until(
            is_quiet,
            timeout_s=QUIET_S,
            waiting_for="what the last act set off to be over",
            last_seen=lambda: "; ".join(missing),
        )
    except AwaitTimeout as error:
        play.observed(observations.WaitedInVain(detail=str(error)))


def _missing(play: Play, *, level: bool, uninformed: Collection[int]) -> Iterator[str]:
    look = look_at(play)
    elected = look.controller
    if look.will_elect_controller:
        yield f"controller {elected} cannot decide, and no other one has been elected"
        return
    if not look.working or (elected is not None and not look.can_decide):
        # Nobody works, or it is a controller that cannot, and whose session has not ended.
        return
    if elected is None:
        yield "no broker is the controller"
        return
    left_in_isr = _left_in_isr(play, elected, play.observer.look_at_controller())
    for partition in look.partitions():
        yield from _of_partition(partition, elected, left_in_isr, level, uninformed)
    # Afterwards: a request may follow the one by which a broker has heard.
    for broker in sorted(look.working):
        if not look.may_not_hear(broker) and gates.is_yet_to_answer(play, broker, elected):
            yield f"broker {broker} has not answered the last request of controller {elected}"


def _left_in_isr(play: Play, elected: int, known: frozenset[int]) -> frozenset[int]:
    """Return the brokers that the controller does not take out of the ISR (KAFKA-3143).

    Up to 2.2 those that were gone when it was elected; its predecessor is one of them. A controller
    of KRaft fences them all.

    `known` brokers have been registered since its election.
    """
    if play.cluster.is_kraft:
        return frozenset()
    release = parse_version(play.cluster.brokers[elected].judged_as)
    if RANGES["KAFKA-3143"].includes(release):
        return frozenset()
    return frozenset(play.cluster.brokers) - known


def _of_partition(
    partition: PartitionLook,
    elected: int,
    left_in_isr: frozenset[int],
    level: bool,
    uninformed: Collection[int],
) -> Iterator[str]:
    """Yield the reasons why the partition is not quiet yet.

    `elected` is the controller, which does not take `left_in_isr` out of the ISR.
    """
    look, leader, isr = partition.cluster, partition.leader, list(partition.state.isr)
    working = [replica for replica in partition.replicas if replica in look.working]
    if partition.is_news_to_controller:
        return
    if leader < 0:
        if set(isr) & set(working):
            yield f"{partition.name} has no leader, and of its ISR {isr} some could lead"
        return
    gone = [
        broker
        for broker in sorted({*isr} - look.registered - left_in_isr)
        if not gates.was_taken_out(look.play, partition.partition, broker, elected)
    ]
    if gone:
        yield f"{gone} are gone, and {partition.name} has leader {leader} and ISR {isr}"
        return
    unaware = [replica for replica in working if not partition.has_heard(replica)]
    for broker in working:
        if look.may_not_hear(broker) or broker in uninformed:
            continue
        if broker in unaware:
            yield f"broker {broker} has not heard of {partition.name} with {partition.state}"
        elif broker == leader or leader not in working or leader in unaware:
            continue
        elif not look.keeps_back(broker, leader) and not partition.failure(broker):
            if not partition.is_fetching(broker):
                yield f"broker {broker} has not fetched {partition.name} from {leader}"
            elif level:
                yield from partition.uneven([broker])
