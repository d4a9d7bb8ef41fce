"""The replicas of partitions from moment to moment, for the page's slider."""

from collections.abc import Iterable, Sequence
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.values.prediction import ReplicaMoment
from kchaos.harness.report.leadership import Decisions
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.placement import TimeAxis

_MOST_PARTITIONS = 12


def scrubbed(
    loaded: Loaded, decisions: Decisions, axis: TimeAxis, first: TopicPartition | None
) -> list[dict[str, Any]]:
    """Return each partition's frames as plain JSON values, that of `first` before the others.

    A frame has its seconds since the start, its place in the picture in percent, what is decided
    since (`state`: leader, leader epoch, ISR; else absent) and the replicas that changed then.
    Empty where the model followed nothing.
    """
    moments = () if loaded.prediction is None else loaded.prediction.moments
    partitions = sorted({TopicPartition(each.topic, each.partition) for each in moments})
    partitions.sort(key=lambda partition: partition != first)
    return [
        {
            "name": f"{partition.topic}-{partition.partition}",
            "brokers": sorted({each.broker for each in moments if _is_of(each, partition)}),
            "end": max(each.log_end_offset for each in moments if _is_of(each, partition)),
            "frames": _frames(
                loaded, decisions, axis, [each for each in moments if _is_of(each, partition)]
            ),
        }
        for partition in partitions[:_MOST_PARTITIONS]
    ]


def _is_of(moment: ReplicaMoment, partition: TopicPartition) -> bool:
    return (moment.topic, moment.partition) == partition


def _frames(
    loaded: Loaded, decisions: Decisions, axis: TimeAxis, moments: Sequence[ReplicaMoment]
) -> list[dict[str, Any]]:
    partition = moments[0].topic, moments[0].partition
    frames: dict[float, dict[str, Any]] = {}
    for timed, state in decisions.states:
        if (state.topic, state.partition) == partition:
            decided = {"leader": state.leader, "epoch": state.leader_epoch, "isr": [*state.isr]}
            frames.setdefault(timed.time, {"replicas": {}})["state"] = decided
    for moment in moments:
        frame = frames.setdefault(moment.time, {"replicas": {}})
        frame["replicas"][str(moment.broker)] = _replica(moment)
    return [
        {"s": round(time - loaded.started_at, 3), "place": round(axis.place(time), 3), **frame}
        for time, frame in sorted(frames.items())
    ]


def _replica(moment: ReplicaMoment) -> dict[str, Any]:
    return {
        "spans": _lists(moment.spans),
        "entries": _lists(moment.epoch_entries),
        "end": moment.log_end_offset,
        "hw": moment.high_watermark,
        "role": moment.role,
        "epoch": moment.leader_epoch,
    }


def _lists(rows: Iterable[Sequence[int]]) -> list[list[int]]:
    return [[*row] for row in rows]
