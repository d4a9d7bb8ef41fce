"""Drawing a schedule from a seed: a list of legal steps, and the cluster that they are for."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import kchaos as k
from kchaos.checkers.acts import Mode
from kchaos.clusters.releases import KRAFT_VERSION, METADATA_VERSION, Release, release_of
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.clusters.start.spec_checks import SEVERAL_DIRECTORIES, mode_refused
from kchaos.faults.api import NeedsPoints
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.player.candidates import (
    LOGS,
    MIXES,
    OF_DYNAMIC_QUORUMS,
    SEVERAL_FOLDERS,
    SHUTDOWNS,
    STEP_KINDS,
    THROTTLES,
    UPGRADES,
    candidates_of,
    duration,
    sequel,
    step_weights_of,
    without,
)
from kchaos.harness.player.draw import Candidates
from kchaos.harness.player.drawn_settings import (
    CONTROLLED_SHUTDOWN,
    ENTRY,
    SEVERAL_FETCHERS,
    SMALL_LOGS,
    DrawnSettings,
    case_of,
    draw_settings,
    message_formats,
    small_segments,
    title_of,
)
from kchaos.harness.player.legal import after, refusal
from kchaos.harness.player.rare import (
    RARE,
    SLOW_DISKS,
    Wide,
    draw_wide,
    older_release,
    swarm,
    tiered_configuration,
)
from kchaos.harness.player.studied_mixes import WALKED, drawer_of
from kchaos.harness.player.view import new_view
from kchaos.harness.player.weighted import drawn_move
from kchaos.harness.run.own_parts import OwnParts, require_apart

LEAST_BROKERS = 3
DRAWN = "DRAWN"
"""The name under which a file or package says what is drawn of it."""
_END_SESSION = 0.65
_LONGER = (2, 6)
_WRITES = ("produce", "produce-to-zombie")
_DYNAMIC_QUORUMS, _DYNAMIC = (3, 9), 0.5
"""The first release with a quorum that changes (KIP-853), and how many clusters have one."""
_SELDOM_POSSIBLE = ("lose-tail", "tear-epochs", "lose-epochs", "wipe", "delete-topic")
_SEIZED = 6
"""Factor of the mix `rare` on the weight of a kind that is seldom possible, when it is."""
_HELD = (RARE, SLOW_DISKS)
"""Mixes in which what is held inside brokers is let go by a step: a fault that had no effect until
then says so when it is healed, which is an observation there, and would end the run later."""
_COMPRESSED = 20
_RECORD_BATCHES = (0, 11)
_CODEC, _KEYS, _IN_FLIGHT = 0.2, 0.5, 0.25
_LAG_MS = ("600000", "600000", "600000", "10000", "3000")
"""With most, no follower leaves an ISR for being slow."""


def draw(
    seed: int,
    *,
    kafka: str,
    steps: int,
    mix: str = "mixed",
    gated: bool = True,
    release: str = "",
    mode: Mode | None = None,
    left_out: Collection[str] = (),
    own: Sequence[OwnParts] = (),
    brokers: int | None = None,
) -> k.Scenario:
    """Draw the schedule of a seed; the same arguments and version of kchaos give the same one.

    `kafka` is a release, or a path to a distribution of `release`. `steps` counts acts without the
    first topic and the gates, which follow each act if `gated`. `mix` is one of `MIXES` or of
    `WALKED`. `mode` is by default the release's usual one. `left_out` has kinds of steps that
    are not drawn, and `own` files and packages whose `DRAWN` adds kinds; walks ignore both.
    `brokers` is how many there are, None for as many as the mix draws.

    Raises:
        ReleaseError: The release has no such mode.
        UsageError: There is no such mix, or `DRAWN` has another form.
        ReleaseError: There is no such release.
    """
    known = release_of(release or kafka)
    require_drawable(mix, known.text, mode=mode, own=own)
    if mix in WALKED:
        return drawer_of(mix)(
            seed,
            kafka=kafka,
            steps=steps,
            gated=gated,
            release=release or kafka,
            mix=mix,
            mode=mode,
        )
    drawing, cluster = _begin(
        seed,
        kafka,
        known,
        mix,
        is_kraft=has_kraft(known, mode),
        own=own_kinds(own),
        left_out=left_out,
        brokers=brokers,
    )
    acts = [drawing.first_topic(), *(drawing.next_step() for _ in range(steps))]
    return k.Scenario(
        entry=ENTRY,
        case=case_drawn(mix, gated=gated, mode=mode, own=own),
        title=title_of(f"{steps} random steps", mix, gated, seed),
        release=kafka,
        cluster=cluster,
        steps=(
            acts[0],
            *(step for act in acts[1:] for step in played(act, gated=gated)),
            *(drawing.ends() if mix in _HELD else ()),
        ),
        seed=seed,
    )


def require_drawable(
    mix: str, release: str, *, mode: Mode | None = None, own: Sequence[OwnParts] = ()
) -> None:
    """Refuse arguments for which no seed has a schedule, without drawing.

    `release` is a release; the others are as in `draw`.

    Raises:
        ReleaseError: There is no such release, or it has no such mode.
        UsageError: There is no such mix for the release, or `DRAWN` has another form.
    """
    check_mix(mix, release, is_kraft=has_kraft(release_of(release), mode))
    own_kinds(own)
    if mix in WALKED:
        drawer_of(mix)
    if own and mix in WALKED:
        raise k.UsageError(
            f"the mix {mix} has only acts that the model says are possible, and it knows "
            "none of your own: take another mix, such as mixed"
        )


def case_drawn(mix: str, *, gated: bool, mode: Mode | None, own: Sequence[OwnParts]) -> str:
    """Return the case of the schedules that `draw` gives for these arguments."""
    return "-with-".join([case_of(mix, gated, mode), *(Path(part.name).stem for part in own)])


def _begin(
    seed: int,
    kafka: str,
    known: Release,
    mix: str,
    *,
    is_kraft: bool,
    own: Mapping[str, "OwnKind"],
    left_out: Collection[str],
    brokers: int | None,
) -> tuple["Drawing", k.ClusterSpec]:
    """Return the drawing before its first step, and its cluster."""
    random = Random(seed)
    cluster = _cluster(random, kafka, known, mix, is_kraft=is_kraft, count=brokers)
    if mix == UPGRADES:
        cluster = _before_an_upgrade(cluster, known.text)
    weights = dict(step_weights_of(mix, is_kraft=is_kraft))
    wide = None
    if mix == RARE:
        wide = draw_wide(random, kafka, known.text, cluster, count=brokers)
        cluster, weights = wide.cluster, swarm(random, weights)
    weights |= {name: kind.weight for name, kind in own.items()}
    drawing = Drawing(
        random=random,
        own=own,
        view=_view_of(cluster, kafka, known),
        weights=without(weights, left_out),
        wide=wide,
        configuration=small_segments(known.number) if mix == LOGS else (),
    )
    return drawing, cluster


def drawing_beside(
    seed: int,
    cluster: k.ClusterSpec,
    topics: Sequence[k.CreateTopic],
    *,
    mix: str,
    release: str,
    left_out: Sequence[str],
) -> "Drawing":
    """Return the drawing of a seed for a cluster with these topics; kinds that are `left_out` are.

    `mix` is one of `MIXES`, and `release` is what the brokers speak.
    """
    view = _view_of(cluster, release, release_of(release))
    for topic in topics:
        view = after(view, topic)
    weights = step_weights_of(mix, is_kraft=cluster.is_kraft)
    return Drawing(
        random=Random(seed),
        view=view,
        weights=without(weights, left_out),
        # The first step of a schedule would write.
        number=1,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnKind:
    """A kind of step that is somebody's own: how often it is drawn, and which steps there are."""

    weight: float
    candidates: Candidates


def own_kinds(own: Sequence[OwnParts]) -> Mapping[str, OwnKind]:
    """Return the kinds of steps that files and packages add.

    Raises:
        UsageError: One has no `DRAWN`, or of another form, or names a kind, a step or a fault that
            there is already.
    """
    require_apart(own)
    kinds: dict[str, OwnKind] = {}
    for part in own:
        drawn = part.values.get(DRAWN)
        place = part.place_of(DRAWN)
        if not isinstance(drawn, Mapping) or not drawn:
            raise k.UsageError(
                f"{place}: nothing of it is used: write {DRAWN} = {{'kind': (1.0, candidates)}}, "
                "where candidates(view, draw) yields steps"
            )
        for kind, value in drawn.items():
            match value:
                case (int() | float() as weight, candidates) if weight > 0 and callable(candidates):
                    pass
                case _:
                    raise k.UsageError(
                        f"{place}: {DRAWN}[{kind!r}] is {value!r}: it must be a weight above 0 and "
                        "a function of view and draw"
                    )
            if kind in STEP_KINDS or kind in kinds:
                raise k.UsageError(
                    f"{place}: there is a kind {kind!r} already: name yours otherwise"
                )
            kinds[kind] = OwnKind(weight=weight, candidates=candidates)
    return kinds


def mixes_not_drawn(release: Release, *, is_kraft: bool) -> Mapping[str, str]:
    """Return the mixes that are not drawn for a release, each with the reason."""
    why = {}
    if is_kraft:
        why["formats"] = "brokers ignore message formats there (KIP-724)"
    if older_release(release.text, is_kraft=is_kraft) is None:
        why[UPGRADES] = "it begins on the release line before, and none is known"
    return why


def check_mix(mix: str, release: str, *, is_kraft: bool) -> None:
    """Refuse an unknown mix, or one that has no form for this release and mode.

    Raises:
        UsageError: The message names those that there are.
    """
    if mix not in (*MIXES, *WALKED):
        raise k.UsageError(f"no mix named {mix!r}; known: {', '.join((*MIXES, *WALKED))}")
    if why := mixes_not_drawn(release_of(release), is_kraft=is_kraft).get(mix):
        where = " with KRaft" if is_kraft else ""
        raise k.UsageError(
            f"the mix {mix} is not for {release}{where}: {why}; take another, as mixed"
        )


def _cluster(
    random: Random, kafka: str, known: Release, mix: str, *, is_kraft: bool, count: int | None
) -> k.ClusterSpec:
    brokers = tuple(range(count or random.choice((LEAST_BROKERS, LEAST_BROKERS + 1))))
    settings = draw_settings(random)
    lag_ms = random.choice(_LAG_MS)
    first_broker = random.choice(brokers)
    has_folders = mix in SEVERAL_FOLDERS and not (is_kraft and known.number < SEVERAL_DIRECTORIES)
    spec = k.ClusterSpec(
        brokers=tuple(
            replace(broker, log_directories=2 if has_folders else 1)
            for broker in k.brokers_of(kafka, brokers)
        ),
        first_broker=None if is_kraft else first_broker,
        mode="kraft" if is_kraft else None,
        controllers=random.choice((1, 3)) if is_kraft else 1,
        properties={
            **_properties(settings, mix, known, is_kraft),
            "replica.lag.time.max.ms": lag_ms,
        },
    )
    changes = any(MIXES[mix][kind] for kind in OF_DYNAMIC_QUORUMS)
    if not (is_kraft and changes and known.number >= _DYNAMIC_QUORUMS):
        return spec
    # The others stay static, as most clusters have been set up.
    is_dynamic = random.random() < _DYNAMIC
    return replace(spec, features={KRAFT_VERSION: 1}, observers=1) if is_dynamic else spec


def _before_an_upgrade(cluster: k.ClusterSpec, release: str) -> k.ClusterSpec:
    """Return the cluster on the previous release line; rolls of brokers pin its protocol.

    A KRaft cluster keeps its feature levels by itself.
    """
    older = older_release(release, is_kraft=cluster.is_kraft)
    assert older is not None, release
    text = release_of(older).protocol_version
    pinned = {} if cluster.is_kraft else {PROTOCOL: text}
    if release_of(older).number < _RECORD_BATCHES:
        # Kafka refuses a message format that is newer than the protocol.
        pinned[BROKER_FORMAT] = text
    brokers = tuple(replace(broker, kafka=older) for broker in cluster.brokers)
    return replace(cluster, brokers=brokers, properties={**cluster.properties, **pinned})


def has_kraft(release: Release, mode: Mode | None) -> bool:
    """Return whether clusters of this release and mode have KRaft.

    Raises:
        ReleaseError: The release has no such mode.
    """
    spec = k.ClusterSpec(brokers=k.brokers_of(release.text), mode=mode)
    if why_not := mode_refused(spec, {broker.id: release for broker in spec.brokers}):
        raise k.ReleaseError(why_not)
    return spec.is_kraft


def _properties(
    settings: DrawnSettings, mix: str, known: Release, is_kraft: bool
) -> dict[str, str]:
    small = {**SMALL_LOGS}
    if small_segments(known.number):
        # Topics have them.
        del small["log.segment.bytes"]
    # With KRaft every broker asks its controller before it stops.
    return {
        **(QUICK_KRAFT if is_kraft else k.QUICK),
        **settings.properties(is_kraft=is_kraft),
        **(CONTROLLED_SHUTDOWN if mix == SHUTDOWNS and not is_kraft else {}),
        **(SEVERAL_FETCHERS if mix == THROTTLES else {}),
        **(small if mix == LOGS else {}),
    }


def view_of(scenario: k.Scenario, release: str = "") -> k.View:
    """Return the view at the start of a schedule."""
    return _view_of(scenario.cluster, scenario.release, release_of(release or scenario.release))


def _view_of(cluster: k.ClusterSpec, kafka: str, release: Release) -> k.View:
    brokers = tuple(broker.id for broker in cluster.brokers)
    kafkas = tuple(sorted({kafka, *(broker.kafka for broker in cluster.brokers)}))
    number = release.number
    first = cluster.first_broker
    # Where releases differ the older protocol is spoken, and nobody changes formats beside.
    is_mixed = len(kafkas) > 1
    has_folders = all(broker.log_directories > 1 for broker in cluster.brokers)
    return new_view(
        brokers,
        first_broker=brokers[0] if first is None else first,
        has_epochs=number >= (0, 11),
        outlives_disks=has_folders
        and number >= (SEVERAL_DIRECTORIES if cluster.is_kraft else (1, 0)),
        zookeepers=cluster.zookeepers,
        moves_replicas=number >= (1, 1) and has_folders,
        is_asked=number >= (2, 4) and not is_mixed,
        unclean=cluster.properties.get("unclean.leader.election.enable") == "true",
        formats=() if is_mixed or cluster.tiered else message_formats(number),
        kafkas=kafkas if is_mixed else (),
        asked=kafka if is_mixed else "",
        asked_protocol=release.protocol_version if is_mixed else "",
        asked_levels=_levels(release) if is_mixed and cluster.is_kraft else (),
        upgraded=frozenset(broker.id for broker in cluster.brokers if broker.kafka == kafka),
        quorum=cluster.controller_ids,
        voters=frozenset(cluster.first_voters if cluster.has_dynamic_quorum else ()),
    )


def _levels(release: Release) -> tuple[tuple[str, int], ...]:
    """Return what an upgrade raises: the metadata version, and no feature that is new."""
    return ((METADATA_VERSION, release.feature_levels[METADATA_VERSION]),)


def no_formats(mix: str, release: str) -> str:
    """Return why the mix `formats` changes no message format on a release, or ""."""
    number = release_of(release).number
    if mix != "formats" or message_formats(number):
        return ""
    why = (
        "there is no older one with leader epochs to go back from"
        if number < (0, 11)
        else "an older format stops replication there (KAFKA-7601, KIP-595)"
        if number < (3, 0)
        else "brokers ignore it there (KIP-724)"
    )
    return f"the mix formats changes no message format on {release}: {why}"


def played(act: k.Step, *, gated: bool) -> Iterator[k.Step]:
    """Yield an act with its gates; an act may be impossible, and a gate may not hold."""
    yield k.IfPossible(do=act)
    if gated and isinstance(act, k.Produce):
        if act.await_answer:
            yield k.IfPossible(do=k.AwaitLevel())
    elif gated and isinstance(act, k.Inject | k.Heal):
        yield k.AwaitQuiet()
        yield k.IfPossible(do=k.AwaitInSync())


@dataclass(slots=True)
class Drawing:
    """One schedule while it is drawn.

    Attributes:
        has_written: Whether the last act was a write.
        due: At which step each lasting fault is to be healed.
        own: Kinds that are not kchaos's.
        configuration: Of every topic.
        wanted: What is to come next, as far as it is legal then; None for any step.
        is_patient: Whether a fault acts as long as its kind may, since its end is wanted too.
    """

    random: Random
    view: k.View
    weights: Mapping[str, float]
    wide: Wide | None = None
    number: int = 0
    has_written: bool = False
    due: dict[str, int] = field(default_factory=dict)
    own: Mapping[str, OwnKind] = field(default_factory=dict)
    configuration: tuple[tuple[str, str], ...] = ()
    wanted: list[Candidates | None] = field(default_factory=list)
    is_patient: bool = False

    def first_topic(self) -> k.Step:
        """Create the first topic."""
        drawn = self._draw()
        step = k.CreateTopic(
            topic="t", assignment=drawn.assignment, configuration=drawn.configuration
        )
        self.view = after(self.view, step)
        return step

    def next_step(self) -> k.Step:
        """Draw the next act."""
        self.number += 1
        drawn = self._draw()
        step = self._first_records(drawn) or self._what_is_due() or self._what_is_wanted(drawn)
        if step is None:
            step = self._any(drawn)
            kinds = {kind for kind, weight in self.weights.items() if weight > 0}
            self.wanted = [*sequel(step, self.view, kinds), *self.wanted]
        self.view = after(self.view, step)
        self.has_written = isinstance(step, k.Produce)
        if isinstance(step, k.Inject):
            self._remember(step)
        return step

    def ends(self) -> Iterator[k.Step]:
        """Release holds inside brokers and deliver late requests, before all else is healed.

        What had nothing to hold is noted as not possible.
        """
        for name, fault in self.view.acting:
            if isinstance(fault, NeedsPoints | k.StaleRequest):
                yield k.IfPossible(do=k.Heal(name=name))

    def _first_records(self, drawn: k.Draw) -> k.Step | None:
        """Begin with acks=all, since a run without an acknowledged record cannot lose one."""
        if self.number > 1:
            return None
        return next(
            self._legal(
                "produce", replace(drawn, acks=-1, one_record_batches=False, await_answer=True)
            )
        )

    def _what_is_wanted(self, drawn: k.Draw) -> k.Step | None:
        """Return a step that is wanted now; what is not legal at its turn is left out."""
        while self.wanted and (candidates := self.wanted.pop(0)) is not None:
            steps = candidates(self.view, drawn)
            if legal := [step for step in steps if not refusal(self.view, step)]:
                return self.random.choice(legal)
        return None

    def _any(self, drawn: k.Draw) -> k.Step:
        possible = {kind: self._legal(kind, drawn) for kind in self._kinds()}
        eager = () if self.has_written else _WRITES
        weights = dict(self.weights)
        if self.wide is not None:
            weights |= {kind: weights[kind] * _SEIZED for kind in _SELDOM_POSSIBLE}
        step = drawn_move(self.random, possible, weights, eager=eager)
        assert step is not None, "what acts can be healed; where nothing does, a record is written"
        return step

    def _kinds(self) -> Iterator[str]:
        """Yield the drawn kinds in a fixed order."""
        for kind in (*STEP_KINDS, *self.own):
            # A consumer's record is compared with what was written, whose keys it does not know.
            is_unread = kind == "read" and self.wide is not None and self.wide.is_keyed
            if self.weights[kind] > 0 and not is_unread:
                yield kind

    def _legal(self, kind: str, drawn: k.Draw) -> Iterator[k.Step]:
        """Yield the legal steps of a kind in a fixed order."""
        own = self.own.get(kind)
        steps = (
            candidates_of(kind, self.view, drawn)
            if own is None
            else own.candidates(self.view, drawn)
        )
        return (step for step in steps if not refusal(self.view, step))

    def _what_is_due(self) -> k.Step | None:
        """Heal a fault whose time is over, or end a session without a sign of life."""
        acting = dict(self.view.acting)
        overdue = [name for name, at in self.due.items() if at <= self.number and name in acting]
        if not overdue:
            return None
        name, fault = overdue[0], acting[overdue[0]]
        if isinstance(fault, k.CutZooKeeper | k.CutControllers | k.PauseBroker) or (
            isinstance(fault, k.IsolateBroker) and fault.zookeeper
        ):
            kind = k.FenceBroker if self.view.quorum else k.ExpireSession
            session = kind(broker=fault.broker, await_return=False)
            end = k.Inject(name=f"expire-{self.number}", fault=session)
            if not refusal(self.view, end) and self.random.random() < _END_SESSION:
                self.due[name] = self.number + self.random.randint(*_LONGER)
                return end
        return k.Heal(name=name)

    def _remember(self, step: k.Inject) -> None:
        fault = step.fault
        if isinstance(fault, k.ExpireSession | k.FenceBroker) and not fault.await_return:
            for name, acting in self.view.acting if self.is_patient else ():
                if getattr(acting, "broker", None) == fault.broker and name in self.due:
                    self.due[name] = self.number + _LONGER[1]
            return
        if not fault.lasting:
            return
        shortest, longest = duration(fault)
        shortest = longest + 1 if self.is_patient else shortest
        if isinstance(fault, k.KillBroker | k.CutLink):
            # A broker that ends in a sequel starts again by a step of it; a cut lasts as long.
            shortest, longest = shortest + len(self.wanted), longest + len(self.wanted)
        self.due[step.name] = self.number + self.random.randint(shortest, max(shortest, longest))

    def _draw(self) -> k.Draw:
        records = self.random.choice((1, 1, 2, 3, 5))
        acks = self.random.choice((1, 1, -1))
        # With acks=all each request of them may take its whole time.
        one_by_one = self.random.random() < 0.3 and records > 1 and acks == 1
        drawn = k.Draw(
            number=self.number,
            records=records,
            acks=acks,
            one_record_batches=one_by_one,
            assignment=self._even([self._replicas() for _ in range(self.random.choice((1, 1, 2)))]),
            configuration=self.configuration,
        )
        return drawn if self.wide is None else self._widened(drawn, self.wide)

    def _widened(self, drawn: k.Draw, wide: Wide) -> k.Draw:
        """Widen writes and topic sizes for a schedule of the mix `rare`."""
        chance = self.random
        partitions = chance.choices((1, 2, 4, 10), (8, 6, 3, 1))[0]
        most = len(self.view.brokers)
        # With fewer replicas than must be in sync nobody can ever write with acks=all.
        least = int(wide.cluster.properties["min.insync.replicas"])
        assignment = [
            tuple(chance.sample(self.view.brokers, max(least, chance.choice((1, 2, 3, 3, most)))))
            for _ in range(partitions)
        ]
        is_tiered = wide.tiered and self.number == 0
        in_flight = chance.random() < _IN_FLIGHT
        is_compressed = chance.random() < _CODEC
        return replace(
            drawn,
            # A batch of few short records would grow by it, and is sent as it is.
            records=_COMPRESSED if is_compressed else drawn.records,
            assignment=self._even(assignment),
            configuration=tiered_configuration() if is_tiered else (),
            codec="gzip" if is_compressed else "none",
            keys="key" if wide.is_keyed and chance.random() < _KEYS else "",
            await_answer=not in_flight,
            one_record_batches=drawn.one_record_batches and not (in_flight or is_compressed),
        )

    def _even(self, drawn: Sequence[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
        # KRaft controllers refuse a topic whose partitions have more replicas and fewer.
        least = min(map(len, drawn)) if self.view.quorum else None
        return tuple(replicas[:least] for replicas in drawn)

    def _replicas(self) -> tuple[int, ...]:
        number = min(self.random.choice((2, 3, 3)), len(self.view.brokers))
        return tuple(self.random.sample(self.view.brokers, number))
