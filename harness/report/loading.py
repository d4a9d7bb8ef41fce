"""What a report is made from: a run's evidence and one judgement, as plain values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkers.errors import RunDirectoryError
from checkers.run_directory import JUDGEMENTS, RunDirectory
from harness.errors import UsageError

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A run's small files and one judgement of it.

    Attributes:
        directory: Where it all came from.
        run: `run.json`.
        scenario: `scenario.json`; empty if the run was interrupted before it was written.
        outcome: `outcome.json`; empty if the run was interrupted.
        observations: `observations.jsonl`, oldest first.
        history: `history.jsonl`, oldest first.
        links: `links.jsonl`, oldest first.
        hits: `hits.jsonl`, oldest first; empty where no broker ran with an agent.
        judgement: Name of the judgement, or None if there is none.
        results: `results.json` of the judgement; empty without one.
        findings: `findings.jsonl` of the judgement.
        prediction: `prediction.json` of the judgement; empty if the model came to none.
    """

    directory: RunDirectory
    run: Line
    scenario: Line
    outcome: Line
    observations: Sequence[Line]
    history: Sequence[Line]
    links: Sequence[Line]
    hits: Sequence[Line] = ()
    judgement: str | None = None
    results: Line = field(default_factory=dict)
    findings: Sequence[Line] = ()
    prediction: Line = field(default_factory=dict)

    @property
    def started_at(self) -> float:
        """When the run began, in seconds since 1970; the zero of every time in the report."""
        return float(self.run.get("started_at") or self._first_time())

    @property
    def ended_at(self) -> float:
        """When the last thing was seen, in seconds since 1970."""
        times = [float(line["time"]) for line in (*self.observations, *self.history)]
        return max([self.started_at, *times])

    def _first_time(self) -> float:
        lines = (*self.observations, *self.history)
        return min((float(line["time"]) for line in lines), default=0.0)


def load(run: RunDirectory, judgement: str | None = None) -> Loaded:
    """The run with the named judgement, by default its newest one.

    A run that was interrupted lacks files; those are empty here, and the report says so.

    Raises:
        UsageError: The run has no judgement of that name.
        RunDirectoryError: A file that is there cannot be read.
    """
    name = _chosen(run, judgement)
    folder = f"{JUDGEMENTS}/{name}"
    return Loaded(
        directory=run,
        run=run.read("run.json"),
        scenario=_object(run, "scenario.json"),
        outcome=_object(run, "outcome.json"),
        observations=_timed(run, "observations.jsonl"),
        history=_timed(run, "history.jsonl"),
        links=tuple(run.read_lines("links.jsonl")),
        hits=_timed(run, "hits.jsonl"),
        judgement=name,
        results=_object(run, f"{folder}/results.json") if name else {},
        findings=tuple(run.read_lines(f"{folder}/findings.jsonl")) if name else (),
        prediction=_prediction(run, f"{folder}/prediction.json") if name else {},
    )


def judged_as(broker: Line) -> str:
    """The release whose rules a broker of `run.json` is judged by; older runs say "protocol"."""
    return str(broker.get("judged_as", broker.get("protocol", "")))


def _chosen(run: RunDirectory, judgement: str | None) -> str | None:
    known = run.judgements()
    if judgement is None:
        return known[-1] if known else None
    if judgement not in known:
        raise UsageError(
            f"{run.path} has no judgement {judgement!r}; it has: {', '.join(known) or 'none'}"
        )
    return judgement


def _object(run: RunDirectory, name: str) -> Line:
    return run.read(name) if (run.path / name).is_file() else {}


def _prediction(run: RunDirectory, name: str) -> Line:
    """The prediction; the file holds null where the model came to none."""
    file = run.path / name
    if file.is_file() and file.read_text(encoding="utf-8").strip() == "null":
        return {}
    return _object(run, name)


def _timed(run: RunDirectory, name: str) -> tuple[Line, ...]:
    return tuple(_with_time(run.read_lines(name), f"{run.path / name}"))


def _with_time(lines: Iterator[Line], file: str) -> Iterator[Line]:
    for number, line in enumerate(lines, start=1):
        if not isinstance(line.get("time"), int | float):
            raise RunDirectoryError(f"{file}:{number} has no time; the file is not kchaos's own")
        yield line
