"""The one loop of all commands that play many runs: what is due is played, judged and kept."""

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeGuard, TypeVar

from kchaos.checkers.judge import judge
from kchaos.checkers.model.follow.search import watching_search
from kchaos.checkers.results import Results, read_judgement, write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import RunLine, line_at
from kchaos.clusters.errors import MachineError
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.leftovers import work_directory
from kchaos.harness.campaign import children
from kchaos.harness.errors import RunUnknown, UsageError
from kchaos.harness.report import write_report
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario

Item = TypeVar("Item")
"""Origin of a play: a scenario, or a seed that it is drawn from."""

_LOOK_S = 1.0
_SAY_EACH_S = 10.0
_MINUTES_FROM_S = 90


class Player(AbstractContextManager["Player"], Protocol):
    """Player of scenarios, within its context: `Children`, `InThisProcess`, or a stand-in."""

    def play(self, scenario: Scenario) -> RunLine:
        """Play and judge it once; return its line, as `line_at` does.

        Raises:
            RunUnknown: It was killed, or could not be judged.
        """

    def stop(self) -> None:
        """End what is under way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InThisProcess(AbstractContextManager["InThisProcess"]):
    """Plays one at a time, and says how it goes.

    Attributes:
        warn: Is told what its reader must know; None for `say`.
        has_report: Whether the page of each run is written.
    """

    options: RunOptions
    say: Callable[[str], None]
    warn: Callable[[str], None] | None = None
    has_report: bool = True

    def play(self, scenario: Scenario) -> RunLine:
        """As of `Player`."""
        run = play(scenario, options=self.options, say=self.say, warn=self.warn)
        judged(run, self.say, has_report=self.has_report)
        return line_at(run.path)

    def stop(self) -> None:
        """Nothing is under way where this is called."""

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """Plays what is due, so much at a time.

    Attributes:
        side_by_side: How many at once.
        may_begin: Asked before each play whether it may begin; once it may not, none does until
            another has ended.
        is_over: Asked again and again whether what is under way is to be ended.
        look_at: Adds to the line of a run that was judged, beside other plays.
    """

    player: Player
    side_by_side: int = 1
    may_begin: Callable[[], bool] = lambda: True
    is_over: Callable[[], bool] = lambda: False
    look_at: Callable[[RunLine], RunLine] = lambda line: line

    def run(
        self,
        due: Iterable[Item],
        scenario_of: Callable[[Item], Scenario],
        keep: Callable[[Item, RunLine], None],
        *,
        failed: Callable[[Item, Exception], RunLine] | None = None,
    ) -> list[Item]:
        """Play and judge each; return those that were ended since the campaign is over.

        A play that is killed, or cannot be judged, has the line of an unknown run.

        `scenario_of` gives the scenario of an item that is `due` at its turn, in another thread.
        `keep` is called here, with each once it is judged. `failed` gives the line of a play
        that failed by a defect. Without it the others are played, and then the error is raised.

        Raises:
            UsageError, MachineError: A play was refused for that reason.
            RuntimeError: The first defect, once all are over.
            KeyboardInterrupt: Ctrl-C. Here, as after any other error, what is under way is stopped
                and waited for.
        """
        waiting = iter(due)
        under_way: dict[Future[RunLine], Item] = {}
        defects: list[RuntimeError] = []
        begun = 0
        with self._pool() as pool:
            try:
                while True:
                    while (
                        len(under_way) < self.side_by_side
                        and self.may_begin()
                        and (item := next(waiting, None)) is not None
                    ):
                        under_way[pool.submit(self._played, item, scenario_of)] = item
                        begun += 1
                    if not under_way:
                        break
                    ended, _ = wait(under_way, timeout=_LOOK_S, return_when=FIRST_COMPLETED)
                    for future in ended:
                        item, error = under_way.pop(future), future.exception()
                        if failed is None and isinstance(error, RuntimeError):
                            defects.append(error)
                        elif failed is None or not _is_of_one(error):
                            keep(item, future.result())
                        else:
                            keep(item, failed(item, error))
                    if under_way and self.is_over():
                        self.player.stop()
                        break
            except BaseException:
                self.player.stop()
                raise
        if defects:
            raise RuntimeError(f"{len(defects)} of {begun} runs failed: {defects[0]}") from defects[
                0
            ]
        return [*under_way.values()]

    def _pool(self) -> "ThreadPoolExecutor | _InTurn":
        # Ctrl-C reaches only the main thread.
        if isinstance(self.player, InThisProcess):
            return _InTurn()
        return ThreadPoolExecutor(max_workers=self.side_by_side)

    def _played(self, item: Item, scenario_of: Callable[[Item], Scenario]) -> RunLine:
        began = time.monotonic()
        scenario = scenario_of(item)
        drawn = time.monotonic()
        try:
            line = self.player.play(scenario)
        except RunUnknown as lost:
            return lost_line(scenario, str(lost))
        return replace(
            self.look_at(line),
            kafka=scenario.release,
            drawn_s=round(drawn - began, 3),
            wall_s=round(time.monotonic() - drawn, 3),
        )


class _InTurn(AbstractContextManager["_InTurn"]):
    """Executor that does all at once, in the thread that submits it."""

    def submit(self, function: Callable[..., RunLine], *arguments: object) -> Future[RunLine]:
        future: Future[RunLine] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:  # noqa: BLE001 - handed on to who asks for the result
            future.set_exception(error)
        return future

    def __exit__(self, *_: object) -> None: ...


def _is_of_one(error: BaseException | None) -> TypeGuard[Exception]:
    """Return whether a play failed, and the next one need not fail for the same reason."""
    is_of_all = isinstance(error, MachineError | UsageError | OSError | MemoryError)
    return isinstance(error, Exception) and not is_of_all


def time_left(spent_s: float, done: int, wanted: int, *, at_once: int = 1) -> str:
    """Return the expected remaining time in brackets; "" before the first ones are done.

    `at_once` plays are parallel, of which the first ends predict nothing.
    """
    if done < at_once or wanted == 1 or done >= wanted:
        return ""
    left = spent_s / done * (wanted - done)
    told = f"{left / 60:.0f} min" if left >= _MINUTES_FROM_S else f"{left:.0f} s"
    return f" (about {told} left)"


@contextlib.contextmanager
def player_in(
    name: str, options: RunOptions, *, say_steps: Callable[[str], None] | None = None
) -> Iterator[Player]:
    """Yield a player of scenarios, for the block.

    `name` is its work directory's, for people. With `say_steps`, which receives each step, this
    process plays with these `options`; else each play is a process.
    """
    if say_steps is not None:
        yield InThisProcess(options=options, say=say_steps)
        return
    with work_directory(name) as work, children.Children(options=options, work=work) as player:
        yield player


def judged(run: RunDirectory, say: Callable[[str], None], *, has_report: bool = True) -> Results:
    """Judge a run in plain Python, and write the judgement and its report."""
    say(f"judging {run.path.name}")
    try:
        with watching_search(_said_at_times(say)):
            results = judge(run)
        write_judgement(run, results)
    except KeyboardInterrupt:
        say(f"the run is sealed, and can be judged again: kchaos judge {run.path}")
        raise
    finally:
        run.let_go()
    if has_report:
        write_report_or_say(run, say)
    return results


def _said_at_times(say: Callable[[str], None]) -> Callable[[int, int], None]:
    """Return a function that says now and then how much of a run is explained, and hears Ctrl-C."""
    last = time.monotonic()

    def said(explained: int, of_all: int) -> None:
        nonlocal last
        check_interrupt()
        if time.monotonic() - last >= _SAY_EACH_S:
            last = time.monotonic()
            say(f"judging: {explained} of {of_all} observations are explained")

    return said


def write_report_or_say(run: RunDirectory, say: Callable[[str], None]) -> Path | None:
    """Write the report; return where it is.

    Damaged evidence may keep it from being drawn, but no verdict from it: then None.

    Raises:
        OSError, MemoryError: The machine cannot, and could not for the next run either.
    """
    try:
        return write_report(run)
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - other runs are judged all the same
        say(f"no report of {run.path}: {error!r}")
        return None


def lost_line(scenario: Scenario, why: str) -> RunLine:
    """Return the line of a play that ended without a result: no step counts as played."""
    return RunLine(
        entry=scenario.entry,
        case=scenario.case,
        release=Path(scenario.release).name,
        seed=scenario.seed,
        kafka=scenario.release,
        unknown=why,
    )


def results_of(line: RunLine) -> Results:
    """Return the newest judgement of a line's run; that of a lost play knows nothing."""
    if line.run:
        run = RunDirectory.open(Path(line.run))
        return read_judgement(run, run.judgements()[-1])
    return Results(
        entry=line.entry,
        case=line.case,
        release=line.release,
        seed=line.seed or 0,
        conforms=None,
        safe=None,
        expected=False,
        unknown=line.unknown,
        path=Path(),
        prediction=None,
    )
