"""`kchaos explore`: every interleaving within bounds, and what of it can be played."""

import dataclasses
import itertools
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.releases.every_rule import RULES
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.versions import RELEASED
from kchaos.clusters.errors import MachineError
from kchaos.clusters.releases import release_of
from kchaos.clusters.start.configuration import mixed_protocol
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, FINDING, UNKNOWN
from kchaos.studies.documents.kip_501_example import solution_of
from kchaos.studies.documents.kip_501_properties import weighing
from kchaos.studies.documents.kip_501_proposals import parts_of
from kchaos.studies.documents.kip_501_solutions import ENABLE, PROCESS_TIME, SHIPPED
from kchaos.studies.documents.proposal import Proposal, following, with_proposals
from kchaos.studies.documents.proposals import PROPOSALS
from kchaos.studies.explore import Schedule, Schedules, find_schedule, system_of
from kchaos.studies.explore.bounds import Faults, Grain, Machine
from kchaos.studies.explorer import Exploration, Progress, explore
from kchaos.studies.schedule_scenarios import scenario_of, text_of

DEFAULT_BOUNDS: Mapping[int, int] = {2: 3, 3: 2}
"""Numbers of records, leader epochs after the first and offsets, by the number of replicas."""
_SAY_EVERY_S = 2.0
_MOST_BROKERS = 4
_LEAST_TO_REASSIGN = 3
_FAULTS = {
    "kill": "kills",
    "stop": "stops",
    "expire": "expiries",
    "controller": "controllers",
    "time-out": "time_outs",
    "reassign": "reassignments",
    "lag": "lags",
}
_NEEDED_FAULTS: Mapping[str, tuple[str, ...]] = {
    "online": ("kill",),
    "online-if-kept-up": ("kill",),
    "droppable": ("kill", "lag"),
    "moves-once": (),
}
"""Faults without which a property of KIP-501 cannot break."""
# Brokers of a schedule: how many states are looked at for it, and records that are written.
_SCHEDULES = {2: (10_000, 3), 3: (60_000, 2)}
_SCHEDULE_EPOCH = 4
_NO_REASON = "error return without exception set"
"""The interpreter's message where it had no memory even for a MemoryError."""
_BOUNDS = {"most_states": "--most-states", "most_memory_mib": "--memory"}
"""The command's names for the bounds of an exploration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationWanted:
    """An exploration as it was asked for.

    Attributes:
        releases: Each broker's, broker 0's first.
        without: Rules of the model that no broker follows: what a release would do without a fix.
        also: Names of proposals of documents that every broker follows besides.
        records, leader_epoch, log_size: Bounds of the machine.
        faults, skips_epochs, is_unclean: As in the machine.
        memory_mib: What all processes may hold together, in MiB.
        scenario: The file for what can be played; None to search no schedule.
    """

    releases: tuple[str, ...]
    records: int
    leader_epoch: int
    log_size: int
    grain: Grain
    faults: Faults
    skips_epochs: bool
    is_unclean: bool
    properties: tuple[str, ...]
    processes: int
    most_states: int
    memory_mib: int
    scenario: Path | None
    without: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the release, or all of them where they differ."""
        is_one = len(set(self.releases)) == 1
        named = self.releases[0] if is_one else " beside ".join(self.releases)
        named += f" without {' and '.join(self.without)}" if self.without else ""
        return f"{named} with {', and '.join(self.also)}" if self.also else named

    @property
    def proposals(self) -> tuple[Proposal, ...]:
        """Return the proposals that every broker follows."""
        return tuple(proposal for proposal in PROPOSALS if proposal.name in self.also)

    def generations(self, replicas: int) -> dict[int, Generation]:
        """Return what so many brokers do by their releases; of one there may be more than named."""
        releases = [*self.releases, *self.releases[:1] * replicas][:replicas]
        settings = mixed_protocol([release_of(release) for release in releases])
        generations = [
            generation_for(
                release,
                inter_broker_protocol=settings.get("inter.broker.protocol.version"),
                message_format=settings.get("log.message.format.version"),
                without=self.without,
            )
            for release in releases
        ]
        return dict(enumerate(generations))


def releases_of(named: Sequence[str], replicas: int | None) -> tuple[str, ...]:
    """Return the release of each broker.

    Raises:
        UsageError: Several releases were named, and not one for each broker; or the model does not
            say what brokers of a release do.
    """
    for release in named:
        if release not in RELEASED:
            raise UsageError(
                f"{release} is not explored: the model has the rules of releases with ZooKeeper "
                f"whose source was read, from {RELEASED[0]} to {RELEASED[-1]} (kchaos versions)"
            )
    if len(named) == 1:
        return tuple(named) * (replicas or min(DEFAULT_BOUNDS))
    if replicas not in (None, len(named)) or len(named) > _MOST_BROKERS:
        raise UsageError(
            f"--kafka was given {len(named)} times, for as many brokers (up to {_MOST_BROKERS}): "
            f"leave out --replicas {replicas}, or name each broker's release"
            if replicas is not None
            else f"--kafka was given {len(named)} times; there are {_MOST_BROKERS} brokers at most"
        )
    return tuple(named)


def faults_of(named: Sequence[str], brokers: int) -> Faults:
    """Return how often each fault may happen, from the words of the command line.

    Raises:
        UsageError: A reassignment needs a third broker.
    """
    if "reassign" in named and brokers < _LEAST_TO_REASSIGN:
        raise UsageError(
            f"--fault reassign moves the partition to the last broker, which does not hold it at "
            f"first: that takes --replicas {_LEAST_TO_REASSIGN} or more, not {brokers}"
        )
    return Faults(**{_FAULTS[word]: named.count(word) for word in named})


def proposed(named: Sequence[str]) -> tuple[str, ...]:
    """Return the proposals that were asked for, by name or as KIP-501's broker properties.

    Raises:
        UsageError: There is no such proposal or property, or a value that the document forbids.
    """
    given = dict(rule.partition("=")[::2] for rule in named if "=" in rule)
    known = [proposal.name for proposal in PROPOSALS]
    by_name = [text for text in named if "=" not in text]
    for rule in (*by_name, *given):
        if rule not in known and not (rule in given and rule in (ENABLE, PROCESS_TIME)):
            raise UsageError(
                f"nothing is proposed as {rule!r}; known: {', '.join(known)}; {ENABLE}=true; "
                f"{PROCESS_TIME}=MILLISECONDS"
            )
    try:
        solution = solution_of(given) if given else SHIPPED
    except ModelError as error:
        raise UsageError(str(error)) from error
    return (*by_name, *(proposal.name for proposal in parts_of(solution)))


def fixes(named: Sequence[str]) -> tuple[str, ...]:
    """Return the rules of releases that were named, for `--without`.

    Raises:
        UsageError: No release has such a rule.
    """
    known = [rule.name for rule in RULES]
    for name in named:
        if name not in known:
            raise UsageError(f"no release has a rule named {name!r}; known: {', '.join(known)}")
    return tuple(named)


def refuse_vacuous(wanted: ExplorationWanted) -> None:
    """Refuse a property that could break in no state of such a machine.

    Raises:
        UsageError: The message says what to explore as well.
    """
    for name in wanted.properties:
        if name not in _NEEDED_FAULTS:
            continue
        if not wanted.grain.splits_reads:
            raise UsageError(
                f"{name} is about fetches that a leader has and has not answered, and there are "
                "none then: take --steps reads, or queues"
            )
        for word in _NEEDED_FAULTS[name]:
            if not getattr(wanted.faults, _FAULTS[word]):
                raise UsageError(f"{name} cannot break without --fault {word}: add it")


def explore_release(
    wanted: ExplorationWanted,
    *,
    as_json: bool,
    say: Callable[[str], None],
    write: Callable[[str], None],
) -> int:
    """Explore; return the exit code: 0 all holds, 1 a counterexample, 2 a bound ended it.

    Raises:
        UsageError: The scenario's file cannot be written; epochs cannot be skipped in queues; a
            property could not break.
        MachineError: There is not enough memory.
    """
    refuse_vacuous(wanted)
    if wanted.skips_epochs and wanted.grain.has_queues:
        raise UsageError(
            "with --steps queues a broker hears of all that its controller sends, in order: leave "
            "out --skip-epochs, or let the controller move (--fault controller)"
        )
    if wanted.scenario is not None:
        folder = wanted.scenario.absolute().parent
        if not os.access(folder, os.W_OK):
            why = (
                "nobody may write into its folder" if folder.is_dir() else "there is no such folder"
            )
            raise UsageError(f"{wanted.scenario} cannot be written: {why}; name another --scenario")
    try:
        outcome = _explored(wanted, say)
        schedule = None
        if outcome.violation is not None and wanted.scenario is not None:
            schedule = _schedule(wanted, say)
    except (MemoryError, SystemError) as error:
        if isinstance(error, SystemError) and _NO_REASON not in str(error):
            raise
        raise MachineError(
            f"the memory of this machine is used up: give a limit below it with --memory "
            f"(now {wanted.memory_mib} MiB), or smaller bounds"
        ) from error
    if schedule is not None and wanted.scenario is not None:
        written = _write_scenario(schedule, wanted.releases, wanted.scenario)
        wanted = dataclasses.replace(wanted, scenario=written)
    if as_json:
        write(json.dumps(_to_json(wanted, outcome, schedule)))
    else:
        write("\n".join(_lines(wanted, outcome, schedule)))
    if outcome.violation is not None:
        return FINDING
    return AS_EXPECTED if outcome.is_complete else UNKNOWN


def _explored(wanted: ExplorationWanted, say: Callable[[str], None]) -> Exploration:
    machine = Machine(
        generations=wanted.generations(len(wanted.releases)),
        records=wanted.records,
        leader_epoch=wanted.leader_epoch,
        log_size=wanted.log_size,
        grain=wanted.grain,
        faults=wanted.faults,
        spares=min(wanted.faults.reassignments, 1),
        skips_epochs=wanted.skips_epochs,
        is_unclean=wanted.is_unclean,
        remembers_promises="kept" in wanted.properties,
    )
    machine = weighing(following(machine, *wanted.proposals), wanted.properties)
    say(f"exploring {_bounds_of(wanted)}")
    return explore(
        system_of(machine, wanted.properties),
        most_states=wanted.most_states,
        most_memory_mib=wanted.memory_mib,
        processes=wanted.processes,
        progress=_progress(say),
    )


def _schedule(wanted: ExplorationWanted, say: Callable[[str], None]) -> Schedule | None:
    """Search the sizes in order, few brokers first, where there are fewer states."""
    for replicas, (most_states, records) in _SCHEDULES.items():
        named = len(wanted.releases)
        if replicas < named or (replicas > named and len(set(wanted.releases)) > 1):
            continue
        say(f"searching a schedule of faults for {replicas} replicas, up to {most_states} states")
        schedule, _ = find_schedule(
            Schedules(
                generations={
                    broker: with_proposals(generation, *wanted.proposals)
                    for broker, generation in wanted.generations(replicas).items()
                },
                records=records,
                leader_epoch=_SCHEDULE_EPOCH,
            ),
            most_states=most_states,
            most_memory_mib=wanted.memory_mib,
            progress=_progress(say),
        )
        if schedule is not None:
            return schedule
    return None


def _progress(say: Callable[[str], None]) -> Callable[[Progress], None]:
    last = [time.monotonic()]

    def show(progress: Progress) -> None:
        now = time.monotonic()
        if now - last[0] >= _SAY_EVERY_S:
            last[0] = now
            say(
                f"{progress.distinct:,} states, depth {progress.depth}, "
                f"{progress.states_per_second:,.0f} states/s"
            )

    return show


def _write_scenario(schedule: Schedule, releases: Sequence[str], file: Path) -> Path:
    """Write the schedule to the file, or to NAME-2 and so on if it exists; return the path."""
    text = json.dumps(scenario_of(schedule, releases).to_json(), indent=1) + "\n"
    others = (file.with_stem(f"{file.stem}-{number}") for number in itertools.count(2))
    for free in itertools.chain([file], others):
        try:
            with free.open("x") as new:
                new.write(text)
        except FileExistsError:
            if not free.is_file() or free.read_bytes() != text.encode():
                continue
        except OSError as error:
            raise UsageError(f"{free} cannot be written: {error.strerror}") from error
        return free
    raise AssertionError("there is always another number")


def _bounds_of(wanted: ExplorationWanted) -> str:
    order = "epochs may be skipped" if wanted.skips_epochs else "epochs heard of in order"
    elections = ", unclean elections" if wanted.is_unclean else ""
    return (
        f"{wanted.name}, {len(wanted.releases)} replicas, {wanted.records} records, leader epochs "
        f"0 to {wanted.leader_epoch} ({order}){elections}, a log of {wanted.log_size}, "
        f"steps: {wanted.grain}{_faults_text(wanted.faults)}"
    )


def _faults_text(faults: Faults) -> str:
    counts = {word: getattr(faults, field) for word, field in _FAULTS.items()}
    said = [f"{word} {count}" for word, count in counts.items() if count]
    return f"; faults: {', '.join(said)}" if said else ""


def _lines(wanted: ExplorationWanted, outcome: Exploration, schedule: Schedule | None) -> list[str]:
    lines = [_bounds_of(wanted)]
    properties = " and ".join(wanted.properties)
    if outcome.violation is not None:
        trace = [str(step) for step in outcome.violation.trace]
        lines.append(
            f"{outcome.violation.invariant} breaks after {len(trace)} steps, no way is shorter:"
        )
        lines += [f"{number:4}. {step}" for number, step in enumerate(trace, start=1)]
        lines.append(f"  so {outcome.violation.message}")
    elif outcome.is_complete:
        lines.append(f"{properties}: holds in every state")
    else:
        lines.append(f"{properties}: unknown, for {_BOUNDS[outcome.limit]} ended it; give more")
    lines.append(
        f"{outcome.distinct:,} states, found {outcome.generated:,} times; depth {outcome.depth}; "
        f"{outcome.seconds:.1f} s, {outcome.distinct / max(outcome.seconds, 1e-9):,.0f} states/s; "
        f"processes: {wanted.processes}; bodies ran {outcome.runs:,} times"
    )
    if outcome.violation is not None and wanted.scenario is not None:
        lines += _schedule_lines(schedule, wanted.scenario)
    return lines


def _schedule_lines(schedule: Schedule | None, file: Path) -> list[str]:
    if schedule is None:
        searched = ", ".join(f"{most:,} with {number}" for number, (most, _) in _SCHEDULES.items())
        return [f"no schedule of faults breaks this release for good (states: {searched} replicas)"]
    acts = schedule.acts[: len(schedule.acts) - schedule.healing]
    return [
        f"faults that break it for good, no way is shorter ({len(acts)}):",
        *(f"{number:4}. {text_of(act)}" for number, act in enumerate(acts, start=1)),
        f"  so {schedule.message}",
        f"on real brokers: kchaos replay {file}",
    ]


def _to_json(
    wanted: ExplorationWanted, outcome: Exploration, schedule: Schedule | None
) -> dict[str, Any]:
    violation = outcome.violation
    return {
        **{
            field.name: getattr(wanted, field.name)
            for field in dataclasses.fields(wanted)
            if field.name not in ("scenario", "faults")
        },
        "faults": dataclasses.asdict(wanted.faults),
        "holds": False if violation else True if outcome.is_complete else None,
        "broken": violation.invariant if violation else None,
        "message": violation.message if violation else "",
        "steps": [str(step) for step in violation.trace] if violation else [],
        "limit": outcome.limit,
        "states": outcome.distinct,
        "generated": outcome.generated,
        "depth": outcome.depth,
        "runs": outcome.runs,
        "seconds": round(outcome.seconds, 3),
        "states_per_second": round(outcome.distinct / max(outcome.seconds, 1e-9)),
        "schedule": [text_of(act) for act in schedule.acts] if schedule else [],
        "scenario": str(wanted.scenario) if schedule else None,
    }
