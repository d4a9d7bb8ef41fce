"""Kafka's documented procedure of an upgrade, as a scenario that is drawn from a seed.

With ZooKeeper new binaries go to one broker after the other while the old inter-broker protocol is
pinned; then the protocol is raised, then the message format where an old one was kept. With KRaft
new binaries go to the controllers and then to the brokers, and then feature levels are raised one
after the other. On the way back the old binaries return before protocol or levels are raised, or
with KRaft after levels were lowered again and snapshots stand for what an old binary cannot read.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Literal

import kchaos as k
from kchaos.checkers.acts import Mode
from kchaos.clusters.api import Stage
from kchaos.clusters.releases import KRAFT_VERSION, METADATA_VERSION, Release, release_of
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.clusters.spec import FIRST_CONTROLLER
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.play.workload import named_by
from kchaos.harness.player.candidates import step_weights_of, without
from kchaos.harness.player.drawing import LEAST_BROKERS, Drawing, check_mix, played
from kchaos.harness.player.free import FREE_MIXES, LEFT_OUT
from kchaos.harness.player.legal import after, refusal
from kchaos.harness.player.view import new_view
from kchaos.harness.run.own_settings import OwnSettings
from kchaos.harness.run.own_topics import OwnTopics, topic_on
from kchaos.harness.upgrades.pairs import (
    NO_WAY_BACK,
    require_dynamic_quorum,
    require_log_directories,
    require_playable,
    why_no_way_back,
    why_unsupported,
)

ENTRY = "upgrade"
BINARIES, PROTOCOL_PHASE, FORMAT, BACK = "binaries", "protocol", "format", "back"
CONTROLLERS, CONTROLLERS_BACK = "controllers", "controllers-back"
FEATURES, FEATURES_BACK, QUORUM = "features", "features-back", "quorum"
PROVISION, MIGRATION, KRAFT, FINALIZE = "provision", "migration", "kraft", "finalize"
KRAFT_BACK, DEPROVISION = "kraft-back", "deprovision"
WAYS_BACK = (PROVISION, MIGRATION, KRAFT)
"""The phases of a migration after which Kafka documents a way back."""
MIXES = (*FREE_MIXES, "disks", "topics")
"""The mixes of which faults may be drawn; the others need brokers that are set up for them."""
TOPIC = "t"
_BALANCED: Mapping[str, str] = {
    # Kafka's default, which scenarios leave off: the controller gives partitions back.
    "auto.leader.rebalance.enable": "true",
    # Kafka looks every 300 s. A roll here takes seconds and not minutes, so it looks more often.
    "leader.imbalance.check.interval.seconds": "15",
    "replica.lag.time.max.ms": "30000",
    "min.insync.replicas": "2",
}
PRODUCTION: Mapping[Mode, Mapping[str, str]] = {
    "zookeeper": {
        **k.QUICK,
        **_BALANCED,
        # Kafka's defaults, too: a broker hands its partitions over before it stops.
        "controlled.shutdown.enable": "true",
        "controlled.shutdown.max.retries": "3",
        "controlled.shutdown.retry.backoff.ms": "5000",
    },
    "kraft": {**QUICK_KRAFT, **_BALANCED},
}
"""Settings of brokers beside those that gates need."""
_OF_WORKLOADS = {"auto.create.topics.enable": "true", "default.replication.factor": "3"}
"""Topics that a command names are made."""
_SNAPSHOTS = {
    # Kafka makes a snapshot every hour, and kchaos none. A node of an older release needs one.
    "metadata.log.max.snapshot.interval.ms": "15000"
}
_FORMATS_IGNORED = (3, 0)
_LEADER_EPOCHS = _PRODUCER_IDS = (0, 11)
_ROLL_S = _SNAPSHOTS_S = 120.0
_WRITE_S = 10.0
_BACK_IN_SYNC_S = 60.0
_RECORDS = 5
RATE = 5.0
"""Records a second that clients write, all producers together."""
_HYBRID_LEFT_OUT = ("hold-metadata", "unregister")
"""Kinds left out while brokers are in migration mode: such a broker reads no metadata log."""
_FAULTS = (1, 3)
"""So many random acts come before each roll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgrade:
    """Plan of an upgrade.

    Attributes:
        older: The Kafka that the cluster runs at first: a release or a path.
        newer: The one that it goes to.
        older_release: The release of the first; a path has one too.
        newer_release: Likewise.
        back: Whether the old binaries return in the end.
        finalize: Whether feature levels are raised before they do, and lowered again.
        dynamic_quorum: Whether the static quorum becomes a dynamic one in the end (KIP-853).
        one_roll: Whether binaries and protocol change in one roll, which Kafka does not support.
        mix: Of which faults are drawn in each phase; "" for none.
        stepped: Whether clients write between the rolls alone, and not all the time.
        workload: A command of the user's own that runs beside it; empty for none.
        own: Settings of a file of the user's own, if any.
        own_topics: Topics of a file of the user's own; None for one of kchaos's.
        brokers: Their ids.
        racks: Over how many racks they are spread in turn; 0 for none.
        log_directories: How many each of them has.
        mode: Where the cluster keeps its metadata.
        controllers: How many KRaft controllers there are.
        migrates: Whether a cluster with ZooKeeper goes to KRaft, at one release.
        via: That release, if others come before or after; "" for one hop.
        back_from: The last phase of a migration before the way back; "" for no way back.
    """

    older: str
    newer: str
    older_release: str
    newer_release: str
    back: bool = False
    finalize: bool = False
    dynamic_quorum: bool = False
    one_roll: bool = False
    mix: str = ""
    stepped: bool = False
    workload: tuple[str, ...] = ()
    own: OwnSettings | None = None
    own_topics: OwnTopics | None = None
    brokers: tuple[int, ...] = tuple(range(LEAST_BROKERS))
    racks: int = 0
    log_directories: int = 1
    mode: Mode = "zookeeper"
    controllers: int = 1
    migrates: bool = False
    via: str = ""
    back_from: str = ""

    @property
    def is_kraft(self) -> bool:
        """Whether KRaft controllers keep the metadata."""
        return self.mode == "kraft"

    @property
    def hops(self) -> tuple["Upgrade", ...]:
        """The upgrades that Kafka documents one after the other, on one cluster."""
        if not self.via:
            return (self,)
        until = replace(self, newer=self.via, newer_release=self.via, via="", dynamic_quorum=False)
        then = replace(self, older=self.via, older_release=self.via, via="", migrates=False)
        hops = (
            replace(until, migrates=False, controllers=1),
            replace(until, older=self.via, older_release=self.via),
            replace(then, mode="kraft"),
        )
        return hops[self.older == self.via :]

    @property
    def quorum(self) -> tuple[int, ...]:
        """The node ids of the KRaft controllers."""
        count = self.controllers if self.is_kraft or self.migrates else 0
        return tuple(range(FIRST_CONTROLLER, FIRST_CONTROLLER + count))

    @property
    def topics(self) -> tuple[k.CreateTopic, ...]:
        """The topics to which clients write."""
        return self.own_topics.topics if self.own_topics else (topic_on(self.brokers, TOPIC),)

    @property
    def own_texts(self) -> list[str]:
        """What a reader has to know of the files of the user's own, in sentences."""
        return [text for own in (self.own, self.own_topics) if own for text in own.texts()]

    @property
    def names(self) -> tuple[str, str]:
        """The older and the newer one, for people."""
        own = " (a build of one's own)"
        return (
            self.older_release + own * (self.older != self.older_release),
            self.newer_release + own * (self.newer != self.newer_release),
        )

    @property
    def pair(self) -> str:
        """Both releases, for people."""
        if self.via:
            return f"{self.names[0]} with ZooKeeper to {self.names[1]} with KRaft"
        if self.migrates:
            return f"{self.names[0]} with ZooKeeper to KRaft"
        return " to ".join(self.names)

    @property
    def goes_back(self) -> bool:
        """Whether the cluster ends as it was at first."""
        return self.back or bool(self.back_from)

    @property
    def case(self) -> str:
        """The case of its scenarios: the pair, and what is unusual of the procedure."""
        words = [self.older_release, "to", self.newer_release]
        if self.via:
            words += ["zookeeper-to-kraft"]
        elif self.migrates:
            words = [self.older_release, "zookeeper-to-kraft"]
            words += [f"back-from-{self.back_from}"] * bool(self.back_from)
        words += ["build"] * (self.newer != self.newer_release)
        words += ["finalize"] * self.finalize + ["back"] * self.back
        words += ["dynamic-quorum"] * self.dynamic_quorum
        words += ["one-roll"] * self.one_roll + [self.mix] * bool(self.mix)
        words += ["stepped"] * self.stepped + ["kraft"] * self.is_kraft
        words += [f"{self.controllers}-controllers"] * (self.controllers > 1)
        words += [named_by(self.workload)] if self.workload else []
        words += [f"{len(self.brokers)}-brokers"] * (len(self.brokers) > LEAST_BROKERS)
        words += [f"{self.racks}-racks"] * bool(self.racks)
        words += [f"{self.log_directories}-log-directories"] * (self.log_directories > 1)
        words += [own.case for own in (self.own, self.own_topics) if own]
        return "-".join(words)

    @property
    def why_unsupported(self) -> str:
        """Why Kafka does not support it; "" if it does."""
        if self.via:
            return next((why for hop in self.hops if (why := hop.why_unsupported)), "")
        if self.migrates:
            return why_no_way_back(release_of(self.older_release)) if self.back_from else ""
        return why_unsupported(
            release_of(self.older_release),
            release_of(self.newer_release),
            back=self.back,
            finalize=self.finalize,
            one_roll=self.one_roll,
            mode=self.mode,
        )

    @property
    def lowers_levels(self) -> bool:
        """Whether feature levels of a KRaft cluster go down before older binaries start."""
        older, newer = release_of(self.older_release), release_of(self.newer_release)
        return self.is_kraft and (self.finalize or newer.number < older.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One roll of every broker or KRaft controller, or feature levels that change.

    Attributes:
        kafka: What each becomes; "" where only settings change.
        properties: What each is set to.
        title: What happens, for people.
        nodes: Brokers or controllers that are rolled.
        stage: The stage of a migration that each enters; "" where nothing migrates.
        before: Steps before the first roll.
        after: Steps after the last one, once everything is healed.
        levels: Feature levels, which are set one after the other.
        is_downgrade: Whether these are lower than before.
        mode: Where the cluster keeps its metadata when its rolls begin.
    """

    name: str
    title: str
    kafka: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    nodes: tuple[int, ...] = ()
    stage: Literal["", Stage] = ""
    before: tuple[k.Step, ...] = ()
    after: tuple[k.Step, ...] = ()
    levels: tuple[tuple[str, int], ...] = ()
    is_downgrade: bool = False
    mode: Mode = "zookeeper"


def require_upgrade(upgrade: Upgrade, *, unsupported: bool) -> None:
    """Refuse an unplayable upgrade, and one that Kafka does not support unless wanted.

    Raises:
        UsageError: The message says why, and what to do.
    """
    if upgrade.via and (upgrade.goes_back or upgrade.finalize or upgrade.one_roll):
        raise k.UsageError(
            f"{upgrade.pair} is {len(upgrade.hops)} hops, and --back, --back-from, --finalize "
            f"and --one-roll are of one: run that hop by itself, as --from {upgrade.via}"
        )
    for hop in upgrade.hops:
        _require_hop(hop, unsupported=unsupported)


def _require_hop(upgrade: Upgrade, *, unsupported: bool) -> None:
    older, newer = release_of(upgrade.older_release), release_of(upgrade.newer_release)
    require_playable(older, newer, upgrade.mode)
    if upgrade.migrates:
        _require_migration(upgrade)
    elif upgrade.back_from:
        raise k.UsageError("--back-from is for --migrate: it names a phase of the migration")
    elif upgrade.older == upgrade.newer:
        raise k.UsageError(f"from and to are both {upgrade.older}: there is nothing to upgrade")
    if upgrade.mix:
        _require_mix(upgrade.mix, older, is_kraft=upgrade.is_kraft)
    if upgrade.one_roll and upgrade.is_kraft:
        raise k.UsageError(
            "--one-roll is for clusters with ZooKeeper: with KRaft feature levels change by "
            "kafka-features, and never by a roll (KIP-778)"
        )
    if upgrade.finalize and not (upgrade.back and upgrade.is_kraft):
        raise k.UsageError(
            "--finalize is for --back with KRaft: there levels can be lowered, and otherwise what "
            "is new is raised anyway"
        )
    _require_nodes(upgrade, older, newer)
    if upgrade.back and newer.number < older.number:
        raise k.UsageError("--back is for upgrades: from a newer release to an older one it is all")
    if upgrade.one_roll and older.line == newer.line:
        raise k.UsageError(
            f"{older.text} and {newer.text} speak the same protocol: one roll is all there is"
        )
    if not unsupported and (why := upgrade.why_unsupported):
        raise k.UsageError(
            f"Kafka does not support this: {why}. --unsupported runs it all the same"
        )


def _require_nodes(upgrade: Upgrade, older: Release, newer: Release) -> None:
    """Refuse controllers, a quorum or log directories that clusters of these releases have not."""
    if upgrade.log_directories > 1:
        require_log_directories(older, is_kraft=upgrade.is_kraft or upgrade.migrates)
    if upgrade.dynamic_quorum:
        require_dynamic_quorum(older, newer, upgrade.mode, goes_back=upgrade.back)
    if upgrade.controllers > 1 and not upgrade.quorum:
        raise k.UsageError("--controllers is for clusters with KRaft: say --mode kraft as well")


def _require_mix(mix: str, older: Release, *, is_kraft: bool) -> None:
    if mix not in MIXES:
        raise k.UsageError(
            f"faults of the mix {mix!r} are left out of upgrades; known: {', '.join(MIXES)}"
        )
    check_mix(mix, older.text, is_kraft=is_kraft)


def _require_migration(upgrade: Upgrade) -> None:
    """Refuse what the procedure of a migration has not, and a way back from its end.

    Raises:
        UsageError: The message says why.
    """
    if upgrade.older != upgrade.newer:
        raise k.UsageError(
            "--migrate goes without --to-build: a cluster keeps its binaries meanwhile"
        )
    if upgrade.is_kraft or upgrade.one_roll:
        raise k.UsageError(
            "--migrate is from ZooKeeper: it goes without --mode kraft and --one-roll"
        )
    if upgrade.back_from == FINALIZE or upgrade.finalize:
        raise k.UsageError(f"there is no way back: {NO_WAY_BACK}; known are {', '.join(WAYS_BACK)}")
    if upgrade.back:
        raise k.UsageError(
            "--back is for binaries: --back-from says after which phase of a migration a cluster "
            f"goes back ({', '.join(WAYS_BACK)})"
        )


def phases(upgrade: Upgrade) -> tuple[Phase, ...]:
    """Return the rolls of an upgrade, and changes of its feature levels, in order."""
    if upgrade.via:
        return tuple(
            replace(phase, name=phase.name if hop.migrates else f"{phase.name}-{hop.newer_release}")
            for hop in upgrade.hops
            for phase in phases(hop)
        )
    older, newer = release_of(upgrade.older_release), release_of(upgrade.newer_release)
    if upgrade.migrates:
        return _phases_of_migration(upgrade)
    if upgrade.is_kraft:
        return _phases_with_kraft(upgrade, older, newer)
    was, becomes = older.protocol_version, newer.protocol_version
    name = f"the binaries become {newer.text}"
    of_brokers = partial(Phase, nodes=upgrade.brokers)
    if older.line == newer.line or newer.number < older.number or upgrade.one_roll:
        title = name + f", and speak protocol {becomes} at once" * upgrade.one_roll
        binaries = of_brokers(name=BINARIES, title=title, kafka=upgrade.newer)
        return (binaries, *_way_back(upgrade, older.text))
    keeps_format = older.number < _LEADER_EPOCHS
    pinned = [(PROTOCOL, was), *([(BROKER_FORMAT, was)] if keeps_format else [])]
    title = f"{name}, at protocol {was}" + (f" and message format {was}" if keeps_format else "")
    binaries = of_brokers(name=BINARIES, title=title, kafka=upgrade.newer, properties=tuple(pinned))
    if upgrade.back:
        return (binaries, *_way_back(upgrade, older.text))
    # From protocol 3.0 on the format is ignored, and is to be cleared together with the protocol.
    with_protocol = keeps_format and newer.number >= _FORMATS_IGNORED
    raised = [(PROTOCOL, becomes), *([(BROKER_FORMAT, becomes)] if with_protocol else [])]
    protocol = of_brokers(
        name=PROTOCOL_PHASE, title=f"the protocol becomes {becomes}", properties=tuple(raised)
    )
    title = f"the message format becomes {becomes}"
    formats = of_brokers(name=FORMAT, title=title, properties=((BROKER_FORMAT, becomes),))
    return (binaries, protocol, *[formats] * (keeps_format and not with_protocol))


def _phases_of_migration(upgrade: Upgrade) -> tuple[Phase, ...]:
    """Return the phases of a migration to KRaft, and its way back if there is to be one."""
    of_brokers = partial(Phase, nodes=upgrade.brokers)
    reached = partial(k.AwaitMigration, timeout_s=_ROLL_S)
    title = "KRaft controllers start in migration mode"
    provision = Phase(name=PROVISION, title=title, before=(k.ProvisionControllers(),))
    title = "the brokers enter migration mode, and metadata go to both logs"
    after = (reached(state="migration"),)
    migration = of_brokers(name=MIGRATION, title=title, stage="migration", after=after)
    title = "the brokers use KRaft alone"
    kraft = of_brokers(name=KRAFT, title=title, stage="kraft", mode="kraft")
    finalize = Phase(
        name=FINALIZE,
        title="the controllers leave migration mode",
        nodes=upgrade.quorum,
        stage="kraft",
        mode="kraft",
        after=(reached(state="post-migration"),),
    )
    title = "the brokers are in migration mode with ZooKeeper again"
    kraft_back = of_brokers(name=KRAFT_BACK, title=title, stage="migration", mode="kraft")
    title = "the controllers stop, and a broker becomes the controller"
    before = (k.DeprovisionControllers(timeout_s=_ROLL_S),)
    deprovision = Phase(name=DEPROVISION, title=title, before=before)
    back = of_brokers(name=BACK, title="the brokers leave migration mode", stage="zookeeper")
    return {
        PROVISION: (provision, deprovision),
        MIGRATION: (provision, migration, deprovision, back),
        KRAFT: (provision, migration, kraft, kraft_back, deprovision, back),
        "": (provision, migration, kraft, finalize),
    }[upgrade.back_from]


def _phases_with_kraft(upgrade: Upgrade, older: Release, newer: Release) -> tuple[Phase, ...]:
    """Return controllers, brokers and levels; all the other way round for a downgrade."""
    becomes = f"binaries become {newer.text}"
    rolls = (
        Phase(
            name=CONTROLLERS,
            title=f"the controllers' {becomes}",
            kafka=upgrade.newer,
            nodes=upgrade.quorum,
        ),
        Phase(
            name=BINARIES,
            title=f"the brokers' {becomes}",
            kafka=upgrade.newer,
            nodes=upgrade.brokers,
        ),
    )
    features = _features(FEATURES, older, newer)
    order = (features, *reversed(rolls)) if newer.number < older.number else (*rolls, features)
    if upgrade.back:
        raised = (features, _features(FEATURES_BACK, newer, older)) if upgrade.finalize else ()
        order = (*rolls, *raised, *_way_back(upgrade, older.text))
    if upgrade.dynamic_quorum:
        title = "the static quorum becomes dynamic, and the metadata log says who votes"
        order += (Phase(name=QUORUM, title=title, levels=((KRAFT_VERSION, 1),)),)
    return tuple(replace(phase, mode="kraft") for phase in order if phase.nodes or phase.levels)


def _features(name: str, older: Release, newer: Release) -> Phase:
    """Return the change of feature levels from one release's to another's, which may be lower."""
    is_downgrade = newer.number < older.number
    then = "and each node writes a snapshot" if is_downgrade else "one after the other"
    return Phase(
        name=name,
        title=f"feature levels become those of {newer.line.line}, {then}",
        nodes=(),
        levels=levels_between(older, newer),
        is_downgrade=is_downgrade,
    )


def levels_between(older: Release, newer: Release) -> tuple[tuple[str, int], ...]:
    """Return the feature levels that differ, as `kafka-features --release-version` gives them.

    The metadata version is raised first and lowered last, since the others depend on it.
    kraft.version is left out: it makes a static quorum dynamic (KAFKA-21426), which has a phase of
    its own where it is wanted.
    """
    names = sorted({*older.feature_levels, *newer.feature_levels} - {METADATA_VERSION})
    levels = [
        (name, newer.feature_levels.get(name, 0))
        for name in (METADATA_VERSION, *names)
        if newer.feature_levels.get(name, 0) != older.feature_levels.get(name, 0)
    ]
    return tuple(levels if older.number < newer.number else reversed(levels))


def _way_back(upgrade: Upgrade, older: str) -> tuple[Phase, ...]:
    if not upgrade.back:
        return ()
    whose = "brokers' " if upgrade.is_kraft else ""
    back = Phase(
        name=BACK,
        title=f"the {whose}binaries are {older} again",
        kafka=upgrade.older,
        nodes=upgrade.brokers,
    )
    title = f"the controllers' binaries are {older} again"
    controllers = Phase(
        name=CONTROLLERS_BACK, title=title, kafka=upgrade.older, nodes=upgrade.quorum
    )
    return (back, controllers) if upgrade.is_kraft else (back,)


def draw_upgrade(seed: int, upgrade: Upgrade) -> k.Scenario:
    """Draw an upgrade's scenario: the orders, the controller's place and the faults."""
    random = Random(seed)
    first_broker = random.choice(upgrade.brokers)
    rolls = _Rolls(random=random, upgrade=upgrade, first_broker=first_broker)
    return k.Scenario(
        entry=ENTRY,
        case=upgrade.case,
        title=f"upgrade from {upgrade.pair}{_variation(upgrade)}, seed {seed}",
        release=upgrade.older,
        cluster=k.ClusterSpec(
            brokers=tuple(_broker(upgrade, number) for number in range(len(upgrade.brokers))),
            first_broker=None if upgrade.is_kraft else first_broker,
            client_links=not upgrade.stepped or bool(upgrade.workload),
            mode="kraft" if upgrade.is_kraft else None,
            migrates=upgrade.migrates,
            controllers=upgrade.controllers,
            properties=settings_of(upgrade),
        ),
        steps=tuple(rolls.steps()),
        seed=seed,
    )


def _broker(upgrade: Upgrade, number: int) -> k.BrokerSpec:
    rack = {"broker.rack": f"rack-{number % upgrade.racks}"} if upgrade.racks else {}
    return k.BrokerSpec(
        id=upgrade.brokers[number],
        kafka=upgrade.older,
        properties=rack,
        log_directories=upgrade.log_directories,
    )


def settings_of(upgrade: Upgrade) -> Mapping[str, str]:
    """Return the settings of brokers and controllers beside those that gates need."""
    return {
        **PRODUCTION[upgrade.mode],
        **(_OF_WORKLOADS if upgrade.workload else {}),
        **dict(upgrade.own.taken if upgrade.own else ()),
        **(_SNAPSHOTS if upgrade.lowers_levels else {}),
    }


def _variation(upgrade: Upgrade) -> str:
    parts = [", finalized"] * upgrade.finalize + [", and back"] * upgrade.back
    parts += [", in one roll"] * upgrade.one_roll
    parts += [", with writes between the rolls"] * upgrade.stepped
    parts += [f", beside {shlex.join(upgrade.workload)}"] * bool(upgrade.workload)
    return "".join(parts) + (f", with faults ({upgrade.mix})" if upgrade.mix else "")


def _weights(upgrade: Upgrade, phase: Phase) -> Mapping[str, float]:
    """Return the weight of each kind of act in a phase of an upgrade."""
    left_out: tuple[str, ...] = () if upgrade.stepped else LEFT_OUT
    left_out += _HYBRID_LEFT_OUT if phase.name in (KRAFT, KRAFT_BACK) else ()
    is_kraft = phase.mode == "kraft"
    weights = step_weights_of(upgrade.mix, is_kraft=is_kraft) if upgrade.mix else {}
    return without(weights, left_out)


class _Rolls:
    """The steps of one upgrade while they are drawn."""

    def __init__(self, *, random: Random, upgrade: Upgrade, first_broker: int) -> None:
        self._random = random
        self._upgrade = upgrade
        older = release_of(upgrade.older_release)
        self._writes = 0
        self._idempotent = 1 if older.number >= _PRODUCER_IDS else 0
        self._drawing = Drawing(
            random=random,
            view=new_view(
                upgrade.brokers,
                first_broker=first_broker,
                has_epochs=older.number >= _LEADER_EPOCHS,
                unclean=settings_of(upgrade).get("unclean.leader.election.enable") == "true",
            ),
            weights={},
        )

    def steps(self) -> Iterator[k.Step]:
        """Yield all steps."""
        yield from map(self._done, self._upgrade.topics)
        if self._upgrade.stepped:
            yield from self._write()
        else:
            yield from map(self._start_clients, self._upgrade.topics)
        if self._upgrade.workload:
            yield k.StartWorkload(command=self._upgrade.workload)
        for phase in phases(self._upgrade):
            yield k.Tell(text=f"{phase.name}: {phase.title}")
            yield from phase.before
            self._enter(phase)
            order = self._random.sample(phase.nodes, len(phase.nodes))
            for node in order:
                yield from self._act(
                    k.RollBroker(
                        broker=node,
                        kafka=phase.kafka,
                        properties=phase.properties,
                        stage=phase.stage,
                        timeout_s=_ROLL_S,
                    ),
                    name=f"{phase.name}-{node}",
                    then=phase.after if node == order[-1] else (),
                )
            for level in phase.levels:
                features = k.UpdateFeatures(levels=(level,), downgrade=phase.is_downgrade)
                yield from self._act(features, name=f"{phase.name}-{level[0]}")
            if phase.before:
                yield k.IfPossible(do=k.AwaitInSync(timeout_s=_BACK_IN_SYNC_S))
            if phase.is_downgrade:
                yield k.AwaitMetadataSnapshots(timeout_s=_SNAPSHOTS_S)
        if self._upgrade.workload:
            yield k.StopClients(name="workload")
        if not self._upgrade.stepped:
            yield from (k.StopClients(name=_clients_of(topic)) for topic in self._upgrade.topics)

    def _act(
        self, fault: k.RollBroker | k.UpdateFeatures, *, name: str, then: Sequence[k.Step] = ()
    ) -> Iterator[k.Step]:
        """Yield faults before a roll or a new level, writes meanwhile, and the way into the ISR.

        `then` are steps once everything is healed: a migration waits for every broker.
        """
        if self._upgrade.mix:
            for _ in range(self._random.randint(*_FAULTS)):
                act = self._drawing.next_step()
                # The first act of all writes, which clients may do already.
                if self._upgrade.stepped or not isinstance(act, k.Produce):
                    yield from played(act, gated=True)
            yield from self._heal_until_possible(fault)
        if self._upgrade.stepped:
            yield from self._under_way()
        yield self._done(k.Inject(name=name, fault=fault))
        if self._upgrade.stepped:
            yield from self._answered()
        for name in self._to_heal():
            yield k.IfPossible(do=self._done(k.Heal(name=name)))
        yield from then
        yield k.IfPossible(do=k.AwaitInSync(timeout_s=_BACK_IN_SYNC_S))
        if self._upgrade.stepped:
            yield from self._write()

    def _enter(self, phase: Phase) -> None:
        """Draw the faults of a phase, of the mode that decides before its rolls."""
        drawing, quorum = self._drawing, self._upgrade.quorum if phase.mode == "kraft" else ()
        # What is to follow a step is of the phase's kinds.
        drawing.weights, drawing.wanted = _weights(self._upgrade, phase), []
        if bool(quorum) != bool(drawing.view.quorum):
            # After a way back any broker may be the controller.
            controllers = frozenset(() if quorum else self._upgrade.brokers)
            drawing.view = replace(drawing.view, quorum=quorum, controllers=controllers)

    def _start_clients(self, topic: k.CreateTopic) -> k.Step:
        # A group's offsets are records of an internal topic, which the model is not told of.
        return k.StartClients(
            name=_clients_of(topic),
            topic=topic.topic,
            partitions=len(topic.assignment),
            idempotent=self._idempotent,
            in_group=0,
            rate=RATE / len(self._upgrade.topics),
        )

    def _heal_until_possible(self, act: k.RollBroker | k.UpdateFeatures) -> Iterator[k.Step]:
        """Heal faults while they prevent a clean stop and a return, or a controller is away."""
        while self._drawing.view.acting and self._is_prevented(act):
            yield k.IfPossible(do=self._done(k.Heal(name=self._to_heal()[0])))
            yield k.IfPossible(do=k.AwaitInSync())

    def _to_heal(self) -> list[str]:
        """Return what acts: holds first, since behind them no broker returns; then the oldest."""
        acting = self._drawing.view.acting
        return [
            name
            for name, _ in sorted(acting, key=lambda each: not isinstance(each[1], k.HoldRequests))
        ]

    def _is_prevented(self, act: k.RollBroker | k.UpdateFeatures) -> bool:
        view = self._drawing.view
        if isinstance(act, k.UpdateFeatures) or act.broker in view.quorum:
            # Whoever raises levels, or rolls a controller, sees to it that all of them are there.
            return any(getattr(fault, "broker", None) in view.quorum for _, fault in view.acting)
        # A pause asks for a broker that can stop cleanly, and that hears and is heard afterwards.
        return bool(refusal(view, k.Inject(name="roll", fault=k.PauseBroker(broker=act.broker))))

    def _done(self, step: k.Step) -> k.Step:
        self._drawing.view = after(self._drawing.view, step)
        return step

    def _under_way(self) -> Iterator[k.Step]:
        """Start writes whose responses a later step awaits."""
        self._writes += 1
        for produce in self._produces(await_answer=False):
            yield k.IfPossible(do=produce)

    def _answered(self) -> Iterator[k.Step]:
        for produce in self._produces(await_answer=False):
            yield k.IfPossible(do=k.AwaitAnswer(operation=produce.operation, accept_error=True))

    def _write(self) -> Iterator[k.Step]:
        self._writes += 1
        for produce in self._produces(await_answer=True):
            yield k.IfPossible(do=produce)
        yield k.IfPossible(do=k.AwaitLevel())

    def _produces(self, *, await_answer: bool) -> Iterator[k.Produce]:
        """Yield a write to each partition."""
        for topic in self._upgrade.topics:
            for partition in range(len(topic.assignment)):
                yield k.Produce(
                    operation=f"w{self._writes}-{topic.topic}-{partition}",
                    topic=topic.topic,
                    partition=partition,
                    records=_RECORDS,
                    acks=-1,
                    await_answer=await_answer,
                    accept_error=True,
                    timeout_s=_WRITE_S,
                )


def _clients_of(topic: k.CreateTopic) -> str:
    return f"clients-{topic.topic}"
