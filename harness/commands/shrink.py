"""`kchaos shrink`: the smallest schedule that still shows what a run shows."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import signs_of
from kchaos.clusters.system.leftovers import work_directory
from kchaos.harness.commands.children import Children, play_many
from kchaos.harness.commands.exits import UNKNOWN, exit_code_for_lines
from kchaos.harness.errors import UsageError
from kchaos.harness.player.drawing import view_of
from kchaos.harness.player.drawn_settings import ENTRY, SHRUNK
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.player.shrinking import PlaysUsedUp, Shrunk, Steps
from kchaos.harness.player.shrinking import shrink as smallest
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario, read_scenario
from kchaos.harness.run.settings import require_trust
from kchaos.harness.summary.lines import Line


def shrink(
    run: Path,
    *,
    plays: int,
    tries: int,
    output: Path | None,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
    write: Callable[[str], None],
    as_json: bool,
    trust: bool,
) -> int:
    """Shrink a run's schedule; write the scenario file, and print its path.

    `plays` bounds all plays, and `tries` those of a schedule before it counts as clean. With
    `trust` the run may have any settings, and its code may run.

    Returns:
        The exit code of the smallest schedule's run; `UNKNOWN` if the whole one shows it no more.

    Raises:
        UsageError: The run shows nothing that is wrong, or has settings that need trust.
    """
    directory = RunDirectory.open(run.resolve())
    scenario = _trusted_scenario(directory, trust=trust)
    if tries > plays:
        raise UsageError(f"{tries} tries of each schedule are more than {plays} plays")
    signs = frozenset(signs_of(judge(directory)))
    if not signs:
        raise UsageError(f"{run} conforms and is safe: there is nothing that a part could show")
    say(f"{len(scenario.steps)} steps show {', '.join(sorted(signs))}")
    with work_directory("shrink") as work, Children(options=options, work=work) as children:
        player = _Player(
            scenario=scenario,
            signs=signs,
            plays=plays,
            tries=tries,
            children=children,
            side_by_side=side_by_side,
            file=_file_for(directory, output),
            say=say,
        )
        if not player.shows_again():
            say(f"played {player.played} times, it does not show that again: see --tries")
            return UNKNOWN
        release = str(directory.read("run.json")["release"])
        shrunk = smallest(
            scenario.steps,
            player.showing,
            at_once=max(1, side_by_side // tries),
            is_legal=_legality(scenario, release),
        )
    told = player.told(shrunk)
    write(json.dumps(told) if as_json else _text(told))
    return exit_code_for_lines([player.line])


@dataclass(slots=True, kw_only=True)
class _Player:
    """Plays candidates; keeps the smallest one that shows the same, also on disk."""

    scenario: Scenario
    signs: frozenset[str]
    plays: int
    tries: int
    children: Children
    side_by_side: int
    file: Path
    say: Callable[[str], None]
    played: int = 0
    line: Line = field(default_factory=dict)

    def shows_again(self) -> bool:
        """Return whether the whole schedule shows the finding again."""
        return self.showing([self.scenario.steps]) is not None

    def showing(self, candidates: Sequence[Steps]) -> int | None:
        """See `harness.player.shrinking.Showing`; as many are played as there are plays left for.

        Raises:
            PlaysUsedUp: None of those shows it, and there are more.
        """
        tried = candidates[: (self.plays - self.played) // self.tries]
        rounds = [steps for steps in tried for _ in range(self.tries)]
        lines: dict[int, Line] = {}
        scenarios = [replace(self.scenario, steps=steps) for steps in rounds]
        index_of = {id(scenario): index for index, scenario in enumerate(scenarios)}

        def done(scenario: Scenario, line: Line) -> None:
            lines[index_of[id(scenario)]] = line
            self.played += 1
            shown = ", ".join(line["signs"]) or "nothing"
            self.say(
                f"play {self.played} of {self.plays}: {len(scenario.steps)} steps show {shown}"
            )

        play_many(
            scenarios,
            self.children.play,
            side_by_side=self.side_by_side,
            done=done,
            stop=self.children.stop,
        )
        for index in range(len(rounds)):
            if self.signs & frozenset(lines[index]["signs"]):
                self._keep(rounds[index], lines[index])
                return index // self.tries
        if len(tried) < len(candidates):
            raise PlaysUsedUp
        return None

    def told(self, shrunk: Shrunk[Any]) -> dict[str, object]:
        """Return the object that `--json` prints."""
        return {
            "scenario": str(self.file),
            "steps": len(shrunk.steps),
            "of": len(self.scenario.steps),
            "minimal": shrunk.is_minimal,
            "plays": self.played,
            "signs": self.line["signs"],
            "run": self.line["run"],
        }

    def _keep(self, steps: Steps, line: Line) -> None:
        """Write the scenario file at once, so that it outlives Ctrl-C."""
        self.line = line
        whole = self.scenario
        title = f"{len(steps)} of {len(whole.steps)} steps: {whole.title}".removesuffix(": ")
        entry = SHRUNK if whole.entry == ENTRY else whole.entry
        smaller = replace(whole, entry=entry, steps=steps, title=title).to_json()
        self.file.write_text(json.dumps(smaller, indent=1) + "\n")


def _trusted_scenario(directory: RunDirectory, *, trust: bool) -> Scenario:
    file = directory.path / "scenario.json"
    scenario = read_scenario(file, trusted=trust)
    if not trust:
        require_trust(scenario, file)
    return scenario


def _file_for(directory: RunDirectory, output: Path | None) -> Path:
    """Return the file to write, in an existing folder."""
    file = output or directory.path.parent / f"{directory.name}-shrunk.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _legality(scenario: Scenario, release: str) -> Callable[[Steps], bool]:
    """Return whether a schedule is legal to draw; any is if the whole one is not."""
    view = view_of(scenario, release)
    if illegal_steps(view, scenario.steps):
        return lambda _: True
    return lambda steps: not illegal_steps(view, steps)


def _text(told: dict[str, object]) -> str:
    how = "no step can be left out" if told["minimal"] else "the plays were used up"
    plays = "1 play" if told["plays"] == 1 else f"{told['plays']} plays"
    return (
        f"{told['steps']} of {told['of']} steps after {plays}: {how}\n"
        f"{told['scenario']}: kchaos replay plays it\nrun: {told['run']}"
    )
