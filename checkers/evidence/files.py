"""The files of one run while it is judged or shown: each is opened once, and read whole.

What is read is hashed at the same time, so that what was judged is what the manifest sealed, and
the seal opens only those files again that nobody reads whole: segments, which are mapped since
they may be larger than memory, and the logs of brokers in which no witness was looked for.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kchaos.checkers.errors import RunDirectoryError, ScenarioDataError
from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.checkers.run_directory import RunDirectory

_T = TypeVar("_T")


@dataclass(slots=True)
class EvidenceFiles:
    """Reads a run's files. It remembers their hashes only; make a new one for each judgement."""

    run: RunDirectory
    _digests: dict[str, str] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """Whether something of that name is there."""
        return (self.run.path / name).exists()

    def place(self, read_at: str) -> str:
        """A file, or a file and a line such as "history.jsonl:3", for messages."""
        return str(self.run.path / read_at)

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

    def lines(self, kind: type[_T], name: str, rest: str = "") -> Iterator[_T]:
        """Yields the values in a `.jsonl` file, oldest first; nothing if there is no such file.

        Args:
            kind: Its field `read_at` is given the file and the line, such as "history.jsonl:3".
            rest: The field that is given all that is in the line; without one, fields that the
                type does not have are passed over.

        Raises:
            RunDirectoryError: The file cannot be read, or a line is no JSON object.
            ScenarioDataError: A line has another shape.
        """
        content = self.content(name) if self.has(name) else b""
        for number, line in enumerate(self.run.read_lines(name, content), start=1):
            given: dict[str, Any] = {rest: line} if rest else {}
            read_at = f"{name}:{number}"
            try:
                yield from_json(kind, line, allow_more=True, read_at=read_at, **given)
            except ShapeError as error:
                raise ScenarioDataError(f"{self.place(read_at)}: {error}") from error

    def broken_seal(self) -> tuple[str, ...]:
        """What is wrong with the seal, a sentence each; see `RunDirectory.verify`."""
        return self.run.verify(self._digests)
