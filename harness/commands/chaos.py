"""`kchaos chaos`: random schedules on real brokers, side by side, and what came of them."""

import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.acts import Mode
from kchaos.checkers.evidence.about import marked
from kchaos.checkers.results import reason_of
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.harness.commands.children import play_each
from kchaos.harness.commands.exits import AS_EXPECTED, FINDING, UNKNOWN, exit_code_for_lines
from kchaos.harness.commands.measure import append_result, results_in
from kchaos.harness.player.drawing import case_drawn, draw, no_formats, require_drawable
from kchaos.harness.player.free import FreeRun, case_of_free, draw_free, require_free
from kchaos.harness.player.rates import page_of
from kchaos.harness.run.own_parts import OwnParts
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.seeds import seed_text
from kchaos.harness.summary.lines import Line
from kchaos.harness.summary.summary import IS_UNKNOWN, UNSAFE, reasons_to_fail

_SEEDS = 1_000_000
_TOLD_FROM_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsWanted:
    """Runs that are to be drawn and played.

    Attributes:
        kafkas: Releases or paths; each gets every seed.
        seed: Of the first run, the next has the next one; None to take any.
        steps: Of a schedule, without its gates.
        mode: Where clusters keep their metadata; None for what is usual with the release.
        free: How clients run while faults come by the clock; None for schedules of steps.
        own: Files and packages with steps and faults that are drawn too.
    """

    kafkas: tuple[str, ...]
    runs: int
    seed: int | None
    steps: int
    mix: str
    gated: bool
    mode: Mode | None = None
    free: FreeRun | None = None
    own: tuple[OwnParts, ...] = ()

    @property
    def acts(self) -> int:
        """Length of a schedule: steps, or the seconds for which clients run."""
        return self.steps if self.free is None else round(self.free.for_s)

    @property
    def case(self) -> str:
        """The case that each of the scenarios has."""
        if self.free is not None:
            return case_of_free(self.free, self.mix, self.mode)
        return case_drawn(self.mix, gated=self.gated, mode=self.mode, own=self.own)


def chaos(
    wanted: RunsWanted,
    *,
    side_by_side: int,
    results: Path | None,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[Line], None],
    fail_on: Sequence[str] = (),
) -> tuple[int, list[Line]]:
    """Draw, play and judge; return the exit code and the lines of the runs.

    `fail_on` is as in `exit_code_of_chaos`. `results` is a file of JSON lines to resume, or None:
    runs in it are not played again, each run appends a line, and its table is written beside it; a
    play without a result appends none. `done` is called with each run's line.
    """
    seed = random.SystemRandom().randrange(_SEEDS) if wanted.seed is None else wanted.seed
    all_due = _all_due(wanted, seed, options, say)
    known = [] if results is None else results_in(results)
    played = [line for line in known if _key(line) in {_key_of(wanted, due) for due in all_due}]
    missing = [due for due in all_due if _key_of(wanted, due) not in set(map(_key, played))]
    say(f"{len(missing)} of {len(all_due)} schedules to play, seeds from {seed_text(seed)} on")
    lines: list[Line] = []
    plain: list[Scenario] = []

    def drawn(due: _Due) -> Scenario:
        began = time.monotonic()
        scenario = _scenario(wanted, due)
        took_s = time.monotonic() - began
        if not scenario.own_parts:
            plain.append(scenario)
        took = f", drawn in {took_s:.1f} s" if took_s >= _TOLD_FROM_S else ""
        say(f"== {due.kafka}: {scenario.title}{took}")
        return scenario

    def judged(due: _Due, line: Line) -> None:
        line = {**line, "kafka": due.kafka, "acts": wanted.acts}
        lines.append(line)
        if results is not None and line["run"]:
            append_result(results, line)
        say(f"{len(lines)} of {len(missing)}: {_told(line)}")
        done(line)

    play_each(missing, drawn, name="chaos", side_by_side=side_by_side, options=options, done=judged)
    if wanted.own and plain:
        say(
            f"{len(plain)} of {len(missing)} had nothing of your own: it is drawn more often "
            "with a greater weight in DRAWN, or with more --steps"
        )
    if results is not None:
        page = results.with_suffix(".md")
        page.write_text(page_of([*known, *lines], results=results))
        say(f"table written to {page}")
    return exit_code_of_chaos([*played, *lines], fail_on), [*played, *lines]


def exit_code_of_chaos(lines: Sequence[Line], fail_on: Sequence[str]) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Due:
    """A schedule that is drawn when its play is due.

    Attributes:
        release: The one by which the Kafka is judged.
    """

    kafka: str
    release: str
    seed: int


def _all_due(
    wanted: RunsWanted, seed: int, options: RunOptions, say: Callable[[str], None]
) -> list[_Due]:
    """Return all schedules to play, if each mix is drawn for each Kafka."""
    due = []
    for kafka in wanted.kafkas:
        # A broken or unknown Kafka is refused before the first cluster starts.
        distribution = fetch(kafka, driver=options.driver, offline=options.offline, say=say)
        release = release_of(distribution.release).judged_as
        if wanted.free is None:
            require_drawable(wanted.mix, release, mode=wanted.mode, own=wanted.own)
        else:
            require_free(wanted.free, wanted.mix, release, mode=wanted.mode)
        if why := no_formats(wanted.mix, release):
            say(why)
        due += [
            _Due(kafka=kafka, release=release, seed=seed + number) for number in range(wanted.runs)
        ]
    return due


def _scenario(wanted: RunsWanted, due: _Due) -> Scenario:
    if wanted.free is not None:
        return draw_free(
            due.seed,
            wanted.free,
            kafka=due.kafka,
            release=due.release,
            mix=wanted.mix,
            mode=wanted.mode,
        )
    return draw(
        due.seed,
        kafka=due.kafka,
        release=due.release,
        steps=wanted.steps,
        mix=wanted.mix,
        gated=wanted.gated,
        mode=wanted.mode,
        own=wanted.own,
    )


def _told(line: Line) -> str:
    words = {True: "yes", False: "no", None: "unknown"}
    release = marked(str(line["release"]), str(line.get("build", "")))
    seed = f"seed {line['seed']} on {release}"
    answers = f"conforms: {words[line['conforms']]}, safe: {words[line['safe']]}"
    reason = reason_of(line)
    more = f"; {json.dumps(reason)}" if reason else ""
    took = "" if line["seconds"] is None else f", {line['seconds']:.1f} s"
    place = f"{took}, {line['run']}" if line["run"] else ""
    return f"{seed}: {answers}{place}{more}"


def _key(line: Line) -> tuple[str, str, int, int]:
    return str(line["kafka"]), str(line["case"]), int(line["acts"]), int(line["seed"])


def _key_of(wanted: RunsWanted, due: _Due) -> tuple[str, str, int, int]:
    return due.kafka, wanted.case, wanted.acts, due.seed
