"""Cross-check of clients: history.jsonl beside the steps of scenario.json."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import SCENARIO
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.history import HISTORY, Operation
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.said import contradictions
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.observations import StepBegun

_CLOCK_S = 10.0
"""Most seconds by which the clock may be put while one operation begins."""
_WRITES = ("Produce", "WriteUntil", "WriteWhereTold")
STEPS_OF_KCHAOS = frozenset(
    {
        "Tell",
        "CreateTopic",
        "ReorderReplicas",
        "Reassign",
        "Produce",
        "AwaitAnswer",
        "WriteUntil",
        "Read",
        "FetchAs",
        "AskAs",
        "ConsumeFrom",
        "TierRead",
        "AwaitTiered",
        "AwaitLocalStart",
        "AwaitOffsets",
        "WriteWhereTold",
        "StartClients",
        "StartWorkload",
        "LetClientsRun",
        "StopClients",
        "Inject",
        "Heal",
        "AwaitState",
        "AwaitReplicated",
        "AwaitHighWatermark",
        "AwaitFollowing",
        "AwaitCutOff",
        "AwaitFetches",
        "AwaitHeld",
        "AwaitDecision",
        "AwaitLog",
        "AwaitPoint",
        "AwaitMessage",
        "AwaitMetadataRead",
        "AwaitHighWatermarkKept",
        "AwaitHighWatermarkForgotten",
        "AwaitThrottled",
        "AwaitCleaned",
        "WriteAcrossTimeout",
        "WriteAfterAbort",
        "LetTransactionTimeOut",
        "WriteWhenTimedOut",
        "DeleteRecords",
        "DeleteTopic",
        "AwaitLogStart",
        "SetLogLevel",
        "AwaitLeader",
        "AwaitInSync",
        "AwaitLevel",
        "IfPossible",
        "TakeSnapshot",
        "AwaitQuiet",
    }
)
"""Names that steps of kchaos have: no file or package may define another one of that name."""


def client_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yields where the history is not what the steps of the scenario asked clients to do.

    **Verifies**: that each produce is of a step that sends one of that name, to that partition and
    broker, with those records, acks and codec (or none, for a batch that would grow by it), or is
    settling's probe; that each step that was done has its produces; that a produce ended before the
    next step began if its step waited for it, acknowledged unless the step took an error too; that
    its records' timestamps are of when it was invoked; that a consumer got only what was sent; that
    links which saw all that clients did saw what a test says of them, and that it says it of
    partitions that there are.
    **Does not verify**: of a step that names no broker, to whom it was sent: the model knows who
    led.
    """
    told = {
        operation.operation: operation
        for operation in evidence.client_operations
        if operation.function == "produce" and not operation.is_refused_probe
    }
    sent = {
        timed.event.operation: timed
        for timed in evidence.actions
        if isinstance(timed.event, Produce)
    }
    yield from _reads(evidence)
    yield from _said(evidence)
    yield from _renamed(evidence)
    for operation in evidence.client_operations:
        if operation.outcome == "pending" and evidence.outcome.finished:
            yield (
                f"{HISTORY} does not say how {operation.operation!r} ended, and the run waited "
                "for it"
            )
    for name in sorted(told.keys() - sent.keys()):
        yield f"the model is not told of produce {name!r}"
    for name in sorted(sent.keys() - told.keys()):
        yield f"the model is told of produce {name!r}, which {HISTORY} does not invoke"
    for name in sorted(sent.keys() & told.keys()):
        yield from _unlike_the_step(evidence, sent[name], is_probe=told[name].is_probe)
        yield from _unlike_its_time(told[name])
    if evidence.outcome.finished:
        yield from _not_sent(evidence, sent)
        yield from _not_acknowledged(evidence, sent, told)
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
            for other in (*operations, *others, *evidence.said)
            if other.function == "produce"
            and (other.topic, other.partition) == (operation.topic, operation.partition)
            for payload in other.payloads
        }
        if operation.operation not in names:
            yield f"read {operation.operation!r} is no step of the scenario"
        if not sent.issuperset(operation.payloads):
            yield f"read {operation.operation!r} got records that nobody sent"


def _said(evidence: RunEvidence) -> Iterator[str]:
    """A test's statements of its clients agree with links, where these saw all."""
    yield from contradictions(evidence.said, evidence.clients)
    for operation in evidence.said:
        partition = TopicPartition(operation.topic, operation.partition)
        if partition not in evidence.partitions and partition.topic not in evidence.deletions:
            name = partition.name
            yield f"the test says that a client wrote to or read {name}, which is not there"


def _unlike_its_time(told: Operation) -> Iterator[str]:
    """A client's records say when it was asked to send them."""
    sent_ms = told.timestamp_ms
    if sent_ms is not None and abs(sent_ms / 1000 - told.invoked_at) > _CLOCK_S:
        yield (
            f"the records of produce {told.operation!r} are of {sent_ms / 1000}, and it was "
            f"invoked at {told.invoked_at}"
        )


def _awaited(
    evidence: RunEvidence, sent: Mapping[str, TimedEvent]
) -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Yields each produce for whose answer a step waits, with the number of that step and it."""
    steps = [step.get("do") or step for step in evidence.scenario.steps]
    later = {
        str(step.get("operation")): number
        for number, step in enumerate(steps)
        if step.get("step") == "AwaitAnswer"
    }
    for name in sorted(sent):
        number = later.get(name, sent[name].step)
        if number in evidence.undone or not 0 <= number < len(steps):
            continue
        if name in later or steps[number].get("await_answer", True):
            yield name, number, steps[number]


def _too_late(
    evidence: RunEvidence, sent: Mapping[str, TimedEvent], told: Mapping[str, Operation]
) -> Iterator[str]:
    """A step that waits for an answer has it before the next step begins."""
    begun = {line.step: line.time for line, _ in lines_of(evidence.observed, StepBegun)}
    for name, number, _ in _awaited(evidence, sent):
        ended = told[name].ended_at if name in told else None
        following = begun.get(number + 1, math.inf)
        if ended is not None and ended > following + 1:
            yield (
                f"produce {name!r} ended {ended - following:.1f} s after step {number + 1} began, "
                "which waited for it"
            )


def _not_acknowledged(
    evidence: RunEvidence, sent: Mapping[str, TimedEvent], told: Mapping[str, Operation]
) -> Iterator[str]:
    """A step that takes no error ends the run where its produce was not acknowledged."""
    for name, number, step in _awaited(evidence, sent):
        outcome = told[name].outcome if name in told else "pending"
        if step.get("accept_error") is False and outcome not in ("ok", "pending"):
            yield (
                f"produce {name!r} ended as {outcome!r}, and step {number} ends the run unless it "
                "is acknowledged"
            )


def _unlike_the_step(evidence: RunEvidence, timed: TimedEvent, *, is_probe: bool) -> Iterator[str]:
    action = timed.event
    assert isinstance(action, Produce)
    name, steps = action.operation, evidence.scenario.steps
    if timed.step >= len(steps) and is_probe:
        return
    if not 0 <= timed.step < len(steps):
        yield f"produce {name!r} belongs to step {timed.step}, of {len(steps)} that there are"
        return
    step = steps[timed.step]
    step = step.get("do") or step
    wanted, count = str(step.get("operation")), step.get("records")
    number = name.removeprefix(f"{wanted}.")
    is_numbered = bool(step.get("one_record_batches"))
    match step.get("step"):
        case "Produce" if name == wanted and not is_numbered:
            records = [f"{name}-{index}" for index in range(len(action.records))]
        case "Produce" if number != name and is_numbered and _is_below(count or 0, number):
            records, count = [f"{wanted}-{number}"], 1
        case "WriteUntil" if number != name:
            records, count, step = [f"{name}-0"], 1, {**step, "acks": 1}
        case "WriteWhereTold" if name.startswith(f"{wanted}-"):
            records, count, step = [name], 1, {**step, "acks": 1}
        case other if other not in _WRITES and not is_probe and _is_own(evidence, other):
            # Nobody wrote down beforehand what somebody's own step writes.
            return
        case _:
            yield f"produce {name!r} belongs to step {timed.step}, which is no such Produce"
            return
    asked = {
        "topic": step.get("topic", action.topic) == action.topic,
        "partition": step.get("partition", action.partition) == action.partition,
        "broker": step.get("broker") in (None, action.broker),
        "records": count is None or (len(records), records) == (count, [*action.records]),
        "acks": step.get("acks") == action.acks,
        "codec": action.codec in _codecs(step),
        "keys": all(key.startswith(f"{step.get('keys')}-") for key in action.keys),
        "mark of a probe": not is_probe,
    }
    others = [what for what, is_alike in asked.items() if not is_alike]
    if others:
        yield f"produce {name!r} has another {', '.join(others)} than its step {timed.step}"


def _is_own(evidence: RunEvidence, step: object) -> bool:
    """Whether a step is of a file or package that the scenario names, and not kchaos's."""
    return step not in STEPS_OF_KCHAOS and any(
        step in part.defines for part in evidence.scenario.parts
    )


def _renamed(evidence: RunEvidence) -> Iterator[str]:
    """A file or package that gives a step the name of one of kchaos's is refused when loaded."""
    for part in evidence.scenario.parts:
        for name in sorted(STEPS_OF_KCHAOS.intersection(part.defines)):
            yield f"{SCENARIO} says that {part.name} defines {name}, which is a step of kchaos"


def _not_sent(evidence: RunEvidence, sent: Mapping[str, TimedEvent]) -> Iterator[str]:
    """A Produce that was done is in the history, with each of its batches."""
    for number, step in enumerate(step.get("do") or step for step in evidence.scenario.steps):
        if step.get("step") != "Produce" or number in evidence.undone:
            continue
        batches = step.get("records") if step.get("one_record_batches") else 1
        in_history = sum(timed.step == number for timed in sent.values())
        if in_history != batches:
            yield f"{HISTORY} has {in_history} produces of step {number}, which sent {batches}"


def _is_below(count: int, number: str) -> bool:
    """Whether this is one of that many numbers from 0 on, as it is written in a name."""
    return bool(re.fullmatch(r"0|[1-9][0-9]{0,17}", number)) and int(number) < count


def _codecs(step: Mapping[str, Any]) -> tuple[str, str]:
    """With which codecs the batch of a step may have been sent; the bytes on disk tell which."""
    return str(step.get("codec", "none")), "none"
