"""The runs that a folder holds, with the newest verdict on each."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.results import Results, read_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import ANSWERS, line_of
from kchaos.harness.errors import UsageError
from kchaos.harness.printable import wrapped
from kchaos.harness.run.directories import find_runs
from kchaos.harness.run.runner import LATEST


@dataclass(frozen=True, slots=True, kw_only=True)
class RunThere:
    """One run of a folder.

    Attributes:
        started_at: Seconds since the epoch; 0 if the run does not say.
        results: The newest judgement, None without one.
        problem: Why nothing is known of it, or "".
    """

    path: Path
    started_at: float = 0.0
    results: Results | None = None
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        place = {"run": str(self.path), "started_at": self.started_at or None}
        judged = {} if self.results is None else line_of(self.results).to_json()
        return judged | place | {"problem": self.problem or None}


def newest_run(runs_directory: Path) -> Path:
    """Return the newest run by its begin.

    Raises:
        UsageError: There is no run.
    """
    latest = runs_directory / LATEST
    if (latest / "run.json").is_file():
        return latest.resolve()
    there = runs_there(runs_directory)
    return there[0].path


def runs_there(runs_directory: Path) -> Sequence[RunThere]:
    """Return the runs in a folder, newest first.

    Raises:
        UsageError: There is none.
    """
    if not runs_directory.is_dir():
        raise UsageError(f"there is no folder {runs_directory}: run something, or give --runs-dir")
    there = [_looked_at(path) for path in find_runs([runs_directory])]
    return sorted(there, key=lambda run: (run.started_at, run.path.name), reverse=True)


def _looked_at(path: Path) -> RunThere:
    try:
        directory = RunDirectory.open(path)
        started_at = RunEvidence(directory).description.started_at or 0.0
        judgements = directory.judgements()
        results = read_judgement(directory, judgements[-1]) if judgements else None
        problem = "it did not end: nothing is known" if not directory.is_sealed else ""
        problem = "it is still running" if directory.is_going_on else problem
    except RunDirectoryError as error:
        return RunThere(path=path, problem=str(error))
    return RunThere(path=path, started_at=started_at, results=results, problem=problem)


def run_lines(runs: Sequence[RunThere]) -> list[str]:
    """Return each run in at least two lines of 80 columns: when and what, and its judgement."""
    lines = []
    for run in runs:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(run.started_at))
        lines.append(f"{began if run.started_at else '?':<16}  {run.path.name}")
        if run.results is None:
            lines += wrapped(run.problem or f"not judged yet: kchaos judge {run.path}")
            continue
        results = run.results
        lines += wrapped(
            f"{results.outcome} (conforms: {ANSWERS[results.conforms]}, "
            f"as expected: {ANSWERS[results.expected]})"
        )
    return lines
