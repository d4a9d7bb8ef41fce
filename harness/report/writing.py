"""Putting the page into the run directory without touching what is there."""

from pathlib import Path

from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.errors import HarnessError
from kchaos.harness.report.page import render


def write_report(run: RunDirectory) -> Path:
    """Write the newest judgement's page, and return its path: `report.html`.

    The page is no evidence: it is in no manifest, and a newer one takes its place.

    Raises:
        HarnessError: The file cannot be written.
        RunDirectoryError: A file of the run cannot be read.
    """
    judgements = run.judgements()
    text = render(run, judgements[-1] if judgements else None)
    try:
        return run.write_report(text)
    except OSError as error:
        raise HarnessError(
            f"the report cannot be written to {run.path}: {error}; "
            "make it writable, or report on a copy of the run directory"
        ) from error
