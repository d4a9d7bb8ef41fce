"""A part of a run's schedule that still shows the same, by playing ever smaller ones."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign.campaign import Campaign, Player
from kchaos.harness.errors import RunUnknown
from kchaos.harness.player.drawing import view_of
from kchaos.harness.player.drawn_settings import ENTRY, SHRUNK
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.player.shrinking import PlaysUsedUp, Shrunk, Steps
from kchaos.harness.player.shrinking import shrink as smallest
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.scenario_steps import Step


@dataclass(slots=True, kw_only=True)
class Shrinking:
    """Plays ever smaller parts of a run's schedule; the smallest that shows the same is on disk.

    Attributes:
        signs: Signs of a defect that the run shows.
        plays: How many may be played in all.
        tries: How often a schedule is played until it counts as not showing it.
        file: Where the smallest schedule is written.
        line: Its run; None while no play has shown the same.
    """

    scenario: Scenario
    signs: frozenset[str]
    plays: int
    tries: int
    side_by_side: int
    file: Path
    say: Callable[[str], None]
    played: int = 0
    line: RunLine | None = None

    def shrink(self, player: Player, release: str) -> Shrunk[Step] | None:
        """Return the smallest schedule; None if the whole one does not show it once more.

        `release` is the run's, and `player` plays the parts.
        """
        showing = partial(self._showing, player)
        if showing([self.scenario.steps]) is None:
            return None
        return smallest(
            self.scenario.steps,
            showing,
            at_once=max(1, self.side_by_side // self.tries),
            is_legal=_legality(self.scenario, release),
        )

    def _showing(self, player: Player, candidates: Sequence[Steps]) -> int | None:
        """See `harness.player.shrinking.Showing`; as many are played as there are plays left for.

        Raises:
            PlaysUsedUp: None of those shows it, and there are more.
            RunUnknown: A play was killed, or could not be judged.
        """
        tried = candidates[: (self.plays - self.played) // self.tries]
        lines: dict[int, RunLine] = {}

        def part(number: int) -> Scenario:
            return replace(self.scenario, steps=tried[number // self.tries])

        def keep(number: int, line: RunLine) -> None:
            lines[number] = line
            self.played += 1
            shown = ", ".join(line.signs) or line.unknown or "nothing"
            steps = len(tried[number // self.tries])
            self.say(f"run {self.played} of {self.plays}: {steps} steps show {shown}")

        campaign = Campaign(player=player, side_by_side=self.side_by_side)
        campaign.run(range(len(tried) * self.tries), part, keep)
        for number, line in sorted(lines.items()):
            if self.signs & frozenset(line.signs):
                self._keep(tried[number // self.tries], line)
                return number // self.tries
        if lost := [line.unknown for line in lines.values() if not line.run]:
            raise RunUnknown(f"{len(lost)} of {len(lines)} runs failed: {lost[0]}")
        if len(tried) < len(candidates):
            raise PlaysUsedUp
        return None

    def _keep(self, steps: Steps, line: RunLine) -> None:
        """Write the scenario file at once: what was found outlives Ctrl-C."""
        self.line = line
        whole = self.scenario
        title = f"{len(steps)} of {len(whole.steps)} steps: {whole.title}".removesuffix(": ")
        entry = SHRUNK if whole.entry == ENTRY else whole.entry
        smaller = replace(whole, entry=entry, steps=steps, title=title).to_json()
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(smaller, indent=1) + "\n")


def _legality(scenario: Scenario, release: str) -> Callable[[Steps], bool]:
    """Return a test of a part of a schedule: the rules of drawing, if the whole one keeps them."""
    view = view_of(scenario, release)
    if illegal_steps(view, scenario.steps):
        return lambda _: True
    return lambda steps: not illegal_steps(view, steps)
