"""Input of a report: a run's evidence and one judgement."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.about import SCENARIO, RunAbout, ScenarioAbout
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.results import Results, read_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A run's evidence and one judgement of it.

    Attributes:
        judgement: Name of the judgement, or None if there is none.
        results: The judgement; None without one.
    """

    evidence: RunEvidence
    judgement: str | None = None
    results: Results | None = None

    @property
    def directory(self) -> RunDirectory:
        """Where it all came from."""
        return self.evidence.run

    @property
    def name(self) -> str:
        """The run's own name, or that of its folder where its description is damaged."""
        try:
            return self.evidence.name
        except CheckError:
            return self.directory.name

    @property
    def run(self) -> RunAbout:
        """Description of the run."""
        return self.evidence.description

    @property
    def scenario(self) -> ScenarioAbout:
        """The scenario; empty if the run was interrupted before it was written."""
        has_it = self.evidence.files.has(SCENARIO)
        return self.evidence.scenario if has_it else ScenarioAbout()

    @property
    def findings(self) -> Sequence[Finding]:
        """Those of the judgement."""
        return () if self.results is None else self.results.findings

    @property
    def prediction(self) -> Prediction | None:
        """That of the judgement; None if the model came to none."""
        return None if self.results is None else self.results.prediction

    @property
    def started_at(self) -> float:
        """When the run began, in seconds since 1970; the zero of every time in the report."""
        return self.run.started_at or min(self._times(), default=0.0)

    @property
    def ended_at(self) -> float:
        """When the last thing was seen, in seconds since 1970."""
        return max([self.started_at, *self._times()])

    def is_within(self, time: float) -> bool:
        """Return whether something was seen before and after that time, in seconds since 1970."""
        return self.started_at <= time <= self.ended_at

    def _times(self) -> list[float]:
        done = self.evidence.client_operations
        times = [
            time
            for operation in done
            for time in (operation.invoked_at, operation.ended_at)
            if time
        ]
        return [*times, *(line.time for line in self.evidence.observed)]


def load(run: RunDirectory, judgement: str | None = None) -> Loaded:
    """Load a run with the named judgement, by default its newest one.

    A run that was interrupted lacks files; what they would say is empty here, and the report says
    so. Evidence is read when it is asked for, which raises a `CheckError` for what is damaged.

    Raises:
        UsageError: The run has no judgement of that name.
        RunDirectoryError: The judgement cannot be read.
    """
    name = _chosen(run, judgement)
    results = None if name is None else read_judgement(run, name)
    return Loaded(evidence=RunEvidence(run), judgement=name, results=results)


def load_at(path: Path) -> Loaded:
    """Load the run in a folder, with its newest judgement.

    Raises:
        CheckError: It is no run, or its judgement cannot be read.
    """
    return load(RunDirectory(path))


def _chosen(run: RunDirectory, judgement: str | None) -> str | None:
    known = run.judgements()
    if judgement is None:
        return known[-1] if known else None
    if judgement not in known:
        raise UsageError(
            f"{run.path} has no judgement {judgement!r}; it has: {', '.join(known) or 'none'}"
        )
    return judgement
