"""A hold at a point of a broker's code, its proof and its release, shared by the JVM faults."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.checkers.acts import CONTROLLER_BROKER_CHANGE
from kchaos.clusters.agent import POINTS, Gate, PointHold
from kchaos.clusters.agent.byteman import complaints
from kchaos.clusters.agent.points import CONTROLLED_SHUTDOWN, REGISTERED
from kchaos.faults.api import Cluster, Injection, Journal, require_available
from kchaos.faults.errors import NoEffect
from kchaos.faults.view import ClusterView, name_in_use, needs_zookeeper, unable, unlinked

_WITH_KRAFT = {
    CONTROLLER_BROKER_CHANGE: "use PauseBroker with a controller's id",
    CONTROLLED_SHUTDOWN: "hold BrokerHeartbeat with HoldRequests",
    REGISTERED: "hold BrokerRegistration responses with HoldRequests",
}
"""Remedy where a point is not reached."""


class AtPoint:
    """A fault that keeps threads of one broker at one point until it is healed.

    `available` and `inject` are those of `Fault`. On leaving, NoEffect says that nothing came to
    the point while it was held.
    """

    __slots__ = ()

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.HoldPoint, acts.ReleasePoint)

    @property
    def _act(self) -> acts.HoldPoint:
        raise NotImplementedError

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """By broker, the point that it must run with."""
        return {self._act.broker: (self._act.point,)}

    def available(self, view: ClusterView) -> str:
        """Return why no thread can be kept there, or ""."""
        return unholdable(view, self._act)

    def inject(self, cluster: Cluster, journal: Journal) -> AbstractContextManager[Injection]:
        """Keep what comes to the point from now on; let it go on when left."""
        require_available(self, cluster)
        return holding(type(self).__name__, self._act, cluster, journal)


def unholdable(view: ClusterView, act: acts.HoldPoint) -> str:
    """Return why there can be no such hold, in one sentence, or "".

    The broker need not run: what it does first when it starts can be held as well.
    """
    return (
        unable(view, act.broker)
        or _misnamed(act)
        or _never_reached(view, act)
        or _without_point(view, act)
        # What is read late is followed by what the links see; without them nobody could say.
        or unlinked(view)
        or name_in_use(view, act.name)
    )


def _never_reached(view: ClusterView, act: acts.HoldPoint) -> str:
    """Return a sentence if no broker of a KRaft cluster reaches the point."""
    instead = _WITH_KRAFT.get(act.point)
    if instead is None:
        return ""
    return needs_zookeeper(view, f"no broker comes to {act.point}; {instead}")


def _misnamed(act: acts.HoldPoint) -> str:
    """Return why the point cannot be held in this manner."""
    point = POINTS.get(act.point)
    if point is None:
        return f"no point is named {act.point!r}; known: {', '.join(POINTS)}"
    if act.manner not in ("hold", "delay", "skip", "fail"):
        return f"manner is {act.manner!r}; use 'hold', 'delay', 'skip' or 'fail'"
    if act.readers not in ("all", "followers", "consumers"):
        return f"readers is {act.readers!r}; use 'all', 'followers' or 'consumers'"
    if (act.manner == "delay") != (act.delay_ms > 0):
        return f"delay_ms={act.delay_ms} with manner={act.manner!r}: only a delay has one"
    if point.of_disk is not None and act.manner == "hold":
        return (
            f"at {act.point} a disk is slow, it does not stop: a broker that is killed could not "
            "end before it; take manner='delay'"
        )
    if act.manner == "skip" and not point.can_skip:
        return f"what begins at {act.point} cannot be left undone"
    if act.manner == "fail" and not (act.error if point.of_disk is not None else point.fails_with):
        return f"what begins at {act.point} cannot fail"
    if act.readers != "all" and not point.names_reader:
        return f"at {act.point} the reader is not seen: take readers='all'"
    if (act.topic is None) != (act.partition is None):
        return "topic and partition go together"
    if act.topic is not None and not point.names_partitions:
        return f"at {act.point} the partition is not seen"
    return ""


def _without_point(view: ClusterView, act: acts.HoldPoint) -> str:
    broker = view.brokers[act.broker]
    if act.point in broker.points:
        return ""
    return (
        f"broker {act.broker} runs without the point {act.point}: name it in its spec, "
        f"BrokerSpec(points=({act.point!r},))"
    )


@contextlib.contextmanager
def holding(
    fault: str, act: acts.HoldPoint, cluster: Cluster, journal: Journal
) -> Iterator[Injection]:
    """Hold for the block; the handle's `held` are the hits that it holds.

    Raises:
        NoEffect: On leaving: nothing came to the point while it was held, or each that came was
            let on before its delay was over.
    """
    gate = gate_of(cluster)
    came = gate.hits(act.broker, act.point)
    with contextlib.ExitStack() as healing:
        with journal.acting(act):
            hold = gate.hold(act)
            # Also when the journal fails; releasing twice does no harm.
            healing.callback(hold.release)
        yield Injection(
            fault=fault,
            before={"hits": came},
            effect={"is_held": not hold.is_released},
            handle=hold,
        )
        waiting = hold.waiting
        _release(act, hold, journal)
    if not hold.held:
        raise NoEffect(_never_hit(cluster, gate, act))
    if act.manner == "delay" and waiting and len(waiting) == len(hold.held):
        raise NoEffect(
            f"{act.name}: none of the {len(waiting)} that came to {act.point} of broker "
            f"{act.broker} waited for its {act.delay_ms} ms to the end. The delay is longer than "
            "the scenario lets it last: heal it later, delay for less, or hold"
        )


def gate_of(cluster: Cluster) -> Gate:
    """Return the gate of a cluster that has one, as its brokers' points have shown."""
    assert cluster.gate is not None
    return cluster.gate


def _release(act: acts.HoldPoint, hold: PointHold, journal: Journal) -> None:
    with journal.acting(acts.ReleasePoint(name=act.name)):
        hold.release()
    # What a thread that is not stopped comes to until then is kept as well.
    held = tuple(hit.describe() for hit in hold.held)
    journal.observed(observations.Released(name=act.name, held=held))


def _never_hit(cluster: Cluster, gate: Gate, act: acts.HoldPoint) -> str:
    """Describe why nothing was held: no thread came, or the agent did not take the rule."""
    said = f"{act.name}: nothing came to {act.point} of broker {act.broker} while it was held"
    came = gate.hits(act.broker, act.point)
    if came:
        return f"{said}; the point works, {came} came before: hold it earlier, or for longer"
    console = Path(cluster.brokers[act.broker].server_log).with_name("console.log")
    return (
        f"{said}, nor at any other time: the rule may not fit this release; the agent's last lines "
        f"in {console}: {complaints(console)[-3:] or 'none'}"
    )
