"""Words that the sentences of a cause share: offsets, an ISR, the faults that acted."""

import re
from collections.abc import Iterable, Sequence

from kchaos.checkers.findings import Finding
from kchaos.checkers.outcome import brokers_text
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.moments import FaultSpan

_AIMED_AT = re.compile(r"\b(?:broker|source|target)=(\d+)")
_MOST_FAULTS = 3


def listed(words: Sequence[str]) -> str:
    """Join words as a list in a sentence."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def finding_step(finding: Finding) -> CauseStep:
    """Return the finding as the last sentence of a cause."""
    message = finding.message[:1].upper() + finding.message[1:]
    return CauseStep(section="findings", text=message if message.endswith("…") else f"{message}.")


def isr_text(isr: Iterable[int]) -> str:
    """Return brokers in the form in which Kafka writes an ISR."""
    return f"[{', '.join(map(str, isr))}]"


def acting_text(story: Story, time: float) -> str:
    """Describe the faults that acted at a time, those on the finding's brokers first."""
    acting = [
        (fault.what.partition("(")[0], _aimed_at(fault))
        for fault in story.faults
        if fault.lasts and fault.acted_at(time)
    ]
    acting.sort(key=lambda fault: not set(story.finding.brokers) & set(fault[1]))
    names = [
        *dict.fromkeys(
            f"{name} on {brokers_text(brokers)}" if brokers else name for name, brokers in acting
        )
    ]
    if len(names) > _MOST_FAULTS:
        names[_MOST_FAULTS - 1 :] = [f"{len(names) - _MOST_FAULTS + 1} other faults"]
    return f", while {listed(names)} acted" if names else ""


def _aimed_at(fault: FaultSpan) -> Sequence[int]:
    """Return the brokers at which a fault was aimed."""
    return sorted({int(broker) for broker in _AIMED_AT.findall(fault.what)})
