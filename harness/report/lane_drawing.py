"""Lanes as places on the page: percent of the width, rows, labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.outcome import partition_of
from kchaos.checkers.segments.tier import FINISHED
from kchaos.harness.report.lanes import LogLane, LogSpan, identity, lane_of, ticks
from kchaos.harness.report.placement import Box, pack, style_of_epoch
from kchaos.harness.report.replicas import PartitionView, ReplicaView
from kchaos.harness.report.tier_drawing import RemoteView, boxes_found, boxes_of_segment

_ROOM = 1.04
_WIDE, _NARROW, _THIN = 13.0, 3.6, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLane:
    """One side of one replica.

    Attributes:
        side: "predicted", "on disk", or "as predicted" where both are the same.
        differences: Stretches that the other side does not hold in the same way.
        note: Log end offset and high watermark in words.
        joined: How many batches were drawn as how many stretches; "" if none was joined.
        high_watermarks: Where they are, in percent.
        log_end_offset: Where it is, in percent; None where there is none to show.
    """

    side: str
    boxes: tuple[Box, ...]
    differences: tuple[Box, ...]
    note: str
    joined: str
    high_watermarks: tuple[float, ...]
    log_end_offset: float | None
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnReplica:
    """One replica: its lanes, and the findings that concern it as bars above them."""

    broker: int
    role: str
    state: str
    lanes: tuple[DrawnLane, ...]
    marks: tuple[Box, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPartition:
    """One partition in one snapshot, with offsets along its axis as (offset, percent).

    Attributes:
        outlines: The offsets of safety findings, to be outlined in every replica.
        folded: What can be said in place of the picture where there is nothing to look for, or "".
    """

    view: PartitionView
    replicas: tuple[DrawnReplica, ...]
    remote: tuple[DrawnLane, ...]
    axis: tuple[tuple[int, float], ...]
    epochs: tuple[int, ...]
    outlines: tuple[Box, ...] = ()
    folded: str = ""


def draw_partition(view: PartitionView, findings: Sequence[Finding]) -> DrawnPartition:
    """Draw every replica of the view on one offset axis."""
    first, end = _domain(view)

    def place(offset: float) -> float:
        return round(100 * (offset - first) / ((end - first) * _ROOM), 3)

    epochs = sorted(
        {
            batch.leader_epoch
            for replica in view.replicas
            for side in (replica.on_disk, replica.foreseen)
            if side is not None
            for batch in side.batches
        }
        | {batch.leader_epoch for segment in view.remote for batch in segment.batches}
    )
    marked = {
        (finding.first_offset, finding.last_offset): finding
        for replica in view.replicas
        for finding in marks_on(view, replica.broker, findings)
        if finding.question is Question.SAFETY
    }
    drawn = DrawnPartition(
        view=view,
        outlines=tuple(
            Box(
                x=place(from_offset),
                width=max(0.4, round(place(to_offset + 1) - place(from_offset), 3)),
                title=finding.message,
            )
            for (from_offset, to_offset), finding in marked.items()
        ),
        replicas=tuple(
            DrawnReplica(
                broker=replica.broker,
                role=replica.role,
                state=_state(replica),
                lanes=(*_lanes(replica, place), *_found_remotely(view, replica, place)),
                marks=_marks(view, replica.broker, findings, place),
                problems=replica.on_disk.problems if replica.on_disk else (),
            )
            for replica in view.replicas
        ),
        remote=tuple(_remote_lane(segment, place) for segment in view.remote),
        axis=tuple((offset, place(offset)) for offset in ticks(first, end)),
        epochs=tuple(epochs),
    )
    return replace(drawn, folded=_folded(drawn, findings))


def _folded(drawn: DrawnPartition, findings: Sequence[Finding]) -> str:
    """Return the text for a view as predicted, which no finding marks."""
    view = drawn.view
    if (
        view.remote
        or view.remote_problem
        or any(
            replica.marks
            or replica.problems
            or any(lane.side != "as predicted" for lane in replica.lanes)
            for replica in drawn.replicas
        )
    ):
        return ""
    holding = [replica.on_disk for replica in view.replicas if replica.on_disk is not None]
    logs = {tuple(map(identity, disk_log.batches)) for disk_log in holding}
    if len(holding) == len(view.replicas) and len(logs) == 1:
        (batches,) = {disk_log.batches for disk_log in holding[:1]}
        if not batches:
            return "every replica is empty, as predicted"
        first, last = batches[0].base_offset, batches[-1].last_offset
        return f"every replica holds the same, offsets {first} to {last}, as predicted"
    elsewhere = any(finding.question is Question.SAFETY for finding in findings)
    return "as predicted, and no finding is about it" if elsewhere else ""


def _found_remotely(view: PartitionView, replica: ReplicaView, place: Any) -> list[DrawnLane]:
    """Return the lane of a broker's missing records in the remote tier."""
    if not view.remote or replica.on_disk is None:
        return []
    batches = replica.on_disk.batches
    start = batches[0].base_offset if batches else 0
    boxes = boxes_found(replica.on_disk.epoch_entries, start, view.remote, place)
    if not boxes:
        return []
    note = f"found in the remote tier, below {start}"
    return [_lane_of_boxes("remote", boxes, note, f"broker {replica.broker}, {note}")]


def _remote_lane(remote: RemoteView, place: Any) -> DrawnLane:
    chain = " ".join(f"{epoch}:{start}" for epoch, start in remote.epochs or ()) or "none"
    state = "" if remote.state == FINISHED else f", {remote.state}"
    note = f"by broker {remote.broker}, epochs {chain}{state}"
    return _lane_of_boxes(
        remote.name, boxes_of_segment(remote, place), note, f"{remote.name}, {note}"
    )


def _lane_of_boxes(side: str, boxes: tuple[Box, ...], note: str, description: str) -> DrawnLane:
    return DrawnLane(
        side=side,
        boxes=boxes,
        differences=(),
        note=note,
        joined="",
        high_watermarks=(),
        log_end_offset=None,
        description=description,
    )


def _domain(view: PartitionView) -> tuple[int, int]:
    """Return first offset and exclusive end over every lane of the view."""
    firsts, ends = [], [1]
    for replica in view.replicas:
        for side in (replica.on_disk, replica.foreseen):
            if side is not None:
                firsts += [batch.base_offset for batch in side.batches[:1]]
                ends.append(side.log_end_offset)
        ends += replica.foreseen.high_watermarks if replica.foreseen else ()
        if replica.on_disk and replica.on_disk.high_watermark is not None:
            ends.append(replica.on_disk.high_watermark)
    firsts += [segment.start_offset for segment in view.remote]
    ends += [segment.end_offset + 1 for segment in view.remote]
    first = min(firsts, default=0)
    return first, max(*ends, first + 1)


def _state(replica: ReplicaView) -> str:
    notes = []
    if replica.is_running is False:
        notes.append("stopped")
    if replica.foreseen is not None and replica.foreseen.fetcher in ("failed", "dead-thread"):
        notes.append(f"predicted fetcher: {replica.foreseen.fetcher}")
    return ", ".join(notes)


def lanes_of(replica: ReplicaView) -> list[tuple[str, LogLane]]:
    """Return the replica's existing lanes by side: predicted first, then as on disk."""
    disk_log, foreseen, cleaned = replica.on_disk, replica.foreseen, replica.cleaned_until
    lanes = []
    if foreseen is not None:
        other = disk_log.batches if disk_log else ()
        end = foreseen.log_end_offset
        lane = lane_of(foreseen.batches, other, log_end_offset=end, cleaned_until=cleaned)
        lanes.append(("predicted", lane))
    if disk_log is not None:
        beside = foreseen.batches if foreseen else None
        end = disk_log.log_end_offset
        lane = lane_of(disk_log.batches, beside, log_end_offset=end, cleaned_until=cleaned)
        lanes.append(("on disk", lane))
    return lanes


def note_of(replica: ReplicaView, side: str) -> str:
    """Describe one side's log end offset and high watermark."""
    if side == "predicted" and replica.foreseen is not None:
        marks = " or ".join(map(str, sorted(replica.foreseen.high_watermarks))) or "none"
        return f"LEO {replica.foreseen.log_end_offset}, HW {marks}"
    if replica.on_disk is None:
        return ""
    mark = replica.on_disk.high_watermark
    return f"LEO {replica.on_disk.log_end_offset}, HW {'none' if mark is None else mark}"


def _lanes(replica: ReplicaView, place: Any) -> list[DrawnLane]:
    drawn = []
    for side, lane in lanes_of(replica):
        holder = replica.foreseen if side == "predicted" else replica.on_disk
        assert holder is not None
        marks: tuple[int, ...] = ()
        if side == "predicted" and replica.foreseen is not None:
            marks = replica.foreseen.high_watermarks
        elif replica.on_disk is not None and replica.on_disk.high_watermark is not None:
            marks = (replica.on_disk.high_watermark,)
        note = note_of(replica, side)
        joined = f"{side}: {lane.batches} batches, joined as {len(lane.spans)} stretches"
        drawn.append(
            DrawnLane(
                side=side,
                boxes=tuple(_box(span, place) for span in lane.spans),
                differences=tuple(_differences(lane, place)),
                note=note,
                joined=joined if lane.joined else "",
                high_watermarks=tuple(place(mark) for mark in marks[:4]),
                log_end_offset=place(holder.log_end_offset),
                description=f"broker {replica.broker}, {side}: {lane.batches} batches, {note}",
            )
        )
    return _merged(replica, drawn)


def _merged(replica: ReplicaView, drawn: list[DrawnLane]) -> list[DrawnLane]:
    """Return one lane in place of two equal ones; else both."""
    disk_log, foreseen = replica.on_disk, replica.foreseen
    if disk_log is None or foreseen is None:
        return drawn
    on_disk = drawn[-1]
    ends = {lane.log_end_offset for lane in drawn}
    if len(ends) > 1 or any(lane.differences for lane in drawn):
        return drawn
    if disk_log.high_watermark not in foreseen.high_watermarks:
        return drawn
    description = on_disk.description.replace("on disk", "on disk as predicted")
    return [replace(on_disk, side="as predicted", description=description)]


def offsets_of(span: LogSpan) -> str:
    """Return the span's offsets, both ends inclusive."""
    if span.first_offset == span.last_offset:
        return str(span.first_offset)
    return f"{span.first_offset}-{span.last_offset}"


def _box(span: LogSpan, place: Any) -> Box:
    x = place(span.first_offset)
    width = round(place(span.last_offset + 1) - x, 3)
    name = _name(span)
    label = ""
    if width >= _WIDE:
        label = f"{offsets_of(span)} {name}"
    elif width >= _NARROW:
        label = "" if span.leader_epoch == -1 else name
    count = f", {span.batches} batches" if span.batches > 1 else ""
    what = f"leader epoch {span.leader_epoch}"
    if span.leader_epoch is None:
        what = f"{name}: no batch"
    differs = "; the other side does not have the same" if span.differs else ""
    return Box(
        x=x,
        width=width,
        label=label,
        title=f"offsets {offsets_of(span)}, {what}{count}{differs}",
        style=("cleaned" if span.cleaned else style_of_epoch(span.leader_epoch))
        + (" differs" if span.differs else "")
        + (" thin" if width < _THIN else ""),
    )


def _name(span: LogSpan) -> str:
    if span.leader_epoch is None:
        return "cleaned" if span.cleaned else "hole"
    return f"e{span.leader_epoch}" if span.leader_epoch >= 0 else "no epoch"


def _differences(lane: LogLane, place: Any) -> list[Box]:
    """Return one box for each run of differing neighbours."""
    stretches: list[tuple[int, int]] = []
    for span in lane.spans:
        if not span.differs:
            continue
        if stretches and stretches[-1][1] + 1 == span.first_offset:
            stretches[-1] = (stretches[-1][0], span.last_offset)
        else:
            stretches.append((span.first_offset, span.last_offset))
    return [
        Box(x=place(first), width=max(_THIN, round(place(last + 1) - place(first), 3)))
        for first, last in stretches
    ]


def marks_on(view: PartitionView, broker: int, findings: Sequence[Finding]) -> list[Finding]:
    """Return the snapshot's findings at the replica's offsets, without hatched conformance."""
    return [
        finding
        for finding in findings
        if partition_of(finding) == view.name
        and broker in finding.brokers
        and finding.first_offset >= 0
        and finding.snapshot in (view.snapshot, "" if view.is_final else None)
        and finding.question is not Question.CONFORMANCE
    ]


def _marks(
    view: PartitionView, broker: int, findings: Sequence[Finding], place: Any
) -> tuple[Box, ...]:
    boxes = []
    for finding in marks_on(view, broker, findings)[:50]:
        x = place(finding.first_offset)
        boxes.append(
            Box(
                x=x,
                width=max(0.4, round(place(finding.last_offset + 1) - x, 3)),
                label=finding.kind,
                title=finding.message,
                style=finding.question.value,
            )
        )
    return pack(boxes)
