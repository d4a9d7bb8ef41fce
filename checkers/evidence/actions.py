"""actions.jsonl: what the scenario did, in the model's words; and the timeline.

An action names the last zxid that was there when it was taken, and follows every decision up to it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kchaos.checkers.acts import Hold, StopBroker, fields_of
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.json_form import NOT_WRITTEN
from kchaos.checkers.model.values.events import Decision, Event, Produce, event_from_json

ACTIONS = "actions.jsonl"
INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedEvent:
    """One event of the timeline.

    Attributes:
        zxid: Of a decision, its transaction; of an action, the last one before it.
        time: Seconds since the epoch, of ZooKeeper's clock or the runner's.
        step: Index of the scenario's step that acted; -1 for a decision.
        began: Of an action, when it began, where `time` is when it was done; None for a decision.
        read_at: File and line of an action; "" for a decision, whose zxid says it.
    """

    event: Event
    zxid: int
    time: float
    step: int = -1
    began: float | None = None
    read_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLine:
    """One line: an action in the model's words, with the last zxid before it."""

    time: float
    zxid: int
    step: int
    action: Mapping[str, Any]
    began: float | None = None
    read_at: str = field(default="", metadata=NOT_WRITTEN)


def read_actions(files: EvidenceFiles) -> Iterator[TimedEvent]:
    """Yield the actions, in the order in which they were done.

    Raises:
        ScenarioDataError: A line is no action with time, zxid and step, no such action exists, or
            it is a produce, which history.jsonl has.
    """
    for line in files.lines(ActionLine, ACTIONS):
        try:
            event = event_from_json(line.action)
        except ValueError as error:
            raise ScenarioDataError(f"{files.place(line.read_at)}: action: {error}") from error
        if isinstance(event, Produce):
            raise ScenarioDataError(
                f"{files.place(line.read_at)} has the produce {event.operation!r}, and produces "
                "are in history.jsonl alone"
            )
        written = fields_of(event)
        files.lacks(
            line.read_at, (f"action: {name}" for name in written if name not in line.action)
        )
        yield TimedEvent(
            event=event,
            zxid=line.zxid,
            time=line.time,
            step=line.step,
            began=line.began,
            read_at=line.read_at,
        )


def in_one_order(
    decisions: Iterable[TimedEvent], actions: Iterable[TimedEvent]
) -> tuple[TimedEvent, ...]:
    """Return actions and decisions by zxid; internal topics keep only the events of holds."""
    both = [*decisions, *actions]
    # Sorting is stable: actions keep the order of their file among themselves.
    both.sort(key=lambda timed: (timed.zxid, not isinstance(timed.event, Decision)))
    # A hold without a topic, like everything that concerns brokers, is nobody's in particular.
    return tuple(
        _without_internal(event)
        for event in both
        if isinstance(event.event, Hold)
        or not is_internal(getattr(event.event, "topic", None) or "")
    )


def _without_internal(timed: TimedEvent) -> TimedEvent:
    """Return the event without the checkpoint of internal topics of a stopped broker."""
    event = timed.event
    if not isinstance(event, StopBroker) or event.checkpointed is None:
        return timed
    kept = tuple(entry for entry in event.checkpointed if not is_internal(entry[0]))
    return replace(timed, event=replace(event, checkpointed=kept))


def is_internal(topic: str) -> bool:
    """Return whether the topic is Kafka's own (`__…`), and so not judged."""
    return topic.startswith(INTERNAL_PREFIX)
