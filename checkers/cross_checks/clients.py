"""Cross-check of clients: history.jsonl beside actions.jsonl and the steps of scenario.json."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.evidence.actions import ACTIONS, TimedEvent, is_internal
from kchaos.checkers.evidence.history import HISTORY, Operation, record_payloads
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import Produce

_APART_S = 60.0
_CLOCK_S = 10.0
"""How far the clock may be put while one operation begins."""


def client_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields where operations and produce actions are not the same, one for one.

    **Verifies**: that each produce is in both, with the same broker, partition, acks and records,
    within a minute; that its step is a Produce of that name, acks, codec (or none, for a batch that
    would grow by it) and number of records, or settling's probe; that it ended before the next step
    began if its step waited for it, and that its records' timestamps are of when it was invoked.
    **Does not verify**: reads, which the model does not act upon.
    """
    sent: dict[str, TimedEvent] = {}
    for timed in evidence.events:
        if isinstance(timed.event, Produce):
            if timed.event.operation in sent:
                yield f"{ACTIONS} has produce {timed.event.operation!r} twice"
            sent[timed.event.operation] = timed
    told = {
        operation.operation: operation
        for operation in evidence.client_operations
        if operation.function == "produce" and not is_internal(operation.topic)
    }
    yield from _reads(evidence)
    for operation in evidence.client_operations:
        if operation.outcome == "pending" and evidence.outcome.finished:
            yield (
                f"{HISTORY} does not say how {operation.operation!r} ended, and the run waited "
                "for it"
            )
    for name in sorted(sent.keys() - told.keys()):
        yield f"produce {name!r} is in {ACTIONS} and not in {HISTORY}"
    for name in sorted(told.keys() - sent.keys()):
        yield f"produce {name!r} is in {HISTORY} and not in {ACTIONS}"
    for name in sorted(sent.keys() & told.keys()):
        yield from _differences(name, sent[name], told[name])
        yield from _unlike_the_step(evidence, name, sent[name], told[name])
        yield from _unlike_its_time(told[name])
    yield from _too_late(evidence, sent, told)


def _reads(evidence: RunEvidence) -> Iterator[str]:
    """A consumer gets only what somebody sent, at the step that says so."""
    operations = evidence.client_operations
    others = () if evidence.clients is None else evidence.clients.operations
    names = {(step.get("do") or step).get("operation") for step in evidence.scenario.steps}
    for operation in operations:
        if operation.function != "read":
            continue
        sent = {
            payload
            for other in (*operations, *others)
            if other.function == "produce"
            and (other.topic, other.partition) == (operation.topic, operation.partition)
            for payload in other.payloads
        }
        if operation.operation not in names:
            yield f"read {operation.operation!r} is no step of the scenario"
        if not sent.issuperset(operation.payloads):
            yield f"read {operation.operation!r} got records that nobody sent"


def _differences(name: str, timed: TimedEvent, told: Operation) -> Iterator[str]:
    action = timed.event
    assert isinstance(action, Produce)
    pairs: Mapping[str, tuple[Any, Any]] = {
        "broker": (action.broker, told.broker),
        "topic": (action.topic, told.topic),
        "partition": (action.partition, told.partition),
        "acks": (action.acks, told.acks),
        "records": (record_payloads(action.records, action.keys), told.payloads),
        "keys": (action.keys, told.keys),
    }
    different = [field for field, (acted, other) in pairs.items() if acted != other]
    if different:
        yield f"produce {name!r} has other {', '.join(different)} in {HISTORY} than in {ACTIONS}"
    if abs(timed.time - told.invoked_at) > _APART_S:
        yield f"produce {name!r} was invoked at {told.invoked_at} and acted upon at {timed.time}"


def _unlike_its_time(told: Operation) -> Iterator[str]:
    """A client's records say when it was asked to send them."""
    sent_ms = told.timestamp_ms
    if sent_ms is not None and abs(sent_ms / 1000 - told.invoked_at) > _CLOCK_S:
        yield (
            f"the records of produce {told.operation!r} are of {sent_ms / 1000}, and it was "
            f"invoked at {told.invoked_at}"
        )


def _too_late(
    evidence: RunEvidence, sent: Mapping[str, TimedEvent], told: Mapping[str, Operation]
) -> Iterator[str]:
    """A step that waits for an answer has it before the next step begins."""
    steps = [step.get("do") or step for step in evidence.scenario.steps]
    begun = {
        observation.step: observation.time
        for observation in evidence.observed
        if observation.kind == "step"
    }
    undone = {
        observation.step
        for observation in evidence.observed
        if observation.kind in ("not-possible", "unknown")
    }
    awaited = {
        str(step.get("operation")): number
        for number, step in enumerate(steps)
        if step.get("step") == "AwaitAnswer"
    }
    for name in sorted(sent.keys() & told.keys()):
        ended = told[name].ended_at
        number = awaited.get(name, sent[name].step)
        if ended is None or number in undone or not 0 <= number < len(steps):
            continue
        is_awaited = name in awaited or steps[number].get("await_answer", True)
        following = begun.get(number + 1, math.inf)
        if is_awaited and ended > following + 1:
            yield (
                f"produce {name!r} ended {ended - following:.1f} s after step {number + 1} began, "
                "which waited for it"
            )


def _unlike_the_step(
    evidence: RunEvidence, name: str, timed: TimedEvent, told: Operation
) -> Iterator[str]:
    action = timed.event
    assert isinstance(action, Produce)
    steps = evidence.scenario.steps
    if timed.step >= len(steps) and told.is_probe:
        return
    if not 0 <= timed.step < len(steps):
        yield f"produce {name!r} belongs to step {timed.step}, of {len(steps)} that there are"
        return
    step = steps[timed.step]
    step = step.get("do") or step
    wanted, kind = str(step.get("operation")), step.get("step")
    is_own = kind == "Produce" and (name == wanted or name.startswith(f"{wanted}."))
    if kind == "WriteUntil":
        is_own, step = name.startswith(f"{wanted}."), {**step, "acks": 1}
    if kind == "WriteWhereTold":
        is_own, step = name.startswith(f"{wanted}-"), {**step, "acks": 1}
    if not is_own:
        yield f"produce {name!r} belongs to step {timed.step}, which is no such Produce"
    elif step.get("acks") != action.acks or action.codec not in _codecs(step):
        yield f"produce {name!r} has other acks or another codec than its step {timed.step}"
    elif any(not key.startswith(f"{step.get('keys')}-") for key in action.keys):
        yield f"produce {name!r} has other keys than its step {timed.step}"
    elif told.is_probe:
        yield f"produce {name!r} belongs to step {timed.step} and is marked as settling's probe"


def _codecs(step: Mapping[str, Any]) -> tuple[str, str]:
    """With which codecs the batch of a step may have been sent; the bytes on disk tell which."""
    return str(step.get("codec", "none")), "none"
