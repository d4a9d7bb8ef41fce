"""A broker's log directories: where a replica lies, what checkpoint files of one name say."""

from collections.abc import Sequence
from pathlib import Path

from kchaos.checkers.formats.checkpoints import joined_offsets, parse_offset_checkpoint
from kchaos.checkers.formats.partition_names import topic_partition

_FAILED = ".failed"


def fail(directory: Path) -> None:
    """Let a log directory fail: a file is in its place, and what it held is set aside."""
    directory.rename(_set_aside(directory))
    directory.touch()


def restore(set_aside: Path) -> None:
    """Put a log directory back in its place; ``set_aside`` is where its files are now."""
    directory = set_aside.with_name(set_aside.name.removesuffix(_FAILED))
    directory.unlink()
    set_aside.rename(directory)


def has_failed(directory: Path) -> bool:
    """Return whether `present` is not where the log directory was."""
    return directory.name.endswith(_FAILED)


def present(directory: Path) -> Path:
    """Return where the files of a log directory are now."""
    return _set_aside(directory) if directory.is_file() else directory


def _set_aside(directory: Path) -> Path:
    return directory.with_name(directory.name + _FAILED)


def replicas_in(directory: Path) -> tuple[tuple[str, int], ...]:
    """Return (topic, partition) of each live replica in a log directory."""
    if not directory.is_dir():
        return ()
    names = sorted(entry.name for entry in directory.iterdir() if entry.is_dir())
    return tuple(name for name in map(topic_partition, names) if name is not None)


def replica_directory(directories: Sequence[Path], topic: str, partition: int) -> Path:
    """Return the folder of this replica; one in the first log directory if there is none yet."""
    name = f"{topic}-{partition}"
    places = (directory / name for directory in directories if (directory / name).is_dir())
    return next(places, directories[0] / name)


def checkpointed_offsets(directories: Sequence[Path], name: str) -> dict[tuple[str, int], int]:
    """Return what the checkpoint files of this name say; nothing where none is there."""
    return joined_offsets(
        (
            parse_offset_checkpoint((directory / name).read_text(), file=str(directory / name)),
            {entry.name for entry in directory.iterdir()},
        )
        for directory in directories
        if (directory / name).is_file()
    )
