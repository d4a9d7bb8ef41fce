"""Confidence in each release: whether its source was compared, and whether it was played here.

`compared.json` is written by `tests.look_up.sources`, from what it found; `played.json`
is a list of releases that scenarios were played on, each with a golden run in the tests.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases.versions import LOOKED_UP

# Read as resources: Spark's executors have the package as a zip.
_COMPARED_FILE = files("kchaos.checkers.model.releases") / "compared.json"
_PLAYED_FILE = files("kchaos.checkers.model.releases") / "played.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Backing of predictions for a release: comparison with its source, and plays.

    Attributes:
        read_at: Where it was compared with every rule, "tag", "source jar" or "class files"; None
            where nobody compared it.
        played: Whether scenarios were run on it here.
    """

    read_at: str | None
    played: bool

    @property
    def compared(self) -> bool:
        """Whether its source was compared with every rule."""
        return self.read_at is not None


def status(release: str) -> Status:
    """Return what is known of a release, such as "1.1.1"; of one that was never published, nothing.

    Raises:
        ModelError: The package's data files are missing or damaged.
    """
    read_at, played = _known()
    return Status(read_at=read_at.get(release), played=release in played)


@cache
def _known() -> tuple[dict[str, str], frozenset[str]]:
    try:
        read_at = json.loads(_COMPARED_FILE.read_text(encoding="utf-8"))["read_at"]
        played = json.loads(_PLAYED_FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"the model's list of known releases cannot be read: {error}") from error
    unpublished = sorted({*read_at, *played} - set(LOOKED_UP))
    if unpublished:
        raise ModelError(f"{', '.join(unpublished)} are listed as known and were never published")
    return dict(read_at), frozenset(played)
