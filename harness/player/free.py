"""Schedules that come by the clock, while clients write and read without waiting for them."""

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

import kchaos as k
from kchaos.checkers.acts import Mode
from kchaos.clusters.releases import release_of
from kchaos.faults.api import healing_order
from kchaos.harness.play.workload import named_by
from kchaos.harness.player.drawing import drawing_beside, require_drawable
from kchaos.harness.player.drawn_settings import ENTRY

FREE = "free"
"""With what the case of such a schedule begins."""
FREE_MIXES = ("mixed", "cuts", "restarts", "shutdowns", "zombies", "elections", "holds", "clients")
"""Mixes whose acts leave clients their topic and its records."""
SHORTEST_S = 10.0
_STEADY_S = 3.0
"""Seconds that clients run before the first act."""
_LEAST_GAP_S, _MEAN_GAP_S = 1.0, 8.0
_BACK_S = 90.0
LEFT_OUT = ("produce", "produce-to-zombie", "create-topic", "delete-topic", "snapshot")
"""Kinds left out: acts of clients, loss of their topic, and copies of logs that they write."""
_PROPERTIES = {
    # Kafka's own until 2.5: who cannot follow leaves the ISR, and writes go on without it.
    "replica.lag.time.max.ms": "10000"
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeRun:
    """Settings of clients that run freely.

    Attributes:
        for_s: How long faults come, in seconds; then all is healed.
        rate: Records a second, of all producers together.
        transactions: Whether some producers are transactional, and some readers read_committed.
        workload: A command that runs in place of such clients; rate and transactions are its own.
    """

    for_s: float
    rate: float = 10.0
    transactions: bool = False
    workload: tuple[str, ...] = ()


def draw_free(
    seed: int,
    free: FreeRun,
    *,
    kafka: str,
    mix: str = "mixed",
    release: str = "",
    mode: Mode | None = None,
    brokers: int | None = None,
) -> k.Scenario:
    """Draw the schedule of a seed; the same arguments and version of kchaos give the same one.

    `kafka` is a release, or a path to a distribution of `release`. `mix` is one of `FREE_MIXES`.
    `mode` is by default the release's usual one; `brokers` is as in `draw`.

    Raises:
        ReleaseError: There is no such release, or it has no such mode.
        UsageError: Clients cannot run freely with that mix, on that release, or for so short.
    """
    require_free(free, mix, release or kafka, mode=mode)
    has_producer_ids = _has_producer_ids(release or kafka)
    moments = [*_moments(Random(f"free {seed}"), free.for_s)]
    drawn = k.draw(
        seed,
        kafka=kafka,
        # The first act writes, which clients do here.
        steps=len(moments) + 1,
        mix=mix,
        gated=False,
        release=release,
        mode=mode,
        left_out=LEFT_OUT,
        brokers=brokers,
    )
    topic, acts = drawn.steps[0], [*_acts(drawn)]
    assert isinstance(topic, k.CreateTopic)
    topic = _for_producers(topic, 1 + has_producer_ids + free.transactions)
    timed = (
        step
        for moment, act in zip(moments, acts, strict=True)
        for step in (k.LetClientsRun(until_s=moment), act)
    )
    return replace(
        drawn,
        entry=ENTRY,
        case=case_of_free(free, mix, mode),
        title=f"{_who(free)} ({mix}), seed {seed}",
        cluster=_with_client_links(drawn.cluster),
        steps=(
            topic,
            _start(free, topic, has_producer_ids=has_producer_ids),
            *timed,
            k.LetClientsRun(until_s=free.for_s),
            *_heals(acts),
            # Clients go on until the service is back: only so its time is measured.
            k.IfPossible(do=k.AwaitInSync(timeout_s=_BACK_S)),
            k.StopClients(),
        ),
    )


def faults_beside(
    seed: int, cluster: k.ClusterSpec, topics: Sequence[k.CreateTopic], *, mix: str, release: str
) -> Iterator[tuple[float, k.Step]]:
    """Yield faults and their ends for a cluster of one's own, without an end.

    Each comes with its moment, in seconds after the command's start. The same arguments and version
    of kchaos give the same ones. `mix` is one of `FREE_MIXES`; `release` is the brokers' oldest.
    """
    drawing = drawing_beside(seed, cluster, topics, mix=mix, release=release, left_out=LEFT_OUT)
    for moment in _moments(Random(f"free {seed}"), math.inf):
        yield moment, drawing.next_step()


def _for_producers(topic: k.CreateTopic, producers: int) -> k.CreateTopic:
    """Return the topic with at least one partition for each producer; acts name the drawn ones."""
    first, more = topic.assignment[:1], producers - len(topic.assignment)
    return replace(topic, assignment=(*topic.assignment, *first * more))


def _with_client_links(cluster: k.ClusterSpec) -> k.ClusterSpec:
    return replace(cluster, client_links=True, properties={**cluster.properties, **_PROPERTIES})


def _start(free: FreeRun, topic: k.CreateTopic, *, has_producer_ids: bool) -> k.Step:
    """Start the clients, or the command in their place."""
    clients = k.StartClients(
        topic=topic.topic,
        partitions=len(topic.assignment),
        idempotent=1 if has_producer_ids else 0,
        transactional=1 if free.transactions else 0,
        alone_committed=1 if free.transactions else 0,
        rate=free.rate,
    )
    return k.StartWorkload(name=clients.name, command=free.workload) if free.workload else clients


def case_of_free(free: FreeRun, mix: str, mode: Mode | None) -> str:
    """Return the case of the schedules that `draw_free` gives for these arguments."""
    workload = [named_by(free.workload)] if free.workload else []
    return "-".join([FREE, mix, *([mode] if mode else []), *workload])


def _who(free: FreeRun) -> str:
    """Return the writers, with time and rate."""
    if free.workload:
        return f"{shlex.join(free.workload)} beside faults, for {free.for_s:g} s"
    return f"clients that never wait, for {free.for_s:g} s at {free.rate:g} records/s"


def require_free(free: FreeRun, mix: str, release: str, *, mode: Mode | None) -> None:
    """Refuse arguments for which no seed has a schedule, without drawing.

    `release` is a release; the others are as in `draw_free`.

    Raises:
        ReleaseError, UsageError: As of `draw_free`.
    """
    if mix not in FREE_MIXES:
        raise k.UsageError(
            f"clients do not run freely with the mix {mix}: take one of {', '.join(FREE_MIXES)}"
        )
    if free.for_s < SHORTEST_S:
        raise k.UsageError(f"clients that run freely do so for {SHORTEST_S:g} s at least")
    if free.transactions and not _has_producer_ids(release):
        raise k.UsageError(f"{release} has no transactions: they came with 0.11.0")
    require_drawable(mix, release, mode=mode)


def _has_producer_ids(release: str) -> bool:
    return release_of(release).number >= (0, 11)


def _moments(random: Random, for_s: float) -> Iterator[float]:
    """Yield the moments of acts, in seconds after the clients' start."""
    moment = _STEADY_S
    while moment < for_s:
        yield round(moment, 1)
        moment += _LEAST_GAP_S + random.expovariate(1 / (_MEAN_GAP_S - _LEAST_GAP_S))


def _acts(drawn: k.Scenario) -> Iterator[k.Step]:
    for step in drawn.steps[1:]:
        if not (isinstance(step, k.IfPossible) and isinstance(step.do, k.Produce)):
            yield step


def _heals(acts: list[k.Step]) -> Iterator[k.Step]:
    """Yield the healing of each lasting fault."""
    acting: dict[str, k.Fault] = {}
    for act in acts:
        done = act.do if isinstance(act, k.IfPossible) else act
        if isinstance(done, k.Heal):
            del acting[done.name]
        elif isinstance(done, k.Inject) and _is_healed(done.fault):
            acting[done.name] = done.fault
    for name in healing_order(acting):
        yield k.IfPossible(do=k.Heal(name=name))


def _is_healed(fault: k.Fault) -> bool:
    """Return whether the fault lasts until it is healed; an unawaited session's end does not."""
    is_over = isinstance(fault, k.ExpireSession | k.FenceBroker) and not fault.await_return
    return fault.lasting and not is_over
