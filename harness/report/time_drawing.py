"""The time line as places on the page: tracks of bars, and the shade of every fault."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kchaos.harness.report.leadership import Decisions
from kchaos.harness.report.moments import Fault, Moment, Write
from kchaos.harness.report.placement import (
    Box,
    TimeAxis,
    label_width,
    pack,
    style_of_epoch,
    time_axis,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """Rows of bars under one name on the time line."""

    name: str
    boxes: tuple[Box, ...]

    @property
    def rows(self) -> int:
        """How many rows it needs."""
        return 1 + max((box.row for box in self.boxes), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTime:
    """The time line: tracks, the shade that every fault throws on them, and printed times."""

    tracks: tuple[Track, ...]
    shades: tuple[Box, ...]
    marks: tuple[tuple[float, float], ...]


def draw_time(
    *,
    moments: Sequence[Moment],
    faults: Sequence[Fault],
    writes: Sequence[Write],
    decisions: Decisions,
    started_at: float,
    ended_at: float,
) -> DrawnTime:
    """The overview above the list of moments."""
    ended_at = max([ended_at, *(moment.time for moment in moments)])
    axis = time_axis([moment.time for moment in moments] + [ended_at])
    shades = tuple(
        Box(
            x=round(axis.place(fault.injected), 3),
            width=round(axis.place(fault.healed or ended_at) - axis.place(fault.injected), 3),
            title=f"{fault.name}: {fault.what}",
        )
        for fault in faults
    )
    told = [moment for moment in moments if moment.kind == "story"]
    tracks = [
        _packed("story", [_dot(m, axis, str(n)) for n, m in enumerate(told, start=1)]),
        _packed("faults", [_fault_box(f, axis, ended_at, started_at) for f in faults]),
        *_leader_tracks(decisions, axis, ended_at),
        _packed("produce", [_write_box(write, axis, ended_at) for write in writes]),
        _packed("reads", [_dot(m, axis) for m in moments if m.kind == "read"]),
        _packed("epoch questions", [_dot(m, axis) for m in moments if m.kind == "round"]),
        _packed("at points", [_dot(m, axis) for m in moments if m.kind == "hit"]),
        _packed("ISR looks", [_dot(m, axis) for m in moments if m.kind == "look"]),
        _packed("snapshots", [_dot(m, axis) for m in moments if m.kind == "snapshot"]),
    ]
    return DrawnTime(
        tracks=tuple(track for track in tracks if track.boxes),
        shades=shades,
        marks=tuple((time - started_at, round(place, 3)) for time, place in axis.marks()),
    )


def _packed(name: str, boxes: Sequence[Box]) -> Track:
    return Track(name=name, boxes=pack(boxes))


def _fault_box(fault: Fault, axis: TimeAxis, ended_at: float, started_at: float) -> Box:
    x = axis.place(fault.injected)
    until = "never healed"
    if not fault.lasts:
        until = "nothing to heal"
    elif fault.healed is not None:
        until = f"healed at {fault.healed - started_at:.3f} s"
    return Box(
        x=round(x, 3),
        width=round(max(0.4, axis.place(fault.healed or ended_at) - x), 3),
        label=fault.name,
        title=f"{fault.what}, injected at {fault.injected - started_at:.3f} s, {until}",
        style="fault" if fault.healed is not None else "fault open",
    )


def _leader_tracks(decisions: Decisions, axis: TimeAxis, ended_at: float) -> list[Track]:
    by_partition: dict[str, list[Any]] = {}
    for timed, state in decisions.states:
        by_partition.setdefault(f"{state.topic}-{state.partition}", []).append((timed.time, state))
    tracks = []
    for name, states in list(by_partition.items())[:12]:
        ends = [time for time, _ in states[1:]] + [ended_at]
        boxes = []
        for (time, state), end in zip(states, ends, strict=True):
            x, isr = axis.place(time), ",".join(map(str, state.isr))
            width = axis.place(end) - x
            leads = f"leader {state.leader}" if state.leader >= 0 else "no leader"
            label = f"{leads} e{state.leader_epoch} ISR {isr}"
            shorter = (
                label,
                f"{leads} e{state.leader_epoch}",
                f"e{state.leader_epoch}",
            )
            boxes.append(
                Box(
                    x=round(x, 3),
                    width=round(width, 3),
                    label=next((each for each in shorter if label_width(each) <= width), ""),
                    title=f"{name}: leader {state.leader}, leader epoch {state.leader_epoch}, "
                    f"ISR {isr}, version {state.version}, {decisions.position} {state.zxid}",
                    style=style_of_epoch(state.leader_epoch) if state.leader >= 0 else "hole",
                )
            )
        tracks.append(Track(name=name, boxes=tuple(boxes)))
    return tracks


def _write_box(write: Write, axis: TimeAxis, ended_at: float) -> Box:
    x = axis.place(write.invoked)
    return Box(
        x=round(x, 3),
        width=round(max(0.6, axis.place(write.ended or ended_at) - x), 3),
        label=f"{ {'ok': '✓', 'fail': '✗'}.get(write.outcome, '?') } {write.operation}",
        title=f"{write.operation} to broker {write.broker}, acks {write.acks}: {write.answer}",
        style=write.outcome,
    )


def _dot(moment: Moment, axis: TimeAxis, label: str = "") -> Box:
    return Box(
        x=round(axis.place(moment.time), 3),
        width=0.6,
        label=label or moment.short,
        title=moment.text,
        style="dot",
    )
