"""A broker's log directories: where a replica lies, what checkpoint files of one name say."""

from collections.abc import Sequence
from pathlib import Path

from kchaos.checkers.formats.checkpoints import joined_offsets, parse_offset_checkpoint


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
