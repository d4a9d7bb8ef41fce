"""Faults with their times: each injection with its own healing, and its process's return."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kchaos.checkers import acts
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.observations import Act, Healed, Injected

_UNDONE_BY: dict[type[acts.Act], type[acts.Act]] = {
    acts.StopBroker: acts.StartBroker,
    acts.PauseBroker: acts.ResumeBroker,
    acts.DisconnectNetwork: acts.ReconnectNetwork,
}
"""Acts on a broker, each with the act that ends its effect, which may come before recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedFault:
    """One fault from injection to healing; times are seconds since 1970.

    Attributes:
        injected: What was observed of it.
        step: Index of the step that injected it, -1 for none.
        began: When the act began that caused its effect.
        seen: When its effect was seen.
        ended: When its effect ended: the broker's process was started or resumed, or recovery was
            seen. The same as `seen` where it leaves nothing to heal, None where it never ended.
        healed: When recovery was seen; None where nobody healed it, or it leaves nothing to heal.
    """

    injected: Injected
    step: int
    began: float
    seen: float
    ended: float | None = None
    healed: float | None = None

    def acted_at(self, time: float) -> bool:
        """Return whether it acted then, both ends included."""
        return self.began <= time and (self.ended is None or time <= self.ended)


def acted_faults(observed: Iterable[Observed]) -> tuple[ActedFault, ...]:
    """Return every fault that was injected, in order; names may be used again after healing."""
    spans: list[ActedFault] = []
    acting: dict[str, int] = {}
    undoing: dict[tuple[type[acts.Act], int], int] = {}
    own: list[tuple[float, int, acts.Act]] = []
    for line in observed:
        match line.what:
            case Act(act=act):
                own.append((line.time, line.step, act))
                at = undoing.pop((type(act), getattr(act, "broker", -1)), None)
                if at is not None and spans[at].ended is None:
                    spans[at] = replace(spans[at], ended=line.time)
            case Injected() as fault:
                caused = [(time, act) for time, step, act in own if step == line.step]
                began = min([line.time, *(time for time, _ in caused)])
                ended = None if fault.lasting else line.time
                span = ActedFault(
                    injected=fault, step=line.step, began=began, seen=line.time, ended=ended
                )
                if fault.lasting:
                    acting[fault.name] = len(spans)
                    for undone_by, broker in _to_be_undone(act for _, act in caused):
                        undoing[undone_by, broker] = len(spans)
                spans.append(span)
                own = []
            case Healed(name=name):
                at = acting.pop(name, None)
                if at is not None:
                    ended = line.time if spans[at].ended is None else spans[at].ended
                    spans[at] = replace(spans[at], healed=line.time, ended=ended)
                own = []
    return tuple(spans)


def _to_be_undone(caused: Iterable[acts.Act]) -> set[tuple[type[acts.Act], int]]:
    """Return which acts will end the effect of those, each with its broker."""
    waiting: set[tuple[type[acts.Act], int]] = set()
    for act in caused:
        broker = getattr(act, "broker", -1)
        waiting.discard((type(act), broker))
        if type(act) in _UNDONE_BY:
            waiting.add((_UNDONE_BY[type(act)], broker))
    return waiting
