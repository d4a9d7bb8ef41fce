"""`kchaos pack` and `kchaos unpack`: a run as one small file that can be judged anywhere."""

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

from kchaos.checkers.folders import held
from kchaos.checkers.run_directory import JUDGEMENTS, REPORT, RunDirectory
from kchaos.clusters.archives import extract
from kchaos.harness.errors import UsageError

SUFFIX = ".tar.xz"
_MOST_BYTES = 4 << 30
"""So much may come out of an archive: runs have a few megabytes, and strangers may send theirs."""


def pack(path: Path, output: Path | None = None) -> Path:
    """Writes a run into an archive, and returns where it is: beside the run, unless told.

    It has the evidence and the newest judgement; earlier ones and the report can be made again. The
    same run gives the same bytes.

    Raises:
        RunDirectoryError: It is no run.
        UsageError: The archive exists already.
    """
    run = RunDirectory.open(path.resolve())
    archive = output or run.path.with_name(run.path.name + SUFFIX)
    if archive.exists():
        raise UsageError(f"{archive} exists: remove it, or name another --output")
    temporary = archive.with_name(f".{archive.name}.{os.getpid()}")
    try:
        with tarfile.open(temporary, "w:xz", format=tarfile.PAX_FORMAT, preset=6) as packed:
            for file in _packed(run):
                entry = tarfile.TarInfo(str(Path(run.path.name) / file.relative_to(run.path)))
                content = file.read_bytes()
                entry.size = len(content)
                packed.addfile(entry, io.BytesIO(content))
        temporary.rename(archive)
    finally:
        temporary.unlink(missing_ok=True)
    return archive


def unpack(archive: Path, output: Path) -> RunDirectory:
    """Unpacks an archive into a folder; returns the run, whose seal was looked at.

    Raises:
        UsageError: It is no archive of one run, its run is there already, or the seal is broken.
        RunDirectoryError: What came out of it cannot be read.
    """
    try:
        with tarfile.open(archive) as packed, held(output, ".unpacking-") as working:
            if sum(member.size for member in packed) > _MOST_BYTES:
                raise UsageError(f"{archive} would take more than {_MOST_BYTES >> 30} GiB")
            extract(packed, working)
            folders = list(working.iterdir())
            if len(folders) != 1 or not folders[0].is_dir():
                raise UsageError(f"{archive} is no archive of one run, as kchaos pack makes them")
            run = RunDirectory.open(folders[0])
            if broken := run.verify():
                raise UsageError(f"{archive}: {'; '.join(broken[:3])}")
            target = output / folders[0].name
            if target.exists():
                raise UsageError(f"{target} exists: remove it, or name another --output")
            folders[0].rename(target)
            return RunDirectory.open(target)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise UsageError(f"{archive} cannot be unpacked: {error}") from error


def _packed(run: RunDirectory) -> Iterator[Path]:
    """Yields the files of a run that nobody could make again, in order."""
    newest = run.judgements()[-1:]
    for file in sorted(run.path.rglob("*")):
        parts = file.relative_to(run.path).parts
        is_old = parts[0] == JUDGEMENTS and parts[1:2] != newest
        if file.is_file() and not is_old and parts[0] != REPORT and not parts[0].startswith("."):
            yield file
