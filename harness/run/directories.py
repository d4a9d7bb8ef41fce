"""Run directories among some paths and places on an object store."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from kchaos.checkers.packs import packs_in
from kchaos.checkers.store import Place
from kchaos.harness.errors import UsageError

_MARKS = ("run.json", "scenario.json", "actions.jsonl", "manifest.json")


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Return the run directories among the paths and directly inside them, by name, each once.

    A directory with any of a run's files counts, also if it is torn.

    Raises:
        UsageError: A path is no run directory and holds none.
    """
    runs: dict[Path, None] = {}
    for path in paths:
        inside = [path] if _is_run(path) else sorted(filter(_is_run, _children(path)))
        if not inside:
            raise UsageError(f"{path} is no run directory, and holds none: there is no run.json")
        runs |= dict.fromkeys(run.resolve() for run in inside)
    return list(runs)


def find_places(places: Sequence[Place]) -> list[Place]:
    """Return the run directories of `find_runs` among the paths, and the packs on a store.

    A store is asked for names only.

    Raises:
        UsageError, RunDirectoryError: There is no run in one of them.
        StoreError: The store cannot be asked.
    """
    runs: dict[Place, None] = {}
    for place in places:
        inside = find_runs([place]) if isinstance(place, Path) else packs_in(place)
        runs |= dict.fromkeys(inside)
    return list(runs)


def _is_run(path: Path) -> bool:
    return any((path / name).is_file() for name in _MARKS)


def _children(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (child for child in path.iterdir() if child.is_dir() and not child.is_symlink())
