"""Schedules that a campaign draws and plays, and `kchaos chaos`, which plays so many of them."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from kchaos.checkers.acts import Mode
from kchaos.checkers.evidence.about import marked
from kchaos.checkers.fingerprint import MUTATED
from kchaos.checkers.run_line import RunLine, reason_of
from kchaos.clusters.agent import planted_refused
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.harness.campaign.campaign import Campaign, player_in, time_left
from kchaos.harness.campaign.corpus import name_of
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, FINDING, UNKNOWN, exit_code_for_lines
from kchaos.harness.player.candidates import CLIENTS
from kchaos.harness.player.drawing import (
    LEAST_BROKERS,
    case_drawn,
    draw,
    has_kraft,
    mixes_not_drawn,
    no_formats,
    require_drawable,
)
from kchaos.harness.player.free import FreeRun, case_of_free, draw_free, require_free
from kchaos.harness.player.mutating import mutated
from kchaos.harness.player.rates import page_of
from kchaos.harness.player.studied_mixes import WALKED
from kchaos.harness.run.own_parts import OwnParts
from kchaos.harness.run.own_settings import OwnSettings, own_settings, with_own_settings
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario, case_planted, with_planted
from kchaos.harness.seeds import own_version, seed_text
from kchaos.harness.summary.summary import IS_UNKNOWN, UNSAFE, reasons_to_fail, schedule_of

_SEEDS = 1_000_000_000
_TOLD_FROM_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A schedule that is drawn when its play is due.

    Attributes:
        release: The one by which the Kafka is judged.
        is_known: Whether it showed something in an earlier night, and is run again.
        parents: Of a mutant, the two schedules that it is made of.
    """

    seed: int
    kafka: str
    release: str
    mix: str
    is_known: bool = False
    parents: tuple[Scenario, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnSchedules:
    """Plan of a campaign with drawn schedules; the same schedules follow from the same values.

    Attributes:
        kafkas: Releases or paths; each gets every seed.
        seed: Of the first schedules.
        mixes: Each with how often it is drawn beside the others.
        steps: Acts of a schedule, without its gates.
        shard: Which part of the seeds, from 1, and of how many.
        mode: Where clusters keep their metadata; None for what is usual with the release.
        free: How clients run while faults come by the clock; None for schedules of steps.
        own: Files and packages with steps and faults that are drawn too.
        planted: The bug planted in every broker (`clusters.agent.planted`), "" for none.
        properties: A server.properties whose settings brokers are given, if any.
        brokers: How many each cluster has; None for as many as the mix draws.
    """

    kafkas: tuple[str, ...]
    seed: int
    mixes: Mapping[str, float]
    steps: int
    gated: bool
    shard: tuple[int, int] = (1, 1)
    mode: Mode | None = None
    free: FreeRun | None = None
    own: tuple[OwnParts, ...] = ()
    planted: str = ""
    properties: Path | None = None
    brokers: int | None = None

    @property
    def acts(self) -> int:
        """Length of a schedule: steps, or the seconds for which clients run."""
        return self.steps if self.free is None else round(self.free.for_s)

    def mixes_of(self, release: str) -> Mapping[str, float]:
        """Return the mixes that are drawn for a release; some have no form there.

        Raises:
            UsageError: None of them is.
            ReleaseError: The release has no such mode.
        """
        known = release_of(release)
        left_out = mixes_not_drawn(known, is_kraft=has_kraft(known, self.mode))
        drawn = {mix: weight for mix, weight in self.mixes.items() if mix not in left_out}
        if not drawn:
            whys = "; ".join(f"{mix}: {why}" for mix, why in left_out.items() if mix in self.mixes)
            raise UsageError(f"none of the mixes is for {release}: {whys}; take --mix mixed")
        return drawn

    def require(self, release: str) -> None:
        """Make sure that each mix is drawn for a release, or known to have no form there.

        Raises:
            UsageError: One of them is not, such as upgrades of the earliest release; or the
                planted bug does not fit it.
            ReleaseError: The release has no such mode.
        """
        known = release_of(release)
        is_kraft = has_kraft(known, self.mode)
        if self.planted and (why := planted_refused(self.planted, known, is_kraft=is_kraft)):
            raise UsageError(why)
        self._settings(release)
        for mix in self.mixes_of(release):
            if self.brokers is not None and mix in WALKED:
                raise UsageError(f"the mix {mix} has brokers of its own: leave --brokers out")
            if self.free is None and mix == CLIENTS:
                raise UsageError(
                    f"the mix {mix} disturbs clients that run freely: add --free, or run kchaos up"
                )
            if self.free is None:
                require_drawable(mix, release, mode=self.mode, own=self.own)
            else:
                require_free(self.free, mix, release, mode=self.mode)

    def due(self, releases: Mapping[str, str]) -> Iterator[Due]:
        """Yield each schedule, without end; `releases` has, by Kafka, whose rules judge it."""
        part, parts = self.shard
        seed = self.seed + part - 1
        mixes = {kafka: self.mixes_of(releases[kafka]) for kafka in self.kafkas}
        while True:
            chance = random.Random(f"mix of {seed}")
            for kafka in self.kafkas:
                mix = chance.choices([*mixes[kafka]], [*mixes[kafka].values()])[0]
                yield Due(seed=seed, kafka=kafka, release=releases[kafka], mix=mix)
            seed += parts

    def line_of(self, due: Due) -> RunLine:
        """Return what is known of a run before it is played."""
        if self.free is None:
            case = case_drawn(due.mix, gated=self.gated, mode=self.mode, own=self.own)
        else:
            case = case_of_free(self.free, due.mix, self.mode)
        own = self._settings(due.release)
        words = [case_planted(case, self.planted), *([own.case] if own else [])]
        words += [] if self.brokers is None else [f"{self.brokers}-brokers"]
        words += [f"{MUTATED}-{name_of(due.parents)}"] if due.parents else []
        return RunLine(
            entry="chaos",
            case="-".join(words),
            release=due.release,
            kafka=due.kafka,
            seed=due.seed,
            acts=self.acts,
        )

    def draw(self, due: Due) -> Scenario:
        """Draw a schedule; with a planted bug or other settings it is the same schedule."""
        scenario = with_planted(self.plain(due), self.planted)
        scenario = with_own_settings(scenario, self._settings(due.release))
        return replace(scenario, case=self.line_of(due).case)

    def _settings(self, release: str) -> OwnSettings | None:
        if self.properties is None:
            return None
        known = release_of(release)
        is_kraft = has_kraft(known, self.mode)
        return own_settings(
            self.properties, known, is_kraft=is_kraft, brokers=self.brokers or LEAST_BROKERS
        )

    def plain(self, due: Due) -> Scenario:
        """Draw a schedule without the planted bug and other settings."""
        if due.parents:
            return mutated(
                due.seed,
                *due.parents,
                mix=due.mix,
                steps=self.steps,
                gated=self.gated,
                release=due.release,
            )
        if self.free is not None:
            return draw_free(
                due.seed,
                self.free,
                kafka=due.kafka,
                mix=due.mix,
                release=due.release,
                mode=self.mode,
                brokers=self.brokers,
            )
        return draw(
            due.seed,
            kafka=due.kafka,
            steps=self.steps,
            mix=due.mix,
            gated=self.gated,
            release=due.release,
            mode=self.mode,
            own=self.own,
            brokers=self.brokers,
        )

    def known(self, lines: Iterable[RunLine], releases: Mapping[str, str]) -> Iterator[Due]:
        """Yield the schedule of the newest run of each finding in these lines, if it can be drawn.

        That is one of the same Kafkas, mixes, mode and length, played by this version of kchaos.
        """
        newest: dict[tuple[str, str], RunLine] = {}
        for line in sorted(lines, key=lambda line: line.started_at or 0.0):
            newest |= {(bug.fingerprint, line.kafka): line for bug in line.bugs}
        part, parts = self.shard
        played = set[tuple[int, str]]()
        for line in newest.values():
            mine = line.seed is not None and line.seed % parts == part - 1
            if not mine or line.seed is None or line.played_by != own_version():
                continue
            for mix in self.mixes_of(releases[line.kafka]) if line.kafka in releases else ():
                due = Due(
                    seed=line.seed,
                    kafka=line.kafka,
                    release=releases[line.kafka],
                    mix=mix,
                    is_known=True,
                )
                is_same = schedule_of(self.line_of(due)) == schedule_of(line)
                if is_same and (line.seed, line.kafka) not in played:
                    played.add((line.seed, line.kafka))
                    yield due

    def begins(self, releases: Iterable[str]) -> Iterator[str]:
        """Yield what is said before the first play: which mixes draw less on these releases."""
        for release in releases:
            known, drawn = release_of(release), self.mixes_of(release)
            left_out = mixes_not_drawn(known, is_kraft=has_kraft(known, self.mode))
            for mix in sorted(self.mixes.keys() - drawn.keys()):
                yield f"{release}: the mix {mix} is left out: {left_out[mix]}"
            yield from filter(None, (no_formats(mix, release) for mix in drawn))
            own = self._settings(release)
            yield from (f"{release}: {text}" for text in (own.texts() if own else ()))


def releases_of(
    plan: DrawnSchedules, options: RunOptions, say: Callable[[str], None]
) -> Mapping[str, str]:
    """Return the release by which each Kafka is judged, if each mix is drawn for it.

    Raises:
        UsageError: A mix is not for a release.
        ReleaseError: A Kafka is of no known release.
    """
    releases = {
        kafka: release_of(
            fetch(kafka, driver=options.driver, offline=options.offline, say=say).release
        ).judged_as
        for kafka in plan.kafkas
    }
    for release in releases.values():
        plan.require(release)
    return releases


def any_seed() -> int:
    """Return a seed for a campaign that names none."""
    return random.SystemRandom().randrange(_SEEDS)


def chaos(
    plan: DrawnSchedules,
    *,
    runs: int,
    side_by_side: int,
    results: Path | None,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[RunLine], None],
) -> list[RunLine]:
    """Draw and play; return the lines of the runs.

    `runs` is for each Kafka. `results` is a file of lines to resume, or None: runs in it are not
    played again, each run appends a line, and its table is written beside it; a play without a
    result appends none. `done` is called with each run's line.
    """
    releases = releases_of(plan, options, say)
    for sentence in plan.begins(releases.values()):
        say(sentence)
    all_due = [*islice(plan.due(releases), runs * len(releases))]
    wanted = {schedule_of(plan.line_of(due)) for due in all_due}
    file = None if results is None else ResultsFile(results)
    lines = [] if file is None else [line for line in file.lines if schedule_of(line) in wanted]
    known = set(map(schedule_of, lines))
    missing = [due for due in all_due if schedule_of(plan.line_of(due)) not in known]
    say(f"{len(missing)} of {len(all_due)} schedules to run, seeds from {seed_text(plan.seed)} on")
    plain: list[Scenario] = []
    ended, began = 0, time.monotonic()

    def drawn(due: Due) -> Scenario:
        scenario = plan.draw(due)
        if not scenario.own_parts:
            plain.append(scenario)
        say(f"== {due.kafka}: {scenario.title}")
        return scenario

    def keep(due: Due, line: RunLine) -> None:
        nonlocal ended
        ended += 1
        line = replace(line, kafka=due.kafka, acts=plan.acts)
        lines.append(line)
        if file is not None:
            file.append(line)
        left = time_left(time.monotonic() - began, ended, len(missing), at_once=side_by_side)
        say(f"{ended} of {len(missing)}{left}: {_told(line)}")
        done(line)

    with player_in("chaos", options) as player:
        Campaign(player=player, side_by_side=side_by_side).run(missing, drawn, keep)
    if plan.own and plain:
        say(
            f"{len(plain)} of {len(missing)} had no step of your own: it comes more often "
            "with a greater weight in DRAWN, or with more --steps"
        )
    if file is not None:
        file.write_page(page_of, say)
    return lines


def exit_code_of_chaos(lines: Sequence[RunLine], fail_on: Sequence[str]) -> int:
    """Return the exit code of many runs.

    `fail_on` has reasons of `summary.FAIL_ON` except new findings. None fails a run that is unsafe
    or not as the model predicts.
    """
    reasons = {reason for line in lines for reason in reasons_to_fail(line, fail_on or (UNSAFE,))}
    if reasons - {IS_UNKNOWN}:
        return FINDING
    if fail_on:
        return UNKNOWN if reasons or not lines else AS_EXPECTED
    return exit_code_for_lines(lines)


def _told(line: RunLine) -> str:
    drawn = line.drawn_s or 0.0
    told = [
        f"seed {line.seed} on {marked(line.release, line.build)}: {line.verdict}",
        f"chosen in {drawn:.1f} s" if drawn >= _TOLD_FROM_S else "",
        "" if line.seconds is None else f"{line.seconds:.1f} s",
        line.run,
    ]
    reason = reason_of(line)
    return ", ".join(filter(None, told)) + (f"; {reason}" if reason else "")
