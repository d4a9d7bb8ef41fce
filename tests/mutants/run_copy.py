"""A copy of a run whose evidence is edited, and that is sealed again afterwards.

Files are shared with the original by hard links and replaced when they are written, never changed.
"""

import copy
import json
import os
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kchaos.checkers.run_directory import MANIFEST, RunDirectory

_T = TypeVar("_T")
Line = dict[str, Any]


def is_of(line: Line, api: str) -> bool:
    """Whether a line of links.jsonl is of this API."""
    return bool(line["api"] == api)


def put(**fields: Any) -> Callable[[Line], None]:
    """An edit that gives an object's fields these values."""
    return lambda value: value.update(fields)


def more(field: str, by: float) -> Callable[[Line], None]:
    """An edit that adds to the number in a field."""
    return lambda value: value.update({field: value[field] + by})


class NotApplicableError(Exception):
    """A run has nothing that this kind of change could be made to; the message says what."""


@dataclass(slots=True)
class RunCopy:
    """The files of one run, by their names below its directory.

    Attributes:
        draw: Chooses the places of changes.
        is_resealed: Whether the manifest is written anew at the end.
    """

    path: Path
    draw: random.Random
    is_resealed: bool = True

    @classmethod
    def of(cls, run: RunDirectory, path: Path, draw: random.Random) -> "RunCopy":
        """A copy of a sealed run at a path that does not exist yet."""
        shutil.copytree(
            run.path, path, copy_function=os.link, ignore=shutil.ignore_patterns("judgements")
        )
        return cls(path=path, draw=draw)

    def sealed(self) -> RunDirectory:
        """The edited run, sealed again unless `is_resealed` is false."""
        run = RunDirectory(self.path)
        if self.is_resealed:
            (self.path / MANIFEST).unlink(missing_ok=True)
            run.seal()
        return run

    def names(self, pattern: str) -> list[str]:
        """The names of files that match a glob pattern, sorted."""
        seen = sorted(self.path.glob(pattern))
        return [str(file.relative_to(self.path)) for file in seen if file.is_file()]

    def pick(self, choices: Iterable[_T], what: str) -> _T:
        """One of the choices; there must be one."""
        seen = list(choices)
        if not seen:
            raise NotApplicableError(f"there is no {what}")
        return self.draw.choice(seen)

    def content(self, name: str) -> bytes:
        """What a file holds; it must be there."""
        if not (self.path / name).is_file():
            raise NotApplicableError(f"there is no {name}")
        return (self.path / name).read_bytes()

    def write(self, name: str, content: bytes) -> str:
        """Put a file in place of what was there; gives its name back."""
        file = self.path / name
        file.unlink(missing_ok=True)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        return name

    def remove(self, name: str) -> str:
        """Remove a file or a folder that must be there."""
        path = self.path / name
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
        else:
            raise NotApplicableError(f"there is no {name}")
        return name

    def json(self, name: str) -> dict[str, Any]:
        """The JSON object in a file."""
        collected: dict[str, Any] = json.loads(self.content(name))
        return collected

    def write_json(self, name: str, value: object) -> str:
        """Put a JSON value into a file."""
        return self.write(name, (json.dumps(value, indent=1) + "\n").encode())

    def edit_json(self, name: str, edit: Callable[[dict[str, Any]], object]) -> str:
        """Change the JSON object in a file in place."""
        value = self.json(name)
        edit(value)
        return self.write_json(name, value)

    def lines(self, name: str) -> list[Line]:
        """The JSON objects of a `.jsonl` file."""
        return [json.loads(line) for line in self.content(name).splitlines()]

    def write_lines(self, name: str, lines: Sequence[Line]) -> None:
        """Put JSON objects into a `.jsonl` file."""
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        self.write(name, text.encode())

    def edit_line(
        self,
        name: str,
        edit: Callable[[Line], object],
        where: Callable[[Line], bool] = lambda line: True,
        what: str = "such line",
    ) -> str:
        """Change one drawn line of a `.jsonl` file in place; one that it makes another."""
        lines = self.lines(name)
        edited = {}
        for index, line in enumerate(lines):
            if where(line):
                edited[index] = copy.deepcopy(line)
                edit(edited[index])
        index = self.pick((i for i, line in edited.items() if line != lines[i]), what)
        self.write_lines(name, [*lines[:index], edited[index], *lines[index + 1 :]])
        return f"{name}:{index + 1}"

    def drop_line(
        self, name: str, where: Callable[[Line], bool] = lambda line: True, what: str = "such line"
    ) -> str:
        """Leave out one drawn line of a `.jsonl` file."""
        lines = self.lines(name)
        index = self.pick((i for i, line in enumerate(lines) if where(line)), what)
        del lines[index]
        self.write_lines(name, lines)
        return f"{name}:{index + 1}"

    def drop_lines(self, name: str, where: Callable[[Line], bool]) -> str:
        """Leave out all such lines of a `.jsonl` file."""
        self.write_lines(name, [line for line in self.lines(name) if not where(line)])
        return name

    def double_line(self, name: str, where: Callable[[Line], bool], what: str) -> str:
        """Put one drawn line of a `.jsonl` file in twice, behind itself."""
        lines = self.lines(name)
        at = self.pick([index for index, line in enumerate(lines) if where(line)], what)
        self.write_lines(name, [*lines[: at + 1], *lines[at:]])
        return f"{name}:{at + 1}"

    def halve(self, name: str) -> str:
        """Leave out the second half of the lines of a `.jsonl` file that has some."""
        lines = self.lines(name)
        if not lines:
            raise NotApplicableError(f"{name} has no lines")
        self.write_lines(name, lines[: len(lines) // 2])
        return f"{name}:{len(lines) // 2}"

    def overwrite(self, name: str, content: bytes) -> str:
        """Put other content into a file that must be there."""
        self.content(name)
        return self.write(name, content)

    def final(self) -> str:
        """The label of the last snapshot."""
        names = self.names("snapshots/*/snapshot.json")
        return self.pick(
            (name.split("/")[1] for name in names if self.json(name)["is_final"]), "last snapshot"
        )

    def state_of_final(self) -> tuple[str, dict[str, Any]]:
        """The partition of the scenario at the last snapshot, and its leader, epoch and ISR."""
        states = self.json(f"snapshots/{self.final()}/snapshot.json")["states"]
        name = self.pick(sorted(states), "partition")
        return name, states[name]

    def in_sync_directory(self) -> str:
        """The directory of a drawn in-sync replica in the last snapshot."""
        name, state = self.state_of_final()
        broker = self.pick(state["isr"], "in-sync replica")
        directory = f"snapshots/{self.final()}/broker-{broker}/{name}"
        if not (self.path / directory).is_dir():
            raise NotApplicableError(f"{directory} is in another log directory")
        return directory
