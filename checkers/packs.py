"""Packs: a run as one small file that can be judged anywhere, also from an object store."""

import contextlib
import io
import lzma
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from kchaos.checkers.archives import extract
from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.folders import held, remove_abandoned_in
from kchaos.checkers.run_directory import JUDGEMENTS, REPORT, RunDirectory
from kchaos.checkers.store import Place, StoredPlace, files_in, replace

SUFFIX = ".tar.xz"
_MOST_BYTES = 4 << 30
"""So much may come out of an archive: runs have a few megabytes, and strangers may send theirs."""
_FETCHED = "kchaos-pack-"


def pack(path: Path, output: Place | None = None) -> Place:
    """Write a run into an archive, by default beside the run; return its place.

    It has the evidence and the newest judgement; earlier ones and the report can be made again. The
    same run gives the same bytes.

    Raises:
        RunDirectoryError: It is no run, or the archive exists already.
        OSError: The disk refuses.
        StoreError: The store cannot be asked, or refuses.
    """
    run = RunDirectory.open(path.resolve())
    archive = output or run.path.with_name(pack_name(run.path.name))
    if archive.exists():
        raise RunDirectoryError(f"{archive} exists: remove it, or name another --output")
    if isinstance(archive, Path):
        archive.parent.mkdir(parents=True, exist_ok=True)
    replace(archive, packed(run))
    return archive


def pack_name(run: str) -> str:
    """Name of a run's archive unless told."""
    return run + SUFFIX


def packed(run: RunDirectory) -> bytes:
    """Return the archive of a run.

    Raises:
        OSError: The run cannot be read.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz", format=tarfile.PAX_FORMAT, preset=6) as archive:
        for file in _packed(run):
            entry = tarfile.TarInfo(str(Path(run.path.name) / file.relative_to(run.path)))
            content = file.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def unpack(archive: Place, output: Path) -> RunDirectory:
    """Unpack an archive into a folder; return the run after checking its seal.

    Raises:
        RunDirectoryError: It is no archive of one run, its run is there already, the seal is
            broken, or what came out of it cannot be read.
        StoreError: It cannot be had from the store, or not all of it.
    """
    try:
        content = io.BytesIO(archive.read_bytes())
        with tarfile.open(fileobj=content) as packed, held(output, ".unpacking-") as working:
            if sum(member.size for member in packed) > _MOST_BYTES:
                raise RunDirectoryError(f"{archive} would take more than {_MOST_BYTES >> 30} GiB")
            _read_to_end(packed)
            extract(packed, working)
            folders = list(working.iterdir())
            if len(folders) != 1 or not folders[0].is_dir():
                raise RunDirectoryError(
                    f"{archive} is no archive of one run, as kchaos pack makes them"
                )
            run = RunDirectory.open(folders[0])
            if broken := run.verify():
                raise RunDirectoryError(f"{archive}: {'; '.join(broken[:3])}")
            target = output / folders[0].name
            if target.exists():
                raise RunDirectoryError(f"{target} exists: remove it, or name another --output")
            folders[0].rename(target)
            return RunDirectory.open(target)
    except (OSError, tarfile.TarError, EOFError, lzma.LZMAError) as error:
        raise RunDirectoryError(f"{archive} cannot be unpacked: {error}") from error


def _read_to_end(packed: tarfile.TarFile) -> None:
    """Read past the last member: only there a checksum tells that a damaged one ended the list."""
    left = _MOST_BYTES
    while left > 0 and packed.fileobj is not None and (read := packed.fileobj.read(1 << 20)):
        left -= len(read)


def packs_in(place: StoredPlace) -> Sequence[Place]:
    """Return the packs on a store: the named one, or all in a folder and below it.

    Raises:
        StoreError: The store cannot be asked.
        RunDirectoryError: There is none.
    """
    if place.name.endswith(SUFFIX):
        return [place]
    packs = files_in(place, SUFFIX)
    if not packs:
        raise RunDirectoryError(f"{place} holds no run: kchaos pack RUN --output {place}")
    return packs


@contextlib.contextmanager
def run_at(place: Place) -> Iterator[Path]:
    """Yield the run's path for the block; fetch a store's pack and remove it afterwards.

    Raises:
        RunDirectoryError: It is no pack of a run, or a torn one.
        StoreError: It cannot be had, or not all of it.
    """
    if isinstance(place, Path):
        yield place
        return
    above = Path(tempfile.gettempdir())
    remove_abandoned_in(above, _FETCHED)
    with held(above, _FETCHED) as folder:
        yield unpack(place, folder).path


def _packed(run: RunDirectory) -> Iterator[Path]:
    """Yield the files of a run that cannot be made again, in order."""
    newest = run.judgements()[-1:]
    for file in sorted(run.path.rglob("*")):
        parts = file.relative_to(run.path).parts
        is_old = parts[0] == JUDGEMENTS and parts[1:2] != newest
        if file.is_file() and not is_old and parts[0] != REPORT and not parts[0].startswith("."):
            yield file
