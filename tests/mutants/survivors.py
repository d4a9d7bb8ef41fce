"""Kinds of changes that the judge believes; survivors.toml has each, and why nobody need notice it.

Each is content that nothing is judged by, or a change after which the evidence says no less than
before. A kind that is here and is always noticed is out of date, and the suite says so.
"""

import tomllib
from pathlib import Path

_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
SURVIVORS: dict[str, str] = _TABLE["all"]
"""Name of the kind and the reason."""
OF_TIERED: dict[str, str] = _TABLE["tiered"]
"""The same for runs with tiered logs alone."""


def is_survivor(kind: str, run: str) -> bool:
    """Whether a kind may be believed in a run of that name."""
    return kind in SURVIVORS or ("tiered" in run and kind in OF_TIERED)
