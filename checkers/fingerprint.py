"""Fingerprints of findings: the same for the same bug in another run, whatever numbers it has.

A fingerprint is made of the finding's kind, of what it is about, of the roles of the brokers that
it names, and of the shape of the schedule. The shape is what the scenario does, without what only
waits or tells. Brokers, topics and names of faults are numbered as they come up; counts and times
are left out, and what is done several times in a row counts once.

The steps of a random run say nothing about a bug. Its findings have the roles that brokers have at
the end (leader, in sync, not in sync) in place of a shape. Two bugs that look alike so
share a fingerprint until `kchaos shrink` has found the steps that one of them needs.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kchaos.checkers.evidence.about import Outcome, ScenarioAbout
from kchaos.checkers.findings import Finding

DRAWN = "chaos"
"""The entry of scenarios that are drawn from a seed."""
MUTATED = "mutated"
"""Part of the case of a drawn scenario's mutant, before the digits that tell its parents."""
_DIGITS = 12
_NUMBERED = {
    **dict.fromkeys(
        (
            *("broker", "brokers", "source", "target", "leader", "follower", "replicas", "isr"),
            *("assignment", "sender", "controller", "replica", "first_broker", "reader"),
        ),
        "broker",
    ),
    "topic": "topic",
    "name": "name",
}
"""Fields whose values are numbered as they come up, and among which others."""
_MODES = ("acks",)
"""Numbers that are modes."""
_WORDS_OF_A_RUN = ("operation", "text", "title", "keys", "kafka", "release", "pattern")
_ONLY_WAIT = ("Tell", "TakeSnapshot", "SetLogLevel")


@dataclass(slots=True)
class _Numbers:
    """Numbers things in the order in which they are first named."""

    known: dict[tuple[str, Any], int] = field(default_factory=dict)
    count: dict[str, int] = field(default_factory=dict)

    def of(self, kind: str, value: Any) -> str:
        if (kind, value) not in self.known:
            self.count[kind] = self.count.get(kind, 0) + 1
            self.known[kind, value] = self.count[kind]
        return f"{kind} {self.known[kind, value]}"


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of one run's findings."""

    _shape: Any
    _numbers: _Numbers
    _is_drawn: bool
    _last_seen: Mapping[str, Any]

    def of(self, finding: Finding) -> str:
        """Return the finding's fingerprint: twelve hexadecimal digits."""
        told = [finding.kind, *_what(finding), self._roles(finding), self._shape]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:_DIGITS]

    def _roles(self, finding: Finding) -> list[str]:
        if self._is_drawn:
            seen = self._last_seen.get(f"{finding.topic}-{finding.partition}")
            return sorted({_role_at_the_end(broker, seen) for broker in finding.brokers})
        return sorted(self._numbers.of("broker", broker) for broker in finding.brokers)


def fingerprints_of(scenario: ScenarioAbout, outcome: Outcome) -> Fingerprints:
    """Return the function that computes fingerprints of a run's findings."""
    numbers = _Numbers()
    is_drawn = scenario.entry == DRAWN
    shape = DRAWN if is_drawn else shape_of(scenario, numbers)
    settled = outcome.settle
    last_seen = settled.last_seen if settled is not None and settled.last_seen else {}
    return Fingerprints(shape, numbers, is_drawn, last_seen)


def with_fingerprints(
    findings: Sequence[Finding], scenario: ScenarioAbout, outcome: Outcome
) -> tuple[Finding, ...]:
    """Return the findings of a run, each with its fingerprint."""
    made = fingerprints_of(scenario, outcome) if findings else None
    return tuple(
        replace(finding, fingerprint=made.of(finding)) for finding in findings if made is not None
    )


def shape_of(scenario: ScenarioAbout, numbers: _Numbers | None = None) -> Any:
    """Return the scenario as plain JSON values, without its own numbers."""
    numbers = numbers if numbers is not None else _Numbers()
    steps: list[Any] = []
    for step in map(_done, scenario.steps):
        name = step.get("step", "")
        if name in _ONLY_WAIT or name.startswith("Await"):
            continue
        told = _normal(step, "", numbers)
        if steps[-1:] != [told]:
            steps.append(told)
    cluster = scenario.cluster
    releases = _Numbers()
    brokers = [
        [
            numbers.of("broker", broker.id),
            releases.of("release", broker.kafka),
            _settings(broker.properties),
        ]
        for broker in sorted(
            cluster.brokers, key=lambda broker: numbers.known.get(("broker", broker.id), len(steps))
        )
        if ("broker", broker.id) in numbers.known
    ]
    return [steps, brokers, cluster.tiered, _settings(cluster.properties)]


def _settings(properties: Mapping[str, str]) -> list[str]:
    """Return the names of the settings; settings that are modes have their values too."""
    return sorted(
        name if value[:1].isdigit() else f"{name}={value}" for name, value in properties.items()
    )


def _done(step: Mapping[str, Any]) -> Mapping[str, Any]:
    inner = step.get("do")
    return inner if isinstance(inner, Mapping) else step


def _normal(value: Any, key: str, numbers: _Numbers) -> Any:
    match value:
        case Mapping():
            told = {name: _normal(value[name], name, numbers) for name in value}
            return {name: kept for name, kept in told.items() if kept is not None}
        case bool() | None:
            return value
        case list() | tuple():
            return [_normal(item, key, numbers) for item in value]
        case _ if key in _NUMBERED and value != "":
            return numbers.of(_NUMBERED[key], value)
        case int() if key in _MODES:
            return value
        case str() if key not in _WORDS_OF_A_RUN and not value[:1].isdigit():
            return value
        case _:
            return None


def _what(finding: Finding) -> Sequence[str]:
    """Return the subject of a rule that has several."""
    evidence = finding.evidence
    return [str(evidence[name]) for name in ("what", "point", "reason") if _is_word(evidence, name)]


def _is_word(evidence: Mapping[str, Any], name: str) -> bool:
    value = evidence.get(name)
    return isinstance(value, str) and not any(letter.isdigit() for letter in value)


def _role_at_the_end(broker: int, seen: Any) -> str:
    if not isinstance(seen, Mapping):
        return "broker"
    if seen.get("leader") == broker:
        return "leader"
    isr = seen.get("isr")
    return "in sync" if isinstance(isr, list) and broker in isr else "not in sync"
