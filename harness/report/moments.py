"""What happened, moment by moment: steps, faults, decisions, writes, questions for epochs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkers.model.events import PartitionState
from harness.report.leadership import Decisions, decision_text
from harness.report.loading import Line, Loaded
from harness.report.rounds import Round

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
        kind: "story", "step", "fault", "healed", "decision", "registration", "produce", "read",
            "round", "hit", "snapshot" or "unknown".
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
class Fault:
    """One fault from injection to healing.

    Attributes:
        what: The fault with what it was aimed at.
        healed: Seconds since 1970, or None if it never was.
        lasts: False for a fault that leaves nothing to heal, such as an election; then `healed` is
            when its effect was seen.
    """

    name: str
    what: str
    injected: float
    healed: float | None
    lasts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One produce from invocation to answer.

    Attributes:
        ended: Seconds since 1970, or None if nobody ever answered.
        outcome: "ok", "fail" or "info" (nobody knows).
        answer: What came back, in a few words.
        predicted: What the prediction says of it, in a few words; "" without one.
    """

    operation: str
    broker: int
    about: str
    acks: str
    records: int
    invoked: float
    ended: float | None
    outcome: str
    answer: str
    predicted: str


def faults_of(loaded: Loaded) -> tuple[Fault, ...]:
    """Every fault that was injected, in order; one that nobody healed stays open.

    A run that finished has healed all that lasts, so in it a fault without a healing left nothing
    to heal. Elsewhere the observation's "lasting" says so.
    """
    is_finished = bool(loaded.outcome.get("finished"))
    specs = _fault_specs(loaded)
    # "injected" is written once the effect was seen; what caused the effect is the act before it.
    acted: dict[Any, float] = {}
    opened: list[tuple[Line, float | None]] = []
    for line in loaded.observations:
        if line.get("kind") == "act":
            acted.setdefault(line.get("step"), float(line["time"]))
        elif line.get("kind") == "injected":
            opened.append((line, None))
        elif line.get("kind") == "healed":
            for index, (injected, healed) in enumerate(opened):
                if injected.get("name") == line.get("name") and healed is None:
                    opened[index] = (injected, float(line["time"]))
    return tuple(
        _fault(line, healed, acted.get(line.get("step")), specs, is_finished)
        for line, healed in opened
    )


def _fault(
    line: Line,
    healed: float | None,
    acted: float | None,
    specs: Mapping[str, str],
    is_finished: bool,
) -> Fault:
    name, seen = str(line.get("name")), float(line["time"])
    lasts = healed is not None or bool(line.get("lasting", not is_finished))
    return Fault(
        name=name,
        what=specs.get(name, str(line.get("fault"))),
        injected=seen if acted is None else min(acted, seen),
        healed=healed if lasts else seen,
        lasts=lasts,
    )


def writes_of(loaded: Loaded) -> tuple[Write, ...]:
    """Every produce, in the order of invocation, with answer and prediction."""
    foreseen = {line["operation"]: line for line in loaded.prediction.get("produces", ())}
    invoked: dict[str, Line] = {}
    answered: dict[str, Line] = {}
    for line in loaded.history:
        if line.get("function") == "produce":
            (invoked if line["type"] == "invoke" else answered)[line["operation"]] = line
    return tuple(
        _write(line, answered.get(operation), foreseen.get(operation))
        for operation, line in invoked.items()
    )


def _write(invoked: Line, answered: Line | None, foreseen: Line | None) -> Write:
    records = len(invoked.get("records", ()))
    outcome, answer = "info", "no answer"
    if answered is not None:
        outcome, answer = str(answered["type"]), _answer(answered, records)
    return Write(
        operation=str(invoked["operation"]),
        broker=int(invoked["broker"]),
        about=f"{invoked['topic']}-{invoked['partition']}",
        acks=_ACKS.get(invoked["acks"], str(invoked["acks"])),
        records=records,
        invoked=float(invoked["time"]),
        ended=None if answered is None else float(answered["time"]),
        outcome=outcome,
        answer=answer,
        predicted="" if foreseen is None else _foreseen(foreseen, records),
    )


def _answer(line: Line, records: int) -> str:
    if line["type"] != "ok":
        return str(line.get("error", line["type"]))
    return _offsets(line["base_offset"], records)


def _foreseen(line: Line, records: int) -> str:
    acknowledged = line.get("acknowledged")
    if acknowledged:
        return _offsets(line["base_offset"], records)
    return str(line.get("error") or ("refused" if acknowledged is False else "no answer"))


def _offsets(base: int, records: int) -> str:
    return f"offsets {base}-{base + records - 1}" if records > 1 else f"offset {base}"


def moments(
    loaded: Loaded,
    *,
    decisions: Decisions,
    faults: Sequence[Fault],
    writes: Sequence[Write],
    rounds: Sequence[Round],
) -> tuple[Moment, ...]:
    """Everything in one list, oldest first; each moment names the faults that acted then."""
    found = [
        *_steps(loaded),
        *_of_faults(faults),
        *_of_decisions(decisions),
        *_of_writes(writes),
        *_of_reads(loaded),
        *_of_hits(loaded),
        *(_of_round(each) for each in rounds if each.time is not None),
    ]
    found.sort(key=lambda moment: moment.time)
    return tuple(
        replace(
            moment,
            faults=tuple(
                fault.name
                for fault in faults
                if fault.injected <= moment.time <= (fault.healed or float("inf"))
            ),
        )
        for moment in found
    )


def story_of(loaded: Loaded) -> tuple[str, ...]:
    """What the scenario tells while it is played, in order."""
    steps = _specs(loaded)
    return tuple(str(step["text"]) for step in steps if step.get("step") == "Tell")


def _specs(loaded: Loaded) -> list[Mapping[str, Any]]:
    """The scenario's steps; of a step that is only tried, the step inside."""
    return [step.get("do") or step for step in loaded.scenario.get("steps", ())]


def _steps(loaded: Loaded) -> Iterable[Moment]:
    steps = _specs(loaded)
    for line in loaded.observations:
        time, kind, index = float(line["time"]), line.get("kind"), int(line.get("step", -1))
        if kind == "step":
            spec = steps[index] if 0 <= index < len(steps) else {"step": line.get("name")}
            if spec.get("step") == "Tell":
                yield Moment(time=time, kind="story", text=str(spec["text"]))
            else:
                yield Moment(time=time, kind="step", text=f"step {index}: {_step_text(spec)}")
        elif kind == "not-possible":
            text = f"not possible: {line.get('reason')}"
            yield Moment(time=time, kind="step", text=text)
        elif kind == "settled":
            yield Moment(time=time, kind="step", text=f"settle: {line.get('state')}")
        elif kind == "unknown":
            text = f"gave up: {line.get('reason')}"
            yield Moment(time=time, kind="unknown", text=text, outcome="fail")
    for label in loaded.directory.snapshots():
        taken = loaded.directory.read(f"snapshots/{label}/snapshot.json")["time"]
        yield Moment(time=float(taken), kind="snapshot", text=f"snapshot {label}", short=label)


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
    return str(value)


def _fault_specs(loaded: Loaded) -> dict[str, str]:
    specs = {}
    for step in _specs(loaded):
        fault = step.get("fault")
        if step.get("step") == "Inject" and isinstance(fault, Mapping):
            rest = {key: value for key, value in fault.items() if key not in ("fault", "timeout_s")}
            specs[str(step.get("name"))] = f"{fault.get('fault')}{_plain(rest) if rest else ''}"
    return specs


def _of_faults(faults: Iterable[Fault]) -> Iterable[Moment]:
    for fault in faults:
        yield Moment(time=fault.injected, kind="fault", text=f"fault {fault.name}: {fault.what}")
        if fault.healed is not None and fault.lasts:
            yield Moment(time=fault.healed, kind="healed", text=f"healed {fault.name}")


def _of_decisions(decisions: Decisions) -> Iterable[Moment]:
    for timed in decisions.events:
        text = decision_text(timed)
        if text:
            kind = "decision" if isinstance(timed.event, PartitionState) else "registration"
            yield Moment(time=timed.time, kind=kind, text=text)


def _of_writes(writes: Iterable[Write]) -> Iterable[Moment]:
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
    for line in loaded.history:
        if line.get("function") == "read" and line["type"] != "invoke":
            got = _answer(line, len(line.get("records", ())))
            yield Moment(
                time=float(line["time"]),
                kind="read",
                text=f"consumer read {line['operation']} from broker {line['broker']}: {got}",
                short="read",
                outcome=str(line["type"]),
            )


def _of_hits(loaded: Loaded) -> Iterable[Moment]:
    """Threads that came to a point and were kept there, and when they went on."""
    shown: dict[tuple[str, str], int] = {}
    for line in loaded.hits:
        hold, fate = str(line.get("hold")), str(line.get("fate"))
        count = shown[hold, fate] = shown.get((hold, fate), 0) + 1
        if fate == "passed" or count > _MOST_HITS + 1:
            continue
        text = f"{fate} at {line.get('point')} by {hold}: broker {line.get('broker')}"
        if count > _MOST_HITS:
            text += ", and more of them (hits.jsonl)"
        else:
            text += f", thread {line.get('thread')}{_seen_at(line)}"
        yield Moment(time=float(line["time"]), kind="hit", text=text, short=fate)


def _seen_at(line: Line) -> str:
    reader, seen = str(line.get("reader") or ""), str(line.get("seen") or "")
    cut = f"{seen[:_MOST_SEEN]}…" if len(seen) > _MOST_SEEN else seen
    return f"{f', reader {reader}' if reader else ''}{f', saw {cut}' if cut else ''}"


def _of_round(each: Round) -> Moment:
    if each.end_offset is None:
        answer = f"no answer seen{f' ({each.fate})' if each.fate else ''}"
    elif each.error:
        answer = f"error {each.error}"
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
