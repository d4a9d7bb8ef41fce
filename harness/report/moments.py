"""The run moment by moment: steps, faults, decisions, writes, questions for epochs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.evidence.faults import ActedFault, acted_faults
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.formats.point_hit import PointHit
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.prediction import PredictedProduce
from kchaos.checkers.observations import (
    GaveUp,
    LeaderTold,
    Noted,
    ReassignedAgain,
    SettleOutcome,
    StepBegun,
    StepNotPossible,
)
from kchaos.harness.report.control import control_rows
from kchaos.harness.report.followers import lagging_looks
from kchaos.harness.report.leadership import Decisions, decision_text
from kchaos.harness.report.loading import Loaded

_MOST_HITS = 3
"""So many hits of one hold with the same fate are told one by one."""
_MOST_SEEN = 120
_ACKS = {-1: "all", 0: "0", 1: "1"}
_DULL = ("timeout_s", "step", "name", "one_record_batches", "accept_error", "await_answer", "codec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One thing that happened.

    Attributes:
        time: Seconds since 1970.
        kind: "story", "step", "own" (a step of somebody's own, or what it noted), "fault",
            "healed", "decision", "registration", "produce", "read", "round", "hit", "look", "late",
            "snapshot" or "unknown".
        text: One line for people.
        short: The same in a word or two, or "".
        outcome: "", "ok", "fail" or "info" (nobody knows).
        faults: Names of the faults that acted then.
    """

    time: float
    kind: str
    text: str
    short: str = ""
    outcome: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpan:
    """One fault from injection to healing.

    Attributes:
        what: The fault with what it was aimed at.
        injected: When the act began that caused its effect, in seconds since 1970.
        ended: When its effect ended: a process that it had ended or paused runs again. None while
            it acts.
        healed: When recovery was seen, or None if it never was.
        lasts: False for a fault that leaves nothing to heal, such as an election; then `healed` is
            when its effect was seen.
    """

    name: str
    what: str
    injected: float
    ended: float | None
    healed: float | None
    lasts: bool = True

    def acted_at(self, time: float) -> bool:
        """Return whether its effect lasted then, both ends included."""
        return self.injected <= time and (self.ended is None or time <= self.ended)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSpan:
    """One produce from invocation to answer.

    Attributes:
        ended: Seconds since 1970, or None if nobody ever answered.
        outcome: "ok", "fail" or "info" (nobody knows).
        answer: What came back, in a few words.
        predicted: What the prediction says of it, in a few words; "" without one.
    """

    operation: str
    broker: int
    partition: str
    acks: str
    records: int
    invoked: float
    ended: float | None
    outcome: str
    answer: str
    predicted: str


def faults_of(loaded: Loaded) -> tuple[FaultSpan, ...]:
    """Return every injected fault, in order; one without a healing stays open.

    A fault that does not last left nothing to heal.
    """
    steps = _specs(loaded)
    return tuple(
        FaultSpan(
            name=span.injected.name,
            what=_fault_text(span, steps),
            injected=span.began,
            ended=span.ended,
            healed=span.healed if span.injected.lasting else span.seen,
            lasts=span.injected.lasting,
        )
        for span in acted_faults(loaded.evidence.observed)
    )


def _fault_text(span: ActedFault, steps: Sequence[Mapping[str, Any]]) -> str:
    """Return a fault with what it was aimed at, as its own step says; else its class."""
    step = steps[span.step] if 0 <= span.step < len(steps) else {}
    fault = step.get("fault")
    if step.get("step") != "Inject" or not isinstance(fault, Mapping):
        return span.injected.fault
    rest = {key: value for key, value in fault.items() if key not in ("fault", "timeout_s")}
    return f"{fault.get('fault')}{_plain(rest) if rest else ''}"


def writes_of(loaded: Loaded) -> tuple[WriteSpan, ...]:
    """Return every produce, in the order of invocation, with response and prediction."""
    produces = () if loaded.prediction is None else loaded.prediction.produces
    foreseen = {produce.operation: produce for produce in produces}
    return tuple(
        _write(operation, foreseen.get(operation.operation))
        for operation in loaded.evidence.client_operations
        if operation.function == "produce"
    )


def _write(operation: Operation, foreseen: PredictedProduce | None) -> WriteSpan:
    records = len(operation.payloads)
    return WriteSpan(
        operation=operation.operation,
        broker=operation.broker,
        partition=f"{operation.topic}-{operation.partition}",
        acks=_ACKS.get(operation.acks, str(operation.acks)),
        records=records,
        invoked=operation.invoked_at,
        ended=operation.ended_at,
        outcome="info" if operation.ended_at is None else operation.outcome,
        answer="no answer" if operation.ended_at is None else _answer(operation),
        predicted="" if foreseen is None else _foreseen(foreseen, records),
    )


def _answer(operation: Operation) -> str:
    if operation.outcome != "ok":
        return operation.error or operation.outcome
    return _offsets(operation.base_offset, len(operation.payloads))


def _foreseen(produce: PredictedProduce, records: int) -> str:
    if produce.acknowledged:
        return _offsets(produce.base_offset, records)
    return produce.error or ("refused" if produce.acknowledged is False else "no answer")


def _offsets(base: int, records: int) -> str:
    return f"offsets {base}-{base + records - 1}" if records > 1 else f"offset {base}"


def moments(
    loaded: Loaded,
    *,
    decisions: Decisions,
    faults: Sequence[FaultSpan],
    writes: Sequence[WriteSpan],
    rounds: Sequence[AskedRound],
) -> tuple[Moment, ...]:
    """Return all moments, oldest first, each with the faults that acted then."""
    all_moments = [
        *_steps(loaded),
        *_of_faults(faults),
        *_of_decisions(decisions),
        *_of_writes(writes),
        *_of_reads(loaded),
        *_of_hits(loaded),
        *(
            Moment(time=time, kind="look", text=text, short="behind")
            for time, text in lagging_looks(loaded)
        ),
        *_of_late_requests(loaded),
        *_of_told(loaded),
        *(_of_round(each) for each in rounds if each.time is not None),
    ]
    all_moments.sort(key=lambda moment: moment.time)
    return tuple(
        replace(moment, faults=tuple(fault.name for fault in faults if fault.acted_at(moment.time)))
        for moment in all_moments
    )


def story_of(loaded: Loaded) -> tuple[str, ...]:
    """Return the sentences that the scenario prints during the play, in order."""
    steps = _specs(loaded)
    return tuple(str(step.get("text", "")) for step in steps if step.get("step") == "Tell")


def _specs(loaded: Loaded) -> list[Mapping[str, Any]]:
    """Return the scenario's steps, with the inner step of one that is only tried."""
    return [step.get("do") or step for step in loaded.scenario.steps]


def _steps(loaded: Loaded) -> Iterable[Moment]:
    steps = _specs(loaded)
    own = {name for part in loaded.scenario.parts for name in part.defines}
    for line in loaded.evidence.observed:
        time, index = line.time, line.step
        match line.what:
            case StepBegun(name=name):
                spec = steps[index] if 0 <= index < len(steps) else {"step": name}
                if spec.get("step") == "Tell":
                    yield Moment(time=time, kind="story", text=str(spec.get("text", "")))
                else:
                    kind = "own" if spec.get("step") in own else "step"
                    yield Moment(time=time, kind=kind, text=f"step {index}: {_step_text(spec)}")
            case StepNotPossible(reason=reason):
                yield Moment(time=time, kind="step", text=f"not possible: {reason}")
            case ReassignedAgain(topic=topic, partition=partition):
                text = f"the reassignment of {topic}-{partition} was lost, and is requested again"
                yield Moment(time=time, kind="step", text=text)
            case Noted(kind=kind, fields=fields):
                yield Moment(time=time, kind="own", text=f"{kind} {_plain(fields)}")
            case SettleOutcome(state=state):
                yield Moment(time=time, kind="step", text=f"settle: {state}")
            case GaveUp(reason=reason):
                text = f"gave up: {reason}"
                yield Moment(time=time, kind="unknown", text=text, outcome="fail")
    for taken in loaded.evidence.snapshots:
        text = f"snapshot {taken.label}"
        yield Moment(time=taken.time, kind="snapshot", text=text, short=taken.label)


def _step_text(spec: Mapping[str, Any]) -> str:
    name = str(spec.get("step"))
    if name == "Inject" and isinstance(spec.get("fault"), Mapping):
        return f"Inject {spec.get('name')}"
    if "topic" in spec and "partition" in spec:
        name += f" {spec['topic']}-{spec['partition']}"
    rest = {
        key: value
        for key, value in spec.items()
        if key not in (*_DULL, "topic", "partition") and value not in (None, "", [], {})
    }
    return " ".join([name, *(f"{key}={_plain(value)}" for key, value in rest.items())])


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(_plain(item) for item in value) + "]"
    if isinstance(value, Mapping):
        inside = (f"{key}={_plain(item)}" for key, item in value.items() if item not in (None, ""))
        return "(" + ", ".join(inside) + ")"
    return str(round(value, 3) if isinstance(value, float) else value)


def _of_faults(faults: Iterable[FaultSpan]) -> Iterable[Moment]:
    for fault in faults:
        yield Moment(time=fault.injected, kind="fault", text=f"fault {fault.name}: {fault.what}")
        if fault.healed is not None and fault.lasts:
            yield Moment(time=fault.healed, kind="healed", text=f"healed {fault.name}")


def _of_decisions(decisions: Decisions) -> Iterable[Moment]:
    for timed in decisions.events:
        text = decision_text(timed, decisions)
        if text:
            kind = "decision" if isinstance(timed.event, PartitionState) else "registration"
            yield Moment(time=timed.time, kind=kind, text=text)


def _of_late_requests(loaded: Loaded) -> Iterable[Moment]:
    """Yield control requests to an earlier generation of a broker."""
    for row in control_rows(loaded):
        if row.is_late:
            of_partitions = f", about {row.partitions}" if row.partitions else ""
            text = f"{row.request}{of_partitions}: in force is {row.in_force}; {row.answer}"
            yield Moment(time=row.time, kind="late", text=text)


def _of_told(loaded: Loaded) -> Iterable[Moment]:
    """Yield metadata responses to a client: of the asked broker, and of the named leader."""
    for line, look in lines_of(loaded.evidence.observed, LeaderTold):
        text = f"client {look.operation} asks broker {look.by}: "
        text += f"leader {look.leader} of brokers {[*look.brokers]}"
        if look.fetch_error_code is not None:
            text += f"; there a read gets error {look.fetch_error_code}, "
            text += f"a write {look.produce_error_code}"
        yield Moment(time=line.time, kind="told", text=text)


def _of_writes(writes: Iterable[WriteSpan]) -> Iterable[Moment]:
    for write in writes:
        yield Moment(
            time=write.invoked,
            kind="produce",
            text=f"produce {write.operation} to broker {write.broker}: {write.records} "
            f"record{'s' if write.records != 1 else ''}, acks {write.acks}",
        )
        if write.ended is not None:
            meaning = {"ok": "acknowledged, ", "fail": "refused: ", "info": "nobody knows: "}
            yield Moment(
                time=write.ended,
                kind="produce",
                text=f"produce {write.operation}: {meaning[write.outcome]}{write.answer}",
                outcome=write.outcome,
            )


def _of_reads(loaded: Loaded) -> Iterable[Moment]:
    for operation in loaded.evidence.client_operations:
        if operation.function == "read" and operation.ended_at is not None:
            yield Moment(
                time=operation.ended_at,
                kind="read",
                text=f"consumer read {operation.operation} from broker {operation.broker}: "
                f"{_answer(operation)}",
                short="read",
                outcome=operation.outcome,
            )


def _of_hits(loaded: Loaded) -> Iterable[Moment]:
    """Yield threads that were held at a point, and when they went on."""
    shown: dict[tuple[str, str], int] = {}
    for hit in loaded.evidence.hits:
        key = (hit.hold, hit.fate)
        count = shown[key] = shown.get(key, 0) + 1
        if hit.fate in ("passed", "told") or count > _MOST_HITS + 1:
            continue
        text = f"{hit.fate} at {hit.point} by {hit.hold}: broker {hit.broker}"
        if count > _MOST_HITS:
            text += ", and more of them (hits.jsonl)"
        else:
            text += f", thread {hit.thread}{_seen_at(hit)}"
        yield Moment(time=hit.time, kind="hit", text=text, short=hit.fate)


def _seen_at(hit: PointHit) -> str:
    cut = f"{hit.seen[:_MOST_SEEN]}…" if len(hit.seen) > _MOST_SEEN else hit.seen
    return f"{f', reader {hit.reader}' if hit.reader else ''}{f', saw {cut}' if cut else ''}"


def _of_round(each: AskedRound) -> Moment:
    if each.end_offset is None:
        answer = f"no answer seen{f' ({each.fate})' if each.fate else ''}"
    elif each.error_code:
        answer = f"error {each.error_code}"
    else:
        epoch = "" if each.answered_epoch is None else f"epoch {each.answered_epoch}, "
        answer = f"{epoch}end offset {each.end_offset}"
    end = "?" if each.end_offset is None else each.end_offset
    how = "diverging epoch" if each.by_fetch else "OffsetForLeaderEpoch"
    return Moment(
        time=each.time or 0.0,
        kind="round",
        short=f"e{each.requested_epoch}→{end}",
        text=f"{how} {each.follower} → {each.leader}: epoch {each.requested_epoch}? {answer}",
    )
