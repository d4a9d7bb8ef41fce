"""For how long nothing may change before a partition counts as stalled, and where that is from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kchaos.checkers.settings import OUTLASTS, WAITS_MS

LEAST_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SettleBound:
    """Seconds for which nothing may change.

    Attributes:
        seconds: Above 0.
        source: What it follows from, or who said so, for people.
        needed_s: What the configured time-outs need; less than that may be too short.
    """

    seconds: float
    source: str
    needed_s: float


def settle_bound(
    brokers: Iterable[Mapping[str, str]], wanted_s: float | None = None
) -> SettleBound:
    """Return a bound beyond the longest timeout of these brokers, or the wanted one.

    Args:
        brokers: The properties of each.
        wanted_s: What somebody set; None for what the time-outs need.
    """
    waits_ms = [
        (int(properties.get(name, default)), name)
        for properties in brokers
        for name, default in WAITS_MS.items()
    ]
    longest_ms, name = max(waits_ms, default=(0, ""))
    needed_s = max(LEAST_S, OUTLASTS * longest_ms / 1000)
    if wanted_s is not None:
        source = f"set for this run; its brokers' time-outs need {needed_s:g} s"
        return SettleBound(seconds=wanted_s, source=source, needed_s=needed_s)
    source = f"{OUTLASTS:g} times the longest time-out, {name}={longest_ms}"
    if needed_s == LEAST_S:
        source = f"the least there is; the longest time-out is {name}={longest_ms}"
    return SettleBound(seconds=needed_s, source=source, needed_s=needed_s)
