"""Predict from events alone: after each of them the cluster is left alone until nothing changes."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.controller import allowed
from kchaos.checkers.model.controller.knowledge import RecordedDecisions
from kchaos.checkers.model.controller.recorded import unexplained
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.rounds import settle
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import EMPTY, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Event, PartitionState, Snapshot, event_to_json
from kchaos.checkers.model.values.prediction import (
    DisallowedDecision,
    EpochRound,
    ImpossibleHighWatermark,
    PredictedProduce,
    PredictedRead,
    PredictedReplica,
    Prediction,
    RemoteCopied,
    Truncation,
)


def predict(
    timeline: Sequence[Event],
    *,
    generations: Mapping[int, Generation] | None = None,
    decisions: RecordedDecisions | None = None,
) -> Prediction:
    """Return what every replica must hold after these events, in the order in which they happened.

    After each event the followers fetch until nothing changes any more, except where a cut, a hold,
    a paused or a stopped broker stands in the way. A timeline begins before the partition exists:
    brokers start and register, a controller is elected, the topic is created.

    Args:
        timeline: Actions and decisions, in the order in which they took effect.
        generations: In place of what `StartBroker` says, for brokers that are not as released.
        decisions: All decisions of a run, with what bears on their writers.

    Raises:
        ModelError: An event that the state before it makes impossible; the message names its index.
    """
    state = EMPTY
    notes: list[object] = []
    snapshots: dict[str, tuple[PredictedReplica, ...]] = {}
    for index, event in enumerate(timeline):
        try:
            if isinstance(event, Snapshot):
                snapshots[event.label] = replicas_of(state)
                continue
            state, noted = left_alone_after(state, event, generations or {})
        except ModelError as error:
            raise ModelError(f"event {index}, {type(event).__name__}: {error}") from error
        for note in noted:
            if isinstance(note, ImpossibleHighWatermark | DisallowedDecision):
                notes.append(replace(note, index=index))
            else:
                notes.append(note)
    return replace(
        prediction_of(state, notes, snapshots),
        unexplained=() if decisions is None else tuple(unexplained(decisions)),
    )


def left_alone_after(
    state: State, event: Event, generations: Mapping[int, Generation]
) -> tuple[State, list[object]]:
    """Return the state after one event when nothing changes any more, and what happened."""
    world = World(state)
    if isinstance(event, PartitionState):
        reason = allowed.reason_against(world, event)
        if reason:
            world.notes.append(
                DisallowedDecision(index=-1, decision=event_to_json(event), reason=reason)
            )
    happen(world, event, generations)
    settle(world)
    return world.state(state), world.notes


def prediction_of(
    state: State, notes: Sequence[object], snapshots: Mapping[str, tuple[PredictedReplica, ...]]
) -> Prediction:
    """Return what came of a timeline that ended in this state, from what was noted."""
    produces = {note.operation: note for note in notes if isinstance(note, PredictedProduce)}
    world = World(state)
    return Prediction(
        snapshots=snapshots,
        produces=tuple(produces.values()),
        rounds=tuple(note for note in notes if isinstance(note, EpochRound)),
        truncations=tuple(note for note in notes if isinstance(note, Truncation)),
        disallowed=tuple(note for note in notes if isinstance(note, DisallowedDecision)),
        impossible=tuple(note for note in notes if isinstance(note, ImpossibleHighWatermark)),
        reads=tuple(note for note in notes if isinstance(note, PredictedRead)),
        remote={note.label: note.segments for note in notes if isinstance(note, RemoteCopied)},
        generations={
            broker: broker_state.generation.name
            for broker in world.broker_ids()
            if (broker_state := world.broker(broker)) is not None
        },
    )
