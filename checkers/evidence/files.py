"""The files of one run while it is judged or shown: each is opened once, and read whole.

What is read is hashed at the same time, so that what was judged is what the manifest sealed, and
the seal opens only those files again that nobody reads whole: segments, which are mapped since
they may be larger than memory, and the logs of brokers in which no witness was looked for.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kchaos.checkers.errors import RunDirectoryError, ScenarioDataError
from kchaos.checkers.json_form import ShapeError, from_json, lacking
from kchaos.checkers.run_directory import RunDirectory

_T = TypeVar("_T")


@dataclass(slots=True)
class EvidenceFiles:
    """Reads a run's files. It remembers their hashes only; make a new one for each judgement."""

    run: RunDirectory
    _digests: dict[str, str] = field(default_factory=dict)
    _lacking: dict[tuple[str, str], str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Return whether a file of that name exists, compressed or not."""
        return os.path.exists(os.path.join(self.run.path, self.run.stored(name)))

    def place(self, read_at: str) -> str:
        """Return a file, or a file and a line such as "history.jsonl:3", for messages."""
        name, colon, line = read_at.partition(":")
        return os.path.join(self.run.path, self.run.stored(name) + colon + line)

    def content(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises:
            RunDirectoryError: It is missing or cannot be read.
        """
        content = self.run.content(name)
        self._digests[name] = hashlib.sha256(content).hexdigest()
        return content

    def value(self, kind: type[_T], name: str) -> _T:
        """Return the value in a `.json` file, ignoring fields that its type does not have.

        Raises:
            RunDirectoryError: The file is missing, is no JSON object or has another shape.
        """
        value = self.run.read(name, self.content(name))
        try:
            instance = from_json(kind, value, allow_more=True)
        except ShapeError as error:
            raise RunDirectoryError(f"{self.place(name)}: {error}") from error
        self.lacks(name, lacking(kind, value))
        return instance

    def lines(
        self, kind: type[_T], name: str, **made: Callable[[dict[str, Any]], Any]
    ) -> Iterator[_T]:
        """Yield the values in a `.jsonl` file, oldest first; none if there is no such file.

        The kind's field `read_at` gets the file and the line, such as "history.jsonl:3". `made`
        computes fields from the whole line; the line's other fields are ignored.

        Raises:
            RunDirectoryError: The file cannot be read, or a line is no JSON object.
            ScenarioDataError: A line has another shape.
        """
        content = self.content(self.run.stored(name)) if self.has(name) else b""
        for number, line in enumerate(self.run.read_lines(name, content), start=1):
            read_at = f"{name}:{number}"
            try:
                given: dict[str, Any] = {field: make(line) for field, make in made.items()}
                given["read_at"] = read_at
                instance = from_json(kind, line, allow_more=True, **given)
            except ShapeError as error:
                raise ScenarioDataError(f"{self.place(read_at)}: {error}") from error
            self.lacks(read_at, (field for field in lacking(kind, line) if field not in given))
            yield instance

    def lacks(self, read_at: str, fields: Iterable[str]) -> None:
        """Note that a file, or one of its lines, lacks fields that every such run has."""
        for name in fields:
            self._lacking.setdefault((read_at.partition(":")[0], name), read_at)

    def lacking(self) -> tuple[str, ...]:
        """Return a sentence for each file and field that a line read so far lacks."""
        return tuple(
            f"{read_at} lacks {field!r}, which is written of every run: it was taken out"
            for (_, field), read_at in self._lacking.items()
        )

    def broken_seal(self) -> tuple[str, ...]:
        """Return the seal's defects, a sentence each; see `RunDirectory.verify`."""
        return self.run.verify(self._digests)
