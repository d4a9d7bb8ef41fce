"""The picture of a run: lanes of brokers, cuts between them, clients, and decisive messages."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.harness.report.broker_states import Stretch, broker_stretches, link_stretches
from kchaos.harness.report.cause.story import CauseStep
from kchaos.harness.report.leadership import Decisions
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.moments import FaultSpan, Moment, WriteSpan
from kchaos.harness.report.placement import (
    Box,
    TimeAxis,
    in_rows,
    label_width,
    pack,
    style_of_epoch,
    time_axis,
)

_ROW, _BAR = 22, 18
_LIFE, _ROLE, _BADGE = 18, 20, 18
_GAP = 12
_MOST_TRACKS = 12
_MOST_ARROWS = 60
"""So many writes are drawn as arrows, and so many questions for epochs."""
_MOST_LABELLED = 8
_MOST_ALIKE = 8
"""So many writes with the same answer, one after the other, are drawn one by one; so are questions
for a leader epoch that are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLane:
    """A strip across the picture, in pixels from its top.

    Attributes:
        note: What the story calls it, or "".
        words: What is drawn in it, a line each, in the order of time.
    """

    name: str
    top: int
    height: int
    note: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A box of the picture: `box` says where along the time, `top` and `height` where across."""

    box: Box
    top: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A message from one lane to another.

    Attributes:
        x: In percent of the width.
        style: Names for the style sheet.
        title: What it says, in full.
        label: The same in a word, or "".
        row: How many labels stand above its own beside the same stretch of lanes.
    """

    x: float
    from_y: int
    to_y: int
    style: str
    title: str
    label: str = ""
    row: int = 0

    @property
    def middle(self) -> int:
        """Halfway between its ends."""
        return (self.from_y + self.to_y) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Badge:
    """The number of a sentence of the cause, where it happened."""

    x: float
    y: int
    number: int
    title: str
    is_fatal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTime:
    """The picture; everything across is in pixels, everything along in percent of the width.

    Attributes:
        partition: The partition whose leaders the lanes of brokers show; "" if there is none.
        marks: (seconds, place) of printed times.
    """

    partition: str
    lanes: tuple[TimeLane, ...]
    bars: tuple[Bar, ...]
    arrows: tuple[Arrow, ...]
    badges: tuple[Badge, ...]
    marks: tuple[tuple[float, float], ...]
    height: int
    axis: TimeAxis


def draw_time(
    loaded: Loaded,
    *,
    partition: TopicPartition | None,
    moments: Sequence[Moment],
    faults: Sequence[FaultSpan],
    writes: Sequence[WriteSpan],
    decisions: Decisions,
    rounds: Sequence[AskedRound],
    cause: Sequence[CauseStep],
    names: Mapping[int, str],
) -> DrawnTime:
    """Return the picture above the list of moments.

    `partition` is the one whose leaders and ISR are drawn; `names` are the story's brokers.
    """
    ended_at = max([loaded.ended_at, *(moment.time for moment in moments)])
    axis = time_axis([moment.time for moment in moments] + [ended_at])
    drawing = _Drawing(axis=axis, zero=loaded.started_at, ended_at=ended_at)
    story_moments = [moment for moment in moments if moment.kind == "story"]
    drawing.track("story", [_dot(m, axis, str(n)) for n, m in enumerate(story_moments, start=1)])
    drawing.track("faults", [_fault_box(f, axis, ended_at, loaded.started_at) for f in faults])
    numbered = {step.brokers[0] for step in cause if step.time is not None and step.brokers}
    _draw_brokers(drawing, loaded, partition, decisions, rounds, names, numbered)
    _draw_writes(drawing, writes)
    for name, kind in (
        ("reads", "read"),
        ("at points", "hit"),
        ("ISR looks", "look"),
        ("snapshots", "snapshot"),
    ):
        drawing.track(name, [_dot(m, axis) for m in moments if m.kind == kind])
    for name, boxes in _leader_tracks(decisions, axis, ended_at, partition):
        drawing.track(name, boxes)
    for number, step in enumerate(cause, start=1):
        drawing.badge(number, step)
    return DrawnTime(
        partition="" if partition is None else f"{partition.topic}-{partition.partition}",
        lanes=tuple(drawing.lanes),
        bars=tuple(drawing.bars),
        arrows=tuple(drawing.arrows),
        badges=tuple(drawing.badges),
        marks=tuple((time - loaded.started_at, round(place, 3)) for time, place in axis.marks(10)),
        height=drawing.bottom,
        axis=axis,
    )


class _Drawing:
    """Lanes from top to bottom, and what is on them."""

    def __init__(self, *, axis: TimeAxis, zero: float, ended_at: float) -> None:
        self.axis, self.zero, self.ended_at = axis, zero, ended_at
        self.lanes: list[TimeLane] = []
        self.bars: list[Bar] = []
        self.arrows: list[Arrow] = []
        self.badges: list[Badge] = []
        self.middles: dict[int, int] = {}
        self.bottom = 4

    def track(self, name: str, boxes: Sequence[Box]) -> None:
        """Add a lane of packed boxes, if there are any."""
        if not boxes:
            return
        placed = pack(boxes)
        rows = 1 + max(box.row for box in placed)
        for box in placed:
            top = self.bottom + box.row * _ROW + 2
            self.bars.append(Bar(box=box, top=top, height=_BAR))
        words = tuple(box.title for box in sorted(placed, key=lambda box: box.x))
        height = rows * _ROW
        self.lanes.append(TimeLane(name=name, top=self.bottom, height=height, words=words))
        self.bottom += height + 8

    def stretch(self, stretch: Stretch) -> Box:
        """Return the stretch as a box, without a label that does not fit."""
        x = self.axis.place(stretch.began)
        ended = self.ended_at if stretch.ended is None else stretch.ended
        width = max(0.4, self.axis.place(ended) - x)
        labels = (stretch.label, *stretch.shorter)
        until = "the end" if stretch.ended is None else f"{ended - self.zero:.3f} s"
        return Box(
            x=round(x, 3),
            width=round(width, 3),
            label=next((label for label in labels if label_width(label) <= width), ""),
            title=f"{stretch.title}, from {stretch.began - self.zero:.3f} s to {until}",
            style=stretch.style,
        )

    def badge(self, number: int, step: CauseStep) -> None:
        """Add a sentence's number in its broker's lane, or halfway along its message."""
        ys = [self.middles[broker] for broker in step.brokers if broker in self.middles]
        if step.time is None or not ys:
            return
        x = round(self.axis.place(step.time), 3)
        if len(ys) > 1:
            style = "message decisive fatal" if step.is_fatal else "message decisive"
            self.arrows = [
                replace(arrow, style=style) if arrow.x == x and "message" in arrow.style else arrow
                for arrow in self.arrows
            ]
        # Beneath the bars, so that no label is covered.
        y = ys[0] + _ROLE // 2 + 7 if len(ys) == 1 else (ys[0] + ys[1]) // 2
        taken = [badge for badge in self.badges if abs(badge.x - x) < 2.2]
        while any(abs(badge.y - y) < 18 for badge in taken):
            y += 18
        self.badges.append(Badge(x=x, y=y, number=number, title=step.text, is_fatal=step.is_fatal))


def _draw_brokers(
    drawing: _Drawing,
    loaded: Loaded,
    partition: TopicPartition | None,
    decisions: Decisions,
    rounds: Sequence[AskedRound],
    names: Mapping[int, str],
    numbered: Collection[int],
) -> None:
    """Draw the brokers' lanes, with a row for sentences' numbers beneath the role."""
    lives, roles, extras = broker_stretches(loaded, decisions, partition)
    links = link_stretches(loaded)
    brokers = sorted(lives)
    asked = [
        each
        for each in rounds
        if each.time is not None and partition == TopicPartition(each.topic, each.partition)
    ]
    for index, broker in enumerate(brokers):
        _draw_broker(
            drawing,
            broker,
            life=[drawing.stretch(each) for each in lives[broker]],
            role=[drawing.stretch(each) for each in roles.get(broker, ())],
            inside=pack([_beside(drawing.stretch(each), each) for each in extras.get(broker, ())]),
            note=names.get(broker, ""),
            is_numbered=broker in numbered,
        )
        below = [
            each
            for each in links
            if min(each.brokers) == broker or (index == 0 and not set(each.brokers) & {*brokers})
        ]
        _draw_between(drawing, pack([_beside(drawing.stretch(each), each) for each in below]))
    drawn_alone = [*_first_and_last(asked)]
    for each, times in drawn_alone[:_MOST_ARROWS]:
        is_labelled = times > 1 or len(drawn_alone) <= _MOST_LABELLED
        _draw_round(drawing, each, times=times, is_labelled=is_labelled)
    drawing.arrows = _labels_apart(drawing.arrows)


def _draw_broker(
    drawing: _Drawing,
    broker: int,
    *,
    life: Sequence[Box],
    role: Sequence[Box],
    inside: Sequence[Box],
    note: str,
    is_numbered: bool,
) -> None:
    """Draw one lane: the broker's life, its role below, and the faults inside it."""
    top = drawing.bottom
    drawing.bars += [Bar(box=box, top=top, height=_LIFE) for box in life]
    drawing.bars += [Bar(box=box, top=top + _LIFE, height=_ROLE) for box in role]
    rows = 1 + max((box.row for box in inside), default=-1)
    beneath = _LIFE + _ROLE + (_BADGE if is_numbered else 0)
    for box in inside:
        at = top + beneath + box.row * _ROW + 3
        drawing.bars.append(Bar(box=box, top=at, height=_BAR - 4))
    height = beneath + rows * _ROW
    words = tuple(box.title for box in sorted([*life, *role, *inside], key=lambda b: b.x))
    drawing.lanes.append(
        TimeLane(name=f"broker {broker}", top=top, height=height, note=note, words=words)
    )
    drawing.middles[broker] = top + _LIFE + _ROLE // 2
    drawing.bottom = top + height + 2


def _draw_between(drawing: _Drawing, between: Sequence[Box]) -> None:
    """Draw faults on links, each between two lanes of brokers."""
    drawn = 1 + max((box.row for box in between), default=-1)
    for box in between:
        at = drawing.bottom + box.row * _ROW + 4
        drawing.bars.append(Bar(box=box, top=at, height=_BAR - 2))
    if drawn:
        drawing.lanes.append(
            TimeLane(
                name="between",
                top=drawing.bottom,
                height=drawn * _ROW + 4,
                words=tuple(box.title for box in between),
            )
        )
    drawing.bottom += drawn * _ROW + _GAP


def _beside(box: Box, stretch: Stretch) -> Box:
    """Return the box with its shortest label, which may stand beside the box."""
    return box if box.label else replace(box, label=(*stretch.shorter, stretch.label)[0])


def _first_and_last(asked: Sequence[AskedRound]) -> Iterator[tuple[AskedRound, int]]:
    """Yield the rounds to draw with their counts: of equal ones the first and the last.

    The last one comes with 0, so that it gets no label.
    """
    alike: dict[AskedRound, list[AskedRound]] = {}
    for each in asked:
        alike.setdefault(replace(each, time=None), []).append(each)
    for same in alike.values():
        if len(same) <= _MOST_ALIKE:
            yield from ((each, 1) for each in same)
        else:
            yield same[0], len(same)
            yield same[-1], 0


def _draw_round(drawing: _Drawing, each: AskedRound, *, times: int, is_labelled: bool) -> None:
    if each.follower not in drawing.middles or each.leader not in drawing.middles:
        return
    asked, answered = drawing.middles[each.follower], drawing.middles[each.leader]
    title = f"broker {each.follower} asks broker {each.leader} where leader epoch "
    title += f"{each.requested_epoch} ends: "
    title += f"{each.end_offset}" if each.is_answered else "no answer"
    again = f" {times} times" if times > 1 else ""
    if times == 0:
        title += ", for the last time"
    elif again:
        title += f",{again}"
    drawing.arrows.append(
        Arrow(
            x=round(drawing.axis.place(each.time or 0.0), 3),
            from_y=answered if each.is_answered else asked,
            to_y=asked if each.is_answered else answered,
            style="message" if each.is_answered else "message unanswered",
            title=title,
            label=f"e{each.requested_epoch}→{each.end_offset if each.is_answered else '?'}{again}"
            if is_labelled and times and each.requested_epoch >= 0
            else "",
        )
    )


def _labels_apart(arrows: Sequence[Arrow]) -> list[Arrow]:
    """Return the arrows, with the labels between the same lanes moved apart where they meet.

    Room is left for the circle that a decisive message gets between its line and its label.
    """
    by_lanes: dict[int, list[Arrow]] = {}
    for arrow in sorted(arrows, key=lambda arrow: arrow.x):
        by_lanes.setdefault(arrow.middle, []).append(arrow)
    apart = []
    for between in by_lanes.values():
        bare = [arrow for arrow in between if not arrow.label]
        labelled = [arrow for arrow in between if arrow.label]
        rows = in_rows(labelled, lambda arrow: (arrow.x, arrow.x + label_width(arrow.label) + 1.0))
        apart += [*bare, *(replace(arrow, row=row) for row, arrow in rows)]
    return apart


def _draw_writes(drawing: _Drawing, writes: Sequence[WriteSpan]) -> None:
    """Draw the clients' lane, and an arrow from each write to its broker."""
    top = drawing.bottom + 2
    drawing.track("clients", [*_write_boxes(writes, drawing)])
    for write in writes if len(writes) <= _MOST_ARROWS else ():
        if write.broker in drawing.middles:
            drawing.arrows.append(
                Arrow(
                    x=round(drawing.axis.place(write.invoked), 3),
                    from_y=top,
                    to_y=drawing.middles[write.broker] + _ROLE // 2,
                    style=f"write {write.outcome}",
                    title=f"{write.operation} to broker {write.broker}: {write.answer}",
                )
            )


def _fault_box(fault: FaultSpan, axis: TimeAxis, ended_at: float, started_at: float) -> Box:
    x = axis.place(fault.injected)
    until = "never healed"
    if not fault.lasts:
        until = "nothing to heal"
    elif fault.healed is not None:
        until = f"healed at {fault.healed - started_at:.3f} s"
    return Box(
        x=round(x, 3),
        width=round(max(0.4, axis.place(fault.ended or ended_at) - x), 3),
        label=fault.name,
        title=f"{fault.name}: {fault.what}, injected at {fault.injected - started_at:.3f} s, "
        f"{until}",
        style="fault" if fault.healed is not None else "fault open",
    )


def _leader_tracks(
    decisions: Decisions, axis: TimeAxis, ended_at: float, partition: TopicPartition | None
) -> Iterable[tuple[str, list[Box]]]:
    """Yield the leaders of each partition that the lanes of the brokers do not show."""
    by_partition: dict[TopicPartition, list[Any]] = {}
    for timed, state in decisions.states:
        key = TopicPartition(state.topic, state.partition)
        by_partition.setdefault(key, []).append((timed.time, state))
    by_partition.pop(partition or TopicPartition("", -1), None)
    for key, states in list(by_partition.items())[:_MOST_TRACKS]:
        name = f"{key.topic}-{key.partition}"
        ends = [time for time, _ in states[1:]] + [ended_at]
        boxes = []
        for (time, state), end in zip(states, ends, strict=True):
            x, isr = axis.place(time), ",".join(map(str, state.isr))
            width = axis.place(end) - x
            leads = f"leader {state.leader}" if state.leader >= 0 else "no leader"
            label = f"{leads} e{state.leader_epoch} ISR {isr}"
            shorter = (label, f"{leads} e{state.leader_epoch}", f"e{state.leader_epoch}")
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
        yield name, boxes


def _write_boxes(writes: Sequence[WriteSpan], drawing: _Drawing) -> Iterator[Box]:
    """Yield a box for each write, or for consecutive equal ones."""
    for _, alike in itertools.groupby(
        writes, key=lambda write: (write.broker, write.partition, write.acks, write.answer)
    ):
        same = [*alike]
        boxes = [_write_box(write, drawing.axis, drawing.ended_at) for write in same]
        if len(same) <= _MOST_ALIKE:
            yield from boxes
            continue
        first, last = boxes[0], boxes[-1]
        yield replace(
            first,
            width=round(last.x + last.width - first.x, 3),
            label=f"{first.label} and {len(same) - 1} alike",
            title=f"{len(same)} writes, {same[0].operation} to {same[-1].operation}, to broker "
            f"{same[0].broker}, acks {same[0].acks}, each: {same[0].answer}",
        )


def _write_box(write: WriteSpan, axis: TimeAxis, ended_at: float) -> Box:
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
