"""Counterfactuals of a recorded run: each alternative under the same acts and decisions.

Acts and elections are those of the run, and the cluster is left alone after each of them, as in a
run without links. So an alternative that would have elected another leader cannot be asked.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.errors import ComparisonError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.predict import predict
from kchaos.checkers.model.values.events import Event, PartitionState, Snapshot, TopicConfigured
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.run_directory import RunDirectory
from kchaos.studies.documents.comparison import Cell, Result, Row

_FORMAT = "message.format.version"
Laid = Callable[[StartBroker], Generation]
"""From how a broker was started to what it does in one column."""


def rows_of(run: Path, columns: Mapping[str, Laid], say: Callable[[str], None]) -> tuple[Row, ...]:
    """Return a row for each partition of a run: whether its replicas are equal at the end.

    Args:
        run: The run directory.
        columns: By key, what a broker does in it.
        say: Is told which column is played.

    Raises:
        CheckError: The run cannot be read.
        ComparisonError: It has no snapshot, a broker starts again as something else, or a topic
            has a message format of its own.
    """
    evidence = RunEvidence(RunDirectory.open(run))
    events = [timed.event for timed in evidence.events]
    snapshots = [event.label for event in events if isinstance(event, Snapshot)]
    if not snapshots:
        raise ComparisonError(f"{run} has no snapshot, so that nothing can be compared")
    if any(
        isinstance(event, TopicConfigured) and _FORMAT in dict(event.configuration)
        for event in events
    ):
        raise ComparisonError(
            f"a topic of {run} has a {_FORMAT} of its own; compare a run whose formats are brokers'"
        )
    starts = _starts(run, events)
    predictions = {}
    for key, laid in columns.items():
        say(f"the run by {key}")
        generations = {broker: laid(start) for broker, start in starts.items()}
        predictions[key] = predict(events, generations=generations)
    leaders = _last_leaders(events)
    return tuple(
        Row(
            name=f"{partition.name}",
            question=f"Are all replicas like the leader's at the snapshot {snapshots[-1]}?",
            cells={
                key: _cell(prediction, partition, leaders[partition], snapshots[-1])
                for key, prediction in predictions.items()
            },
        )
        for partition in evidence.partitions
    )


def _starts(run: Path, events: list[Event]) -> Mapping[int, StartBroker]:
    starts: dict[int, StartBroker] = {}
    for event in events:
        if not isinstance(event, StartBroker):
            continue
        known = starts.setdefault(event.broker, event)
        if known != event:
            raise ComparisonError(
                f"broker {event.broker} of {run} starts again with another release or other "
                f"settings; compare a run in which every broker stays as it is"
            )
    return starts


def _last_leaders(events: list[Event]) -> Mapping[TopicPartition, int]:
    """Return each partition's last leader that is one."""
    return {
        TopicPartition(event.topic, event.partition): event.leader
        for event in events
        if isinstance(event, PartitionState) and event.leader >= 0
    }


def _cell(prediction: Prediction, partition: TopicPartition, leader: int, label: str) -> Cell:
    replicas = {
        snapshot.broker: snapshot
        for snapshot in prediction.snapshots[label]
        if TopicPartition(snapshot.topic, snapshot.partition) == partition
    }
    if leader not in replicas:
        return Cell(text="no leader")
    other = [
        broker
        for broker, replica in sorted(replicas.items())
        if (replica.batches, replica.log_end_offset)
        != (replicas[leader].batches, replicas[leader].log_end_offset)
    ]
    rounds = sum(
        (epoch_round.topic, epoch_round.partition) == partition and epoch_round.requested_epoch >= 0
        for epoch_round in prediction.rounds
    )
    cuts = [
        truncation
        for truncation in prediction.truncations
        if (truncation.topic, truncation.partition) == partition
    ]
    cut = sum(truncation.log_end_offset_before - truncation.target_offset for truncation in cuts)
    return Cell(
        result=Result.WRONG if other else Result.RIGHT,
        text=f"{'differ' if other else 'equal'}, {cut} cut, rounds: {rounds}",
        numbers={"rounds": rounds, "cut": cut},
        detail=(
            *(
                f"broker {truncation.broker} truncates to {truncation.target_offset}"
                for truncation in cuts
            ),
            *(f"broker {broker} differs from leader {leader}" for broker in other),
        ),
    )
