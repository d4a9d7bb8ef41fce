"""Putting the page into the run directory without touching what is there."""

from pathlib import Path

from kchaos.checkers.run_directory import JUDGEMENTS, RunDirectory
from kchaos.harness.errors import HarnessError
from kchaos.harness.report.page import render

_MOST_REPORTS = 1000


def write_report(run: RunDirectory) -> Path:
    """Writes the report and returns where it is: report.html, or report-2.html and so on.

    It goes beside results.json of the newest judgement, or into `judgements/` itself while there
    is none. Neither evidence nor an earlier report is ever changed.

    Raises:
        HarnessError: The file cannot be written.
        RunDirectoryError: A file of the run cannot be read.
    """
    judgements = run.judgements()
    folder = run.path / JUDGEMENTS
    if judgements:
        folder = folder / judgements[-1]
    text = render(run, judgements[-1] if judgements else None)
    try:
        folder.mkdir(exist_ok=True)
        return _write_new(folder, text)
    except OSError as error:
        raise HarnessError(
            f"the report cannot be written to {folder}: {error}; "
            "make it writable, or report on a copy of the run directory"
        ) from error


def _write_new(folder: Path, text: str) -> Path:
    for number in range(1, _MOST_REPORTS):
        target = folder / ("report.html" if number == 1 else f"report-{number}.html")
        try:
            file = target.open("x", encoding="utf-8")
        except FileExistsError:
            continue
        try:
            with file:
                file.write(text)
        except OSError:
            target.unlink(missing_ok=True)
            raise
        return target
    raise HarnessError(f"{folder} holds {_MOST_REPORTS} reports already; delete some of them")
