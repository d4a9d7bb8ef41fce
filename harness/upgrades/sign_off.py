"""Sign-off of an upgrade from its runs: each phase as it went, and the answer."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kchaos.checkers.availability import Availability
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.about import marked
from kchaos.checkers.evidence.observed import Observed, lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    ControllerElected,
    FeatureLevelSet,
    PartitionState,
)
from kchaos.checkers.observations import Act, Injected, StepBegun, StepNotPossible
from kchaos.checkers.results import Results
from kchaos.checkers.run_directory import REPORT, RunDirectory
from kchaos.checkers.verdict import MIGRATION_NOT_FOLLOWED
from kchaos.clusters.releases import KRAFT_VERSION, release_of
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.harness.report.cause.causes import cause_of_run
from kchaos.harness.report.loading import load
from kchaos.harness.upgrades.procedure import ENTRY, Phase, Upgrade, phases

GREEN, SAFE, RED, UNKNOWN = "green", "safe", "red", "unknown"
BEFORE, ENDING = "before", "settling"
_LOST = ("committed-loss", "last-replica-loss", "permitted-loss")
_ROLL, _LEVEL = "RollBroker", "UpdateFeatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAt:
    """One broker at one time.

    Attributes:
        release: With the digest's first digits, if it is a build of somebody's own.
        protocol: The inter-broker protocol that it speaks; "" with KRaft.
        message_format: The one that it was told to write; "" for that of its protocol.
        czxid: Its generation (KIP-380), with KRaft its broker epoch; None where nobody saw it.
        stage: That of a migration in which it is; "" where nothing migrates.
    """

    release: str
    protocol: str = ""
    message_format: str = ""
    czxid: int | None = None
    stage: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """One broker or KRaft controller was rolled, or a feature level changed.

    Attributes:
        broker: Whoever was rolled; None for a feature level.
        began: Seconds since the run began; `ended` likewise.
        was_controller: Whether it held that office when its roll began.
        brokers: All of them after it.
        levels: The feature levels after it, by the metadata log; none with ZooKeeper.
    """

    broker: int | None
    began: float
    ended: float
    was_controller: bool
    brokers: Mapping[int, BrokerAt]
    levels: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOfRun:
    """One phase of one run.

    Attributes:
        name: Of the procedure's phase, or `BEFORE` it, or `ENDING` after it.
        began: Seconds since the run began; `ended` likewise.
        promised: Records that were acknowledged with acks=all, or that a consumer got.
        refused: Writes that were answered with an error, or not at all.
        leader_moves: How often a partition got another leader, or lost the one that it had.
        without_leader_s: Seconds in which some partition had no leader that ran; None if nobody
            measured it.
        without_write_s: Seconds in which clients tried to write to some partition with acks=all
            and nothing was acknowledged; None if nobody could see.
        generations: By broker the czxids of its registrations in this phase.
        faults: What acted beside the rolls, in order.
        not_possible: Steps that turned out to be impossible, or whose gate never held.
    """

    name: str
    title: str
    began: float
    ended: float
    rolls: Sequence[Rolled]
    promised: int
    refused: int
    leader_moves: int
    without_leader_s: float | None
    without_write_s: float | None
    generations: Mapping[int, Sequence[int]]
    faults: Sequence[str]
    not_possible: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOfUpgrade:
    """One run.

    Attributes:
        conforms: True, False, or None for unknown; likewise `safe`.
        unknown: Why something is unknown, or "".
        not_judged: Why conformance of such a cluster is never judged, or "".
        promised: Records that were promised; `lost` those of them that are gone.
        availability: For how long there was no service; empty if nobody measured it.
        cause: What led to the worst safety finding, in sentences; empty for a run without any.
        stood_still: For how long of it the machine let nothing run, in words, or "".
        replay: The command that plays it again.
        report: Where its page is.
    """

    name: str
    place: Path
    seed: int
    conforms: bool | None
    safe: bool | None
    unknown: str
    findings: Sequence[Finding]
    phases: Sequence[PhaseOfRun]
    promised: int
    lost: int
    availability: Availability
    cause: Sequence[str]
    seconds: float | None
    stood_still: str
    replay: str
    report: Path | None
    not_judged: str = ""

    @property
    def answer(self) -> str:
        """Green if it conforms, is safe and went all the way; red if it does not, or is not.

        Safe, and not green, if all is so but conformance, which is never judged there.
        """
        if self.safe is False or self.conforms is False:
            return RED
        if self.not_judged and self.safe and not self.unknown:
            return SAFE
        return UNKNOWN if self.unknown or self.safe is None or self.conforms is None else GREEN

    @property
    def why(self) -> str:
        """Reason of a red or unknown answer; "" of a green one."""
        if self.answer == RED:
            kinds = sorted({finding.kind for finding in self.findings})
            return f"by {', '.join(kinds) or 'what the model predicts'}"
        return self.unknown

    @property
    def kept(self) -> int | None:
        """Of the promised records those that are there; None where safety is unknown."""
        return None if self.safe is None else self.promised - self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class SignOff:
    """Runs of one upgrade.

    Attributes:
        wanted: How many runs there are to be.
        command: Plays all of them again.
        gained: Rules of replication that only the newer release has; `missing` only the older one.
        notes: What Kafka's own upgrade notes say of the releases in between.
        digests: By Kafka, the SHA-256 of its own jar, or where a build lies with its digest.
    """

    upgrade: Upgrade
    runs: Sequence[RunOfUpgrade]
    wanted: int
    command: str = ""
    gained: Sequence[str] = ()
    missing: Sequence[str] = ()
    notes: Sequence[str] = ()
    digests: Mapping[str, str] = field(default_factory=dict)

    @property
    def answer(self) -> str:
        """Red if a run is, else unknown if one is or runs are missing, else safe, else green."""
        answers = {run.answer for run in self.runs}
        if RED in answers:
            return RED
        is_open = UNKNOWN in answers or not self.runs or len(self.runs) < self.wanted
        if is_open:
            return UNKNOWN
        return SAFE if SAFE in answers else GREEN

    @property
    def procedure(self) -> tuple[Phase, ...]:
        """The phases that were to be played."""
        return phases(self.upgrade)

    def count(self, answer: str) -> int:
        """Return the number of runs with this answer."""
        return sum(run.answer == answer for run in self.runs)


def run_of(path: Path, upgrade: Upgrade) -> RunOfUpgrade:
    """Return one run, unknown if any of it is unreadable."""
    loaded = load(RunDirectory.open(path))
    evidence, results = loaded.evidence, loaded.results
    unknown, not_judged, run_phases = "", "", []
    cause: tuple[str, ...] = ()
    try:
        cause = tuple(step.text for step in cause_of_run(loaded))
        measured = None if results is None else results.availability
        run_phases = list(_phases(evidence, upgrade, measured))
        unknown = _unfinished(evidence, upgrade, run_phases)
    except CheckError as error:
        unknown = f"it cannot be read: {error}"
    if results is None:
        unknown = "nobody judged it: kchaos judge"
    elif results.safe and results.unknown == MIGRATION_NOT_FOLLOWED:
        not_judged = MIGRATION_NOT_FOLLOWED
    elif results.safe is None or results.conforms is None:
        unknown = str(results.unknown or results.reason or "the judgement gives no reason")
    return RunOfUpgrade(
        name=loaded.run.name or path.name,
        place=path,
        seed=loaded.run.seed,
        conforms=None if results is None else results.conforms,
        safe=None if results is None else results.safe,
        unknown=unknown,
        findings=_findings(results),
        phases=run_phases,
        promised=sum(phase.promised for phase in run_phases),
        lost=_lost(results),
        availability=(None if results is None else results.availability) or Availability(),
        cause=cause,
        seconds=None if results is None else results.seconds,
        stood_still="" if results is None else results.stood_still,
        replay=loaded.run.replay,
        report=path / REPORT if (path / REPORT).is_file() else None,
        not_judged=not_judged,
    )


def _findings(results: Results | None) -> list[Finding]:
    """Return the findings about safety, and those about conformance if it is known.

    A model that gave up predicts nothing of the rest: what it does not know is no finding.
    """
    if results is None:
        return []
    questions = {Question.SAFETY} | ({Question.CONFORMANCE} if results.conforms is False else set())
    return [finding for finding in results.findings if finding.question in questions]


def _lost(results: Results | None) -> int:
    """Return the number of lost promised records, counting each offset of a partition once."""
    offsets = {
        (finding.topic, finding.partition, offset)
        for finding in _findings(results)
        if finding.kind in _LOST
        for offset in range(finding.first_offset, finding.last_offset + 1)
    }
    return len(offsets)


def _unfinished(evidence: RunEvidence, upgrade: Upgrade, run_phases: Sequence[PhaseOfRun]) -> str:
    """Return why the run did not complete the upgrade, whatever its verdict, or ""."""
    if evidence.scenario.entry != ENTRY or evidence.scenario.case != upgrade.case:
        return f"it is no run of {upgrade.pair}"
    rolls = {phase.name: phase.rolls for phase in run_phases}
    for phase in phases(upgrade):
        done = rolls.get(phase.name, ())
        if missing := sorted({*phase.nodes} - {roll.broker for roll in done}):
            return f"in the phase {phase.name} the brokers {missing} were not rolled"
        levels = dict(done[-1].levels) if done else {}
        if unset := [name for name, level in phase.levels if levels.get(name, 0) != level]:
            return f"in the phase {phase.name} the levels of {', '.join(unset)} were not set"
    # A level may be set between two writes.
    rolled = [phase for phase in run_phases if any(r.broker is not None for r in phase.rolls)]
    silent = [phase.name for phase in rolled if not phase.promised]
    return f"nothing was promised to a client in the phase {silent[0]}" if silent else ""


def _phases(
    evidence: RunEvidence, upgrade: Upgrade, measured: Availability | None
) -> Iterator[PhaseOfRun]:
    """Yield the time before the first roll, each phase, and settling."""
    sees_leaders = measured is not None and bool(measured.partitions)
    sees_writes = measured is not None and any(
        partition.without_acknowledged_write_s is not None for partition in measured.partitions
    )
    started = evidence.description.started_at or 0.0
    names = {f"{phase.name}: {phase.title}": phase for phase in phases(upgrade)}
    begins = [(BEFORE, "the cluster as it was", started)]
    for line, _ in lines_of(evidence.observed, StepBegun):
        steps = evidence.scenario.steps
        text = str(steps[line.step].get("text")) if line.step < len(steps) else ""
        if text in names:
            begins.append((names[text].name, names[text].title, line.time))
    last = max((seen.time for seen in evidence.observed), default=started)
    stepped = [seen.time for seen in evidence.observed if seen.step < len(evidence.scenario.steps)]
    begins.append((ENDING, "everything is healed, and replicas settle", max([started, *stepped])))
    brokers = _first(evidence, upgrade)
    for number, (name, title, began) in enumerate(begins):
        ended = begins[number + 1][2] if number + 1 < len(begins) else last
        within = [seen for seen in evidence.observed if began <= seen.time < ended]
        injected = [*lines_of(within, Injected)]
        rolls = []
        for seen, fault in injected:
            if fault.fault in (_ROLL, _LEVEL):
                rolls.append(_rolled(evidence, seen, fault.effect, brokers, started))
                brokers = dict(rolls[-1].brokers)
        yield PhaseOfRun(
            name=name,
            title=title,
            began=round(began - started, 1),
            ended=round(ended - started, 1),
            rolls=rolls,
            promised=_promised(evidence, began, ended),
            refused=_refused(evidence, began, ended),
            leader_moves=_leader_moves(evidence, began, ended),
            without_leader_s=measured.seconds_between("no-leader", began, ended)
            if measured is not None and sees_leaders
            else None,
            without_write_s=measured.seconds_between("no-acknowledged-write", began, ended)
            if measured is not None and sees_writes
            else None,
            generations=_generations(evidence, began, ended),
            faults=[
                f"{fault.fault} {fault.name}"
                for _, fault in injected
                if fault.fault not in (_ROLL, _LEVEL)
            ],
            not_possible=len([*lines_of(within, StepNotPossible)]),
        )


def _first(evidence: RunEvidence, upgrade: Upgrade) -> dict[int, BrokerAt]:
    """Return the brokers' state when the run began."""
    cluster = evidence.scenario.cluster
    first = {}
    for broker in cluster.brokers:
        ran = evidence.description.brokers.get(broker.id)
        release = upgrade.older_release if ran is None else ran.release
        build = "" if ran is None else ran.build
        first[broker.id] = _at(release, build, cluster.properties_of(broker), None)
    if not upgrade.is_kraft:
        return first
    controllers = dict.fromkeys(upgrade.quorum, BrokerAt(release=upgrade.older_release))
    return {id_: replace(at, protocol="") for id_, at in first.items()} | controllers


def _rolled(
    evidence: RunEvidence,
    seen: Observed,
    effect: Mapping[str, Any],
    brokers: Mapping[int, BrokerAt],
    started: float,
) -> Rolled:
    others = {
        other: replace(at, czxid=_czxid(evidence, other, seen.time))
        for other, at in brokers.items()
    }
    # The level of kraft.version is a control record and no decision.
    named = {KRAFT_VERSION: int(dict(effect.get("levels", {})).get(KRAFT_VERSION, 0))}
    levels = _levels(evidence, seen.time) | (named if named[KRAFT_VERSION] else {})
    ended = round(seen.time - started, 1)
    if "broker" not in effect:
        return Rolled(
            broker=None,
            began=round(_begun(evidence, seen) - started, 1),
            ended=ended,
            was_controller=False,
            brokers=others,
            levels=levels,
        )
    broker = int(effect["broker"])
    before = brokers.get(broker)
    properties = {
        PROTOCOL: "" if before is None else before.protocol,
        BROKER_FORMAT: "" if before is None else before.message_format,
    }
    # A protocol that was never set is that of the release.
    was_newest = before is not None and before.protocol == _newest_protocol(before.release)
    if was_newest and PROTOCOL not in effect:
        properties[PROTOCOL] = ""
    properties |= {name: str(effect[name]) for name in properties if effect.get(name)}
    acts = [
        line.time
        for line, begun in lines_of(evidence.observed, Act)
        if line.step == seen.step and getattr(begun.act, "broker", None) == broker
    ]
    began = min([seen.time, *acts])
    release, build = str(effect.get("release")), str(effect.get("build") or "")
    at = _at(release, build, properties, effect.get("czxid"))
    stage = str(effect.get("stage") or "")
    at = replace(at, stage=stage, protocol="" if levels or stage == "kraft" else at.protocol)
    return Rolled(
        broker=broker,
        began=round(began - started, 1),
        ended=ended,
        was_controller=_controller(evidence, began) == broker,
        brokers={**others, broker: at},
        levels=levels,
    )


def _begun(evidence: RunEvidence, seen: Observed) -> float:
    """Return when the step of an observation began."""
    began = [line for line, _ in lines_of(evidence.observed, StepBegun) if line.step == seen.step]
    return min([seen.time, *(line.time for line in began)])


def _levels(evidence: RunEvidence, when: float) -> dict[str, int]:
    """Return the feature levels at a time, by the metadata log; none with ZooKeeper."""
    return {
        timed.event.name: timed.event.level
        for timed in evidence.decisions
        if isinstance(timed.event, FeatureLevelSet) and timed.time <= when
    }


def _at(release: str, build: str, properties: Mapping[str, str], czxid: Any) -> BrokerAt:
    return BrokerAt(
        release=marked(release, build),
        protocol=properties.get(PROTOCOL) or _newest_protocol(release),
        message_format=properties.get(BROKER_FORMAT) or "",
        czxid=czxid if isinstance(czxid, int) else None,
    )


def _newest_protocol(release: str) -> str:
    return release_of(release.split(" ")[0]).protocol_version


def _czxid(evidence: RunEvidence, broker: int, when: float) -> int | None:
    """Return a broker's generation at a time: its last registration in ZooKeeper's log."""
    registered = [
        timed.event.czxid
        for timed in evidence.decisions
        if isinstance(timed.event, BrokerRegistered)
        and timed.event.broker == broker
        and timed.time <= when
    ]
    return registered[-1] if registered else None


def _controller(evidence: RunEvidence, when: float) -> int | None:
    """Return the controller at that time, by ZooKeeper's log."""
    elected = [
        timed.event.broker
        for timed in evidence.decisions
        if isinstance(timed.event, ControllerElected) and timed.time <= when
    ]
    return elected[-1] if elected else None


def _promised(evidence: RunEvidence, began: float, ended: float) -> int:
    return sum(
        len(operation.payloads)
        for operation in evidence.operations
        if operation.outcome == "ok"
        and operation.promised
        and not operation.is_probe
        and began <= (operation.ended_at or operation.invoked_at) < ended
    )


def _refused(evidence: RunEvidence, began: float, ended: float) -> int:
    return sum(
        operation.outcome != "ok"
        and operation.function == "produce"
        and not operation.is_probe
        and began <= operation.invoked_at < ended
        for operation in evidence.operations
    )


def _leader_moves(evidence: RunEvidence, began: float, ended: float) -> int:
    leaders: dict[tuple[str, int], int] = {}
    moves = 0
    for timed in evidence.events:
        if not isinstance(timed.event, PartitionState):
            continue
        partition = timed.event.topic, timed.event.partition
        is_other = leaders.get(partition, timed.event.leader) != timed.event.leader
        moves += is_other and began <= timed.time < ended
        leaders[partition] = timed.event.leader
    return moves


def _generations(evidence: RunEvidence, began: float, ended: float) -> dict[int, list[int]]:
    generations: dict[int, list[int]] = {}
    for timed in evidence.decisions:
        if isinstance(timed.event, BrokerRegistered) and began <= timed.time < ended:
            generations.setdefault(timed.event.broker, []).append(timed.event.czxid)
    return dict(sorted(generations.items()))
