"""Words that the sentences of a cause share: offsets, an ISR, the faults that acted."""

import re
from collections.abc import Iterable, Sequence

from kchaos.checkers.evidence.server_logs import log_time
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.prediction import Truncation
from kchaos.checkers.outcome import brokers_text
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.moments import FaultSpan

_AIMED_AT = re.compile(r"\b(?:broker|source|target)=(\d+)")
_MOST_FAULTS = 3


def listed(words: Sequence[str]) -> str:
    """Join words as a list in a sentence."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def cut_step(story: Story, cut: Truncation, rest: str, *, is_fatal: bool = False) -> CauseStep:
    """Return that a broker truncated its log, and the rest of that sentence."""
    return CauseStep(
        time=story.cut_at(cut),
        section="replicas",
        brokers=(cut.broker,),
        is_fatal=is_fatal,
        text=f"Broker {cut.broker} truncated its log from {cut.log_end_offset_before} to "
        f"{cut.target_offset}{rest}.",
    )


def finding_step(finding: Finding) -> CauseStep:
    """Return the finding as the last sentence of a cause."""
    message = finding.message[:1].upper() + finding.message[1:]
    return CauseStep(section="findings", text=message if message.endswith("…") else f"{message}.")


def logged_at(story: Story, broker: int, number: int) -> float | None:
    """Return the time of a line of a broker's own log, or of the last one before it that has one.

    Lines count from 1; those of an exception have no time. A broker writes its own zone's time:
    None if that lies outside of the run.
    """
    lines = story.loaded.evidence.server_logs.get(broker, ())[:number]
    time = next(filter(None, map(log_time, reversed(lines))), None)
    return time if time is not None and story.loaded.is_within(time) else None


def isr_text(isr: Iterable[int]) -> str:
    """Return brokers in the form in which Kafka writes an ISR."""
    return f"[{', '.join(map(str, isr))}]"


def acting_text(story: Story, time: float, *, about: int = -1) -> str:
    """Describe what faults did at a time: those on a broker, then those on the finding's brokers.

    A controller that stands still comes before these: it decides about every broker. Of a fault of
    somebody's own only its name is known.
    """
    acting = [
        (fault.what.partition("(")[0], fault)
        for fault in story.faults
        if fault.lasts and fault.acted_at(time)
    ]
    concerned = set(story.finding.brokers)
    acting.sort(
        key=lambda each: (
            about not in _aimed_at(each[1]),
            each[0] != "HoldController",
            not concerned & {*_aimed_at(each[1])},
        )
    )
    effects = [*dict.fromkeys(_effect(name, fault) for name, fault in acting)]
    if len(effects) > _MOST_FAULTS:
        effects[_MOST_FAULTS - 1 :] = [f"{len(effects) - _MOST_FAULTS + 1} other faults acted"]
    return f", while {listed(effects)}" if effects else ""


def _effect(name: str, fault: FaultSpan) -> str:
    """Return what a fault does to the cluster while it acts."""
    brokers = _aimed_at(fault)
    if name == "HoldRequests" and len(brokers) == 2:
        api = _API.search(fault.what)
        source, target = _ROUTE.findall(fault.what)[:2]
        what = f"{api[1]} requests" if api else "requests"
        if "direction=response" in fault.what:
            return f"broker {target}'s answers to {what} of broker {source} were held"
        return f"{what} of broker {source} to broker {target} were held"
    if name == "CutLink" and "one_way=True" in fault.what:
        source, target = _ROUTE.findall(fault.what)[:2]
        return f"broker {source} could not reach broker {target}"
    effect = _EFFECTS.get(name)
    if effect is not None and brokers:
        return f"{brokers_text(brokers)} {effect[len(brokers) > 1]}"
    return f"{name} on {brokers_text(brokers)} acted" if brokers else f"{name} acted"


_API = re.compile(r"\bapi='?(\w+)")
_ROUTE = re.compile(r"\b(?:source|target)=(\d+)")
_EFFECTS = {
    "CutLink": ("was cut off", "could not reach each other"),
    "CutZooKeeper": ("could not reach ZooKeeper", "could not reach ZooKeeper"),
    "ExpireSession": ("had lost its session", "had lost their sessions"),
    "HoldController": ("stood still as controller", "stood still as controllers"),
    "KillBroker": ("was down", "were down"),
    "PauseBroker": ("was paused", "were paused"),
    "StopBroker": ("was down", "were down"),
}
"""Effect of a fault on one broker, and on several."""


def _aimed_at(fault: FaultSpan) -> Sequence[int]:
    """Return the brokers at which a fault was aimed."""
    return sorted({int(broker) for broker in _AIMED_AT.findall(fault.what)})
