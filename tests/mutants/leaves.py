"""Values of a run's evidence that no answer depends on: `python -m tests.mutants.leaves RUN...`.

One value of each path in the JSON of a stored run is changed at a time, list places and map keys
aside; the run is sealed again and judged. Listed is each path whose change is judged as the run
itself was. One sample of a path may stand where nothing depends on it, although another would.
"""

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from kchaos.checkers.judge import judge
from tests.golden.stored import unpacked
from tests.mutants.run_copy import RunCopy
from tests.mutants.suite import judge_path

_Place = tuple[str | int, ...]


def leaves(value: Any, place: _Place = ()) -> Iterator[tuple[_Place, Any]]:
    """Yields the place and value of everything in JSON that contains nothing more."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*place, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*place, index))
    else:
        yield place, value


def path_of(name: str, document: dict[str, Any], place: _Place) -> str:
    """What is the same for all such leaves: kinds of lines stand in it, numbers and keys do not."""
    kinds = (document.get("kind"), document.get("type"), document.get("api"))
    action = document.get("action")
    event = action.get("event") if isinstance(action, dict) else None
    told = ".".join(str(kind) for kind in (*kinds, event, document.get("direction")) if kind)
    steps = [
        "*" if isinstance(each, int) or each.isdigit() or "-" in each else each for each in place
    ]
    file = "snapshot.json" if name.startswith("snapshots/") else name
    return f"{file} {told + ': ' if told else ''}{'.'.join(map(str, steps))}"


def changed(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    return 1 if value is None else [1] if value == [] else {"x": 1}


def documents(run: RunCopy) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yields each JSON object: its file, the number of its line, and what it says."""
    for name in run.names("*.json") + run.names("snapshots/*/snapshot.json"):
        if name != "manifest.json":
            yield name, 0, run.json(name)
    for name in run.names("*.jsonl"):
        for number, line in enumerate(run.lines(name)):
            yield name, number, line


def unheld(release: str) -> tuple[list[str], int]:
    """Return the paths on which nothing depends, and how many there are."""
    with tempfile.TemporaryDirectory() as folder:
        run = unpacked(release, Path(folder))
        before = judge(run)
        places: dict[str, list[tuple[str, int, _Place, Any]]] = {}
        for name, number, document in documents(RunCopy(path=run.path, draw=Random(0))):
            for place, value in leaves(document):
                path = path_of(name, document, place)
                places.setdefault(path, []).append((name, number, place, value))
        collected = []
        draw = Random(1)
        for path, samples in sorted(places.items()):
            name, number, place, value = draw.choice(samples)
            copy = RunCopy.of(run, Path(folder) / "changed", draw)
            whole = [copy.json(name)] if name.endswith(".json") else copy.lines(name)
            inner: Any = whole[number]
            for step in place[:-1]:
                inner = inner[step]
            inner[place[-1]] = changed(value)
            if name.endswith(".json"):
                copy.write(name, json.dumps(whole[0]).encode())
            else:
                copy.write_lines(name, whole)
            results, _ = judge_path(copy.sealed().path)
            if results is not None and not results.unknown and _same(results, before):
                collected.append(path)
            shutil.rmtree(copy.path)
        return collected, len(places)


def _same(first: Any, other: Any) -> bool:
    return bool((first.conforms, first.safe) == (other.conforms, other.safe))


def main() -> None:
    """Print the list of each run that the command line names."""
    for release in sys.argv[1:]:
        seen, of = unheld(release)
        print(f"{release}: nothing depends on {len(seen)} of {of} paths")
        print("\n".join(f"    {path}" for path in seen))


if __name__ == "__main__":
    main()
