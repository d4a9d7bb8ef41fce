"""Copies of stored runs in place of the plays of a night."""

import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from kchaos.checkers.run_line import RunLine, line_at
from kchaos.harness.run.scenario import Scenario


class StoredPlays(AbstractContextManager["StoredPlays"]):
    """Plays nothing: each play is a copy of a stored run, judged."""

    def __init__(self, runs: list[Path], folder: Path) -> None:
        self.runs, self.folder = runs, folder
        self.played: list[Scenario] = []
        self.stopped = threading.Event()
        self.before: Callable[[int], None] = lambda _: None

    def play(self, scenario: Scenario) -> RunLine:
        self.played.append(scenario)
        number = len(self.played)
        self.before(number)
        source = self.runs[(number - 1) % len(self.runs)]
        place = self.folder / f"run-{number}"
        shutil.copytree(source, place)
        return replace(line_at(place), seed=scenario.seed)

    def stop(self) -> None:
        self.stopped.set()

    def __exit__(self, *_: object) -> None: ...
