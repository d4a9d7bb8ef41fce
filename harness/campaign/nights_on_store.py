"""Files of a night that stay, put on an object store."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.packs import pack_name, packed
from kchaos.checkers.run_directory import REPORT, RunDirectory
from kchaos.checkers.store import Place, StoredPlace
from kchaos.harness.errors import UsageError
from kchaos.harness.summary.lines import LINES


def require_free(store: StoredPlace | None, tables: Place | None) -> None:
    """Refuse, before anything is played, a store or tables that cannot be written.

    Raises:
        UsageError: There is a night already in the place on the store.
        StoreError: The store cannot be asked, or has no such bucket.
    """
    if store is not None and store / LINES in store.objects():
        raise UsageError(
            f"{store} has a night already, and nothing there is written over: name another --store"
        )
    if isinstance(tables, StoredPlace):
        (tables / "runs").objects()


def put_night(
    folder: Path, store: StoredPlace, *, runs: Sequence[str], say: Callable[[str], None]
) -> None:
    """Put packs and reports of the kept runs, the summary, and at last the lines.

    What is there already with the same content stays, so that a night can be put once more after an
    error. Where there are lines, there is all that belongs to them.

    Raises:
        StoreError: The store does not take it; the night's folder has all of it.
    """
    kept = [folder / run for run in runs if (folder / run).is_dir()]
    for path in kept:
        try:
            content = packed(RunDirectory.open(path))
        except RunDirectoryError as error:
            say(f"no pack of {path}: {error}")
            continue
        (store / pack_name(path.name)).write_new(content)
        if (path / REPORT).is_file():
            (store / path.name / REPORT).write_new((path / REPORT).read_bytes())
    files = [file for file in folder.iterdir() if file.is_file() and file.name[:1] != "."]
    for file in sorted(files, key=lambda file: (file.name == LINES, file.name)):
        (store / file.name).write_new(file.read_bytes())
    say(f"on the store: {store}, with packs of {len(kept)} runs")
