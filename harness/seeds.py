"""Seeds as text, with the version of kchaos for which they hold.

A schedule is drawn from its seed by the code of one version. Another version draws other schedules,
so progress and commands name a seed as SEED@VERSION, and a seed of another version is refused.
"""

import re
from functools import cache
from importlib.metadata import version

_SEED = re.compile(r"(\d+)(?:@(.+))?")


@cache
def own_version() -> str:
    """Return the version of this kchaos."""
    return version("kchaos")


def seed_text(seed: int) -> str:
    """Return the seed as a command takes it, with the version for which it holds."""
    return f"{seed}@{own_version()}"


def seed_in(text: str) -> int:
    """Return the number of a seed such as 7 or 7@0.1.0.

    Raises:
        ValueError: The text is no seed, or the seed is of another version.
    """
    match = _SEED.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no seed such as 7 or {seed_text(7)}")
    number, of = match.groups()
    if of not in (None, own_version()):
        raise ValueError(
            f"seed {number} is of kchaos {of}, and this is {own_version()}, which makes another "
            f"schedule of it. Repeat the run's own schedule (kchaos replay RUN), or take {number} "
            "for a new one"
        )
    return int(number)
