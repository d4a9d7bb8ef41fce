"""The files of one run while it is judged or shown: each is opened once, and read whole.

What is read is hashed at the same time, so that what was judged is what the manifest sealed, and
the seal opens only those files again that nobody reads whole: segments, which are mapped since
they may be larger than memory, and the logs of brokers in which no witness was looked for.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from checkers.errors import RunDirectoryError, ScenarioDataError
from checkers.json_form import ShapeError, from_json
from checkers.run_directory import RunDirectory

_T = TypeVar("_T")


@dataclass(slots=True)
class EvidenceFiles:
    """Reads a run's files. It remembers their hashes only; make a new one for each judgement."""

    run: RunDirectory
    _digests: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether something of that name is there."""
        return (self.run.path / name).exists()

    def place(self, name: str, number: int | None = None) -> str:
        """The file, and the line if one is given, for messages."""
        return f"{self.run.path / name}{'' if number is None else f':{number}'}"

    def content(self, name: str) -> bytes:
        """The bytes of a file.

        Raises:
            RunDirectoryError: It is missing or cannot be read.
        """
        content = self.run.content(name)
        self._digests[name] = hashlib.sha256(content).hexdigest()
        return content

    def value(self, kind: type[_T], name: str) -> _T:
        """The value in a `.json` file; fields that its type does not have are passed over.

        Raises:
            RunDirectoryError: The file is missing, is no JSON object or has another shape.
        """
        try:
            return from_json(kind, self.run.read(name, self.content(name)), allow_more=True)
        except ShapeError as error:
            raise RunDirectoryError(f"{self.place(name)}: {error}") from error

    def objects(self, name: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields each line of a `.jsonl` file with its number; nothing if there is no such file.

        Raises:
            RunDirectoryError: The file cannot be read, or a line is no JSON object.
        """
        if self.has(name):
            yield from enumerate(self.run.read_lines(name, self.content(name)), start=1)

    def lines(self, kind: type[_T], name: str) -> Iterator[tuple[int, _T]]:
        """As `objects`, of values; fields that their type does not have are passed over.

        Raises:
            RunDirectoryError: The file cannot be read, or a line is no JSON object.
            ScenarioDataError: A line has another shape.
        """
        for number, line in self.objects(name):
            try:
                value = from_json(kind, line, allow_more=True)
            except ShapeError as error:
                raise ScenarioDataError(f"{self.place(name, number)}: {error}") from error
            yield number, value

    def broken_seal(self) -> tuple[str, ...]:
        """What is wrong with the seal, a sentence each; see `RunDirectory.verify`."""
        return self.run.verify(self._digests)
