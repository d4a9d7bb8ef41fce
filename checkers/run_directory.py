"""The run directory: what is in it, how it is written, sealed, read and judged.

    RUN/
      run.json            what was run: entry, case, releases, builds, SHA-256 of every jar, seed,
                          versions, replay command; with containers engine and images, and why
                          there were no links if so
      scenario.json       the scenario as data: cluster, topics, steps, expectation
      actions.jsonl       the model's actions but produces, each with step, when it began and was
                          done (wall time), and the last zxid before it; with KRaft the last offset
      history.jsonl       client operations: invoke, then ok, fail or info (nobody knows); a
                          produce is an action of the model's too, so with step and last zxid;
                          "said" is what a test says of its own clients
      observations.jsonl  steps, gates, faults, sessions and czxid, what settle saw: a type for each
                          kind is in `checkers.observations`
      clients.jsonl       what clients that are not kchaos's own sent and were answered, where links
                          are in front of the listeners for clients (`checkers.evidence.clients`)
      links.jsonl         requests and responses that the links logged
      hits.jsonl          where brokers run with an agent: each thread that was held, delayed or
                          turned back at a point, and when it went on or was gone; what a leader
                          knew of its followers ("told"); of those that passed the first of each
                          broker's life and point. Fields: number, time, broker, life (its
                          starts, from 1), point, thread, reader, seen, fate, hold
      tier.jsonl          where logs are tiered: what each reader got, Fetch by Fetch ("read"), and
                          what leaders said of the ends of their logs ("offsets")
      zookeeper/member-N/ ZooKeeper's own transaction logs (log.*): every decision, in zxid order
      metadata/node-N/    with KRaft, in place of zookeeper/: the copy of the metadata log of each
                          broker and controller (*.log, *.checkpoint, quorum-state), in the order
                          of whose offsets everything was decided, and meta.properties
      metadata/definitions/ what the records of that log consist of, by the newest release
      brokers/N/          server.properties and server.log
      snapshots/LABEL/    snapshot.json, and broker-N/ with the files of its log directory, also
                          broker-N.1/ and so on where it has several; where logs are tiered also
                          remote/, with the segments and leader epoch checkpoints of the remote
                          store. `final` is the last one; `moved-N` one during which a partition
                          moved, so that the run settled again
      outcome.json        how the run ended: finished, or why it is unknown; seconds, and how many
                          of them were spent waiting
      manifest.json       the seal: format, and size and SHA-256 of each file above; written last
      manifest.json.sig   the signature of the seal, where it was asked for (`checkers.signatures`)
      judgements/NAME/    prediction.json, findings.jsonl, results.json
      report.html         the page of the newest judgement; it can be made again at any time

Lines of more than `MOST_PLAIN_BYTES` are compressed when the run is sealed: links.jsonl.gz has the
lines of links.jsonl, and messages count them as links.jsonl:12. `zcat` shows them.

`run.json` says the format, and this kchaos reads format 3 alone. Every file above is there that the
scenario's cluster makes, with every field that kchaos writes: what lacks one is unknown, and the
answer names it (`checkers.evidence.files`). What clients sent is in `history.jsonl` alone.

Evidence is everything but `judgements/`, `report.html` and the signature. It is appended to while
the run goes on and never touched after the seal. Who plays it holds a lock on the directory (flock)
until it is judged. A judgement is written under a temporary name, then renamed: it is
there whole or not at all, and no earlier one is overwritten.
"""

import contextlib
import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.folders import WORKING, Hold, held, is_held, remove_abandoned_in
from kchaos.checkers.opening import (
    bounded_json,
    bounded_lines,
    entries,
    read_bounded,
    refuse_what_is_no_file,
)

FORMAT = 3
MANIFEST = "manifest.json"
JUDGEMENTS = "judgements"
REPORT = "report.html"
SIGNATURE = "manifest.json.sig"
COMPRESSED = ".gz"
MOST_PLAIN_BYTES = 8 << 20
"""Size up to which a sealed run keeps a file of lines as it was written."""
_COMPRESSION = 6
"""Level of gzip, which is its own default; Python's is 9."""
_HOLD = Hold()
"""Locks on the runs that this process plays."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """One run on disk. `create` makes a new one, `open` reads one that exists."""

    path: Path

    @classmethod
    def create(
        cls, path: Path, *, run: Mapping[str, Any], scenario: Mapping[str, Any]
    ) -> "RunDirectory":
        """Return a new run directory with `run.json` and `scenario.json` in it.

        Raises:
            RunDirectoryError: Something exists at `path` already, or nothing can be made there.
        """
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise RunDirectoryError(
                f"{path} exists; a run is never written over: choose another --runs-dir"
            ) from None
        except OSError as error:
            raise RunDirectoryError(
                f"no run can be written to {path}: {error.strerror}; choose another --runs-dir"
            ) from error
        directory = cls(path)
        directory.write("run.json", {"format": FORMAT, **run})
        directory.write("scenario.json", scenario)
        return directory

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Return the run directory at `path`, sealed or not.

        Raises:
            RunDirectoryError: No run is there, it has another format, or it holds what is no
                file: see `checkers.opening`.
        """
        directory = cls(path)
        run = directory.read("run.json")
        refuse_what_is_no_file(path)
        _check_format(run, path / "run.json")
        return directory

    @property
    def name(self) -> str:
        """The directory's own name, which is the run's id."""
        return self.path.name

    def hold(self) -> None:
        """Lock the directory until `let_go`, to show that its run goes on."""
        _HOLD.take(self.path)

    def let_go(self) -> None:
        """Give up the lock: the run was judged, or it was given up."""
        _HOLD.let_go(self.path)

    @property
    def is_going_on(self) -> bool:
        """Whether the process lives that plays the run, and has not judged it yet."""
        return not self.judgements() and is_held(self.path)

    @property
    def is_sealed(self) -> bool:
        """Whether the manifest was written, that is, whether the evidence is complete."""
        return (self.path / MANIFEST).is_file()

    def stored(self, name: str) -> str:
        """Return the name under which a file is stored: with `COMPRESSED` if it was compressed."""
        compressed = name + COMPRESSED
        exists = os.path.exists
        is_plain = exists(os.path.join(self.path, name))
        return name if is_plain or not exists(os.path.join(self.path, compressed)) else compressed

    def write(self, name: str, value: Mapping[str, Any], *, replace: bool = False) -> None:
        """Write one JSON object as evidence, whole or not at all.

        With `replace` the file may exist: its value grows while the run goes on.

        Raises:
            RunDirectoryError: The run is sealed, or the file exists.
        """
        target = self.path / name
        self._refuse_when_sealed(name)
        if target.exists() and not replace:
            raise RunDirectoryError(f"{target} exists; evidence is never written twice")
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, json.dumps(value, indent=1) + "\n")

    def begin(self, name: str) -> None:
        """Create an empty file of evidence to which lines can be appended.

        Raises:
            RunDirectoryError: The run is sealed.
        """
        self._refuse_when_sealed(name)
        (self.path / name).touch()

    def append(self, name: str, value: Mapping[str, Any]) -> None:
        """Append one JSON object as a line of evidence, and hand it to the operating system.

        Raises:
            RunDirectoryError: The run is sealed.
        """
        self._refuse_when_sealed(name)
        with (self.path / name).open("ab", buffering=0) as file:
            file.write(json_line(value))

    def content(self, name: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            RunDirectoryError: It is missing or cannot be read.
        """
        target = os.path.join(self.path, name)
        try:
            return read_bounded(target)
        except (FileNotFoundError, NotADirectoryError):
            raise RunDirectoryError(
                f"{target} is missing: is {self.path} a run directory of kchaos?"
            ) from None
        except OSError as error:
            raise RunDirectoryError(f"{target} cannot be read: {error}") from error

    def read(self, name: str, content: bytes | None = None) -> dict[str, Any]:
        """Return the JSON object in one file, or in its content if already read.

        Raises:
            RunDirectoryError: The file is missing or is no JSON object.
        """
        try:
            value = bounded_json(self.content(name) if content is None else content)
        except ValueError as error:
            raise RunDirectoryError(f"{self.path / name} cannot be read as JSON: {error}") from None
        if not isinstance(value, dict):
            raise RunDirectoryError(f"{self.path / name} holds no JSON object")
        return value

    def read_lines(self, name: str, content: bytes | None = None) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of one `.jsonl` file, oldest first; none without the file.

        `content` is the file's content as it is stored, if already read.

        Raises:
            RunDirectoryError: The file cannot be read, or a line is no JSON object; the message
                names the line. A last line without its newline is damage in a sealed run; in an
                unsealed one, whose writer was killed, it is skipped.
        """
        stored = self.stored(name)
        target = self.path / stored
        if content is None:
            content = self.content(stored) if target.exists() else b""
        is_compressed = stored.endswith(COMPRESSED)
        lines = bounded_lines(content, target, is_compressed=is_compressed)
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                if self.is_sealed:
                    raise RunDirectoryError(f"{target}:{number} is cut off: it has no newline")
                return
            try:
                value = bounded_json(line)
            except ValueError as error:
                raise RunDirectoryError(f"{target}:{number} is not JSON: {error}") from error
            if not isinstance(value, dict):
                raise RunDirectoryError(f"{target}:{number} holds no JSON object")
            yield value

    def seal(self) -> None:
        """Write the manifest: from now on the evidence is complete and must not change.

        Long files of lines are compressed before.

        Raises:
            RunDirectoryError: The run is sealed already.
        """
        self._refuse_when_sealed(MANIFEST)
        for file in self.path.glob("*.jsonl"):
            if file.stat().st_size > MOST_PLAIN_BYTES:
                _compress(file)
        files = {
            name: {"size_bytes": os.stat(file).st_size, "sha256": _sha256(file)}
            for name, file in self._evidence()
        }
        _write_whole(
            self.path / MANIFEST, json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n"
        )

    def verify(self, known: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Return the seal's defects, a sentence each; empty for a whole run.

        Args:
            known: SHA-256 of files that were read already, by name; the others are read here.

        Raises:
            RunDirectoryError: The manifest cannot be read, or says not of each file what it was.
        """
        if not self.is_sealed:
            return ("the run is not sealed: it was interrupted, or it is still going on",)
        known = known or {}
        seal = self.read(MANIFEST)
        manifest = seal.get("files")
        if not isinstance(manifest, dict):
            raise RunDirectoryError(f"{self.path / MANIFEST} has no 'files'")
        _check_format(seal, self.path / MANIFEST)
        problems = []
        present = dict(self._evidence())
        for name, sealed in manifest.items():
            if not isinstance(sealed, dict) or not {"size_bytes", "sha256"} <= sealed.keys():
                raise RunDirectoryError(
                    f"{self.path / MANIFEST}: {name!r} has no size_bytes and sha256"
                )
            file = present.pop(name, None)
            if file is None:
                problems.append(f"{name} is missing")
            elif (size_bytes := os.stat(file).st_size) != sealed["size_bytes"]:
                problems.append(
                    f"{name} has {size_bytes} bytes, sealed with {sealed['size_bytes']}"
                )
            elif (known.get(name) or _sha256(file)) != sealed["sha256"]:
                problems.append(f"{name} is not what was sealed: its SHA-256 differs")
        problems.extend(f"{name} was added after the seal" for name in present)
        return tuple(problems)

    def snapshots(self) -> tuple[str, ...]:
        """Return the labels of the complete snapshots, sorted."""
        files = (self.path / "snapshots").glob("*/snapshot.json")
        return tuple(sorted(file.parent.name for file in files))

    def judgements(self) -> tuple[str, ...]:
        """Return the names of the judgements, oldest first."""
        root = self.path / JUDGEMENTS
        if not root.is_dir():
            return ()
        return tuple(sorted(entry.name for entry in root.iterdir() if _is_judgement(entry)))

    @contextlib.contextmanager
    def new_judgement(self) -> Iterator[Path]:
        """Yield a folder for a new judgement, renamed to its final name when the block succeeds.

        Names count up from 0001. When the block raises, the folder goes away.

        Raises:
            RunDirectoryError: There cannot be such a folder: something else has its name, or
                nothing may be written there.
        """
        root = self.path / JUDGEMENTS
        with contextlib.ExitStack() as ending:
            try:
                root.mkdir(exist_ok=True)
                remove_abandoned_in(root, WORKING)
                working = ending.enter_context(held(root, WORKING))
            except OSError as error:
                raise RunDirectoryError(
                    f"no judgement can be written to {root}: {error}; it must be a folder to which "
                    "you may write, or be absent"
                ) from error
            yield working
            _rename_to_next_number(working, root)

    def write_report(self, text: str) -> Path:
        """Replace the report page, whole or not at all, and return its path.

        Raises:
            OSError: Nothing may be written there.
        """
        target = self.path / REPORT
        # A path that a message names may have bytes that are no text.
        _write_whole(target, text.encode(errors="backslashreplace").decode())
        return target

    def _evidence(self) -> Iterator[tuple[str, str]]:
        """Yield name and path of each file of evidence, ordered by folder and name."""
        root = os.path.join(self.path, "")
        files = (entry.path for entry in entries(self.path) if entry.is_file())
        names = (file.removeprefix(root) for file in files)
        for parts in sorted(name.split(os.sep) for name in names):
            is_beside = parts[0] in (JUDGEMENTS, MANIFEST, REPORT, SIGNATURE)
            if not is_beside and not parts[0].startswith("."):
                yield os.path.join(*parts), os.path.join(self.path, *parts)

    def _refuse_when_sealed(self, name: str) -> None:
        if self.is_sealed:
            raise RunDirectoryError(f"{self.path} is sealed; {name} can no longer be written")


def json_line(value: Mapping[str, Any]) -> bytes:
    """Return a line of a file of evidence."""
    return (json.dumps(value, separators=(",", ":")) + "\n").encode()


def _check_format(said: Mapping[str, Any], file: Path) -> None:
    written = said.get("format")
    if type(written) is not int or written != FORMAT:
        raise RunDirectoryError(
            f"{file} has format {written!r}, and this kchaos reads format {FORMAT} alone: judge "
            f"the run with the kchaos that made it, or run its scenario again: kchaos replay "
            f"{file.parent}"
        )


def _is_judgement(entry: Path) -> bool:
    return entry.is_dir() and entry.name.isdigit()


def _rename_to_next_number(working: Path, root: Path) -> None:
    number = 1 + max(
        (int(entry.name) for entry in root.iterdir() if _is_judgement(entry)), default=0
    )
    for candidate in range(number, number + 1000):
        try:
            working.rename(root / f"{candidate:04d}")
        except OSError:
            if not (root / f"{candidate:04d}").exists():
                raise
        else:
            return
    raise RunDirectoryError(f"{root} holds too many judgements")


def _write_whole(target: Path, text: str) -> None:
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(target)


def _compress(file: Path) -> None:
    """Put a compressed file in the place of a file, which is there whole until then."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    with file.open("rb") as plain, temporary.open("wb") as target:
        with gzip.GzipFile("", "wb", _COMPRESSION, target, mtime=0) as packed:
            shutil.copyfileobj(plain, packed, 1 << 20)
        target.flush()
        os.fsync(target.fileno())
    temporary.rename(file.with_name(file.name + COMPRESSED))
    file.unlink()


def _sha256(file: str) -> str:
    with open(file, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
