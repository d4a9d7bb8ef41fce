"""Decision points of a run: the branches of the protocol that its brokers came to.

They are read of what was observed, and of the history that the model found for it: answers between
brokers and to producers with their errors, elections and changes of an ISR with their cause, starts
of brokers by what their disk held, truncations with their place. The rules of the model that
decided something are counted beside them (`kchaos.harness.summary.exercised`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import (
    FailLogDirectory,
    LoseEpochs,
    LoseFile,
    LoseTail,
    StartBroker,
    StopBroker,
    TopicPartition,
    WipeLogDirectory,
)
from kchaos.checkers.evidence.links import ARRIVED, partition_details
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.follow.observations import (
    ControlAnswered,
    FetchAnswered,
    IsrAsked,
    ResponseSeen,
)
from kchaos.checkers.model.values.events import (
    NO_LEADER,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    EligibleReplicas,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.model.values.prediction import Prediction

_NOT_LED = ("NOT_LEADER_FOR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION", "KAFKA_STORAGE_ERROR")
_EPOCHS = ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")
_IDS = ("UNKNOWN_TOPIC_ID", "INCONSISTENT_TOPIC_ID")
_SESSIONS = ("FETCH_SESSION_ID_NOT_FOUND", "INVALID_FETCH_SESSION_EPOCH")
_TIERED = "OFFSET_MOVED_TO_TIERED_STORAGE"
_FETCHED = ("records", "diverging epoch", "OFFSET_OUT_OF_RANGE", _TIERED, *_SESSIONS)
_ENDS = ("undefined", "of an earlier epoch", "of the epoch asked for")
_STALE = ("STALE_CONTROLLER_EPOCH", "STALE_BROKER_EPOCH")
_NOT_IN_SYNC = ("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "REQUEST_TIMED_OUT")
_PRODUCERS = ("OUT_OF_ORDER_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH", "INVALID_TXN_STATE")
_REFUSED_ISR = ("INVALID_UPDATE_VERSION", "INELIGIBLE_REPLICA", "NEW_LEADER_ELECTED")
_OF_SUBJECT = {
    "Fetch": (*_FETCHED, *_NOT_LED, *_EPOCHS, *_IDS),
    "epoch end": _ENDS,
    "OffsetForLeaderEpoch": ("NONE", *_NOT_LED, *_EPOCHS),
    "ListOffsets": ("NONE", *_NOT_LED, *_EPOCHS),
    "LeaderAndIsr": ("NONE", *_STALE, "INCONSISTENT_TOPIC_ID", "KAFKA_STORAGE_ERROR"),
    "StopReplica": ("NONE", *_STALE),
    "UpdateMetadata": ("NONE", *_STALE),
    "AlterPartition": ("NONE", "FENCED_LEADER_EPOCH", *_REFUSED_ISR),
    "Produce": ("NONE", *_NOT_LED, *_NOT_IN_SYNC, *_PRODUCERS),
    "election": (
        *("in the ISR", "of the preferred replica", "outside of the ISR"),
        *("of an eligible replica", "of the same leader", "nobody can lead"),
    ),
    "ISR": (
        *("without who lags", "without who left", "with who caught up"),
        *("without the leader before", "its last member is gone"),
    ),
    "registration": ("fenced", "not fenced any more", "shutting down", "removed"),
    "start": (
        *("after a clean stop", "after a kill", "with a tail lost"),
        *("without an epoch file", "with a lost file", "with a wiped disk"),
        "with a failed log directory",
    ),
    "truncation": (
        *("at a batch", "inside a batch", "of the whole log", "below the high watermark"),
        *("of one record", "of several records"),
    ),
}
POINTS: tuple[str, ...] = tuple(
    f"{subject}: {point}" for subject, points in _OF_SUBJECT.items() for point in points
)
"""Those that the model has a branch for; a run may have other errors, for which it has none."""

_DISKS = {
    LoseTail: "start: with a tail lost",
    LoseEpochs: "start: without an epoch file",
    LoseFile: "start: with a lost file",
    WipeLogDirectory: "start: with a wiped disk",
    FailLogDirectory: "start: with a failed log directory",
}


def decision_points(evidence: RunEvidence, prediction: Prediction | None) -> tuple[str, ...]:
    """Return the decision points that a run came to, sorted.

    Without links the answers between brokers are not known, without a prediction the truncations.
    """
    found = {*_answers(evidence), *_decisions(evidence), *_starts(evidence)}
    found.update(
        f"Produce: {_error(each.error_code)}"
        for each in evidence.operations
        if each.function == "produce" and (each.error_code or each.outcome == "ok")
    )
    if prediction is not None:
        found.update(_truncations(prediction))
    return tuple(sorted(found))


def _error(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def _answers(evidence: RunEvidence) -> Iterator[str]:
    for message in evidence.links or ():
        match message.said:
            case ResponseSeen(api=api, error_code=code) if code:
                yield f"{api}: {_error(code)}"
            case ResponseSeen(api=api, partitions=partitions):
                for answer in partitions.values():
                    if not isinstance(answer, FetchAnswered) or answer.error_code:
                        yield f"{api}: {_error(answer.error_code)}"
                    elif answer.has_news:
                        yield f"Fetch: {'records' if answer.diverging is None else _FETCHED[1]}"
            case ControlAnswered(api=api, error_code=code, errors=errors):
                for each in (code, *errors.values()):
                    yield f"{api}: {_error(each)}"
        is_answer = message.direction == "response" and message.fate in ARRIVED
        if message.api == "AlterPartition" and is_answer:
            for _, entry in partition_details(message):
                yield f"AlterPartition: {_error(entry.get('error_code') or 0)}"
    for asked in evidence.rounds or ():
        is_same = asked.answered_epoch in (None, asked.requested_epoch)
        yield f"epoch end: {_ENDS[0 if asked.end_offset < 0 else 2 if is_same else 1]}"


def _decisions(evidence: RunEvidence) -> Iterator[str]:
    preferred: dict[TopicPartition, int] = {}
    eligible: dict[TopicPartition, tuple[int, ...]] = {}
    states: dict[TopicPartition, PartitionState] = {}
    asked = _asked_by_leaders(evidence)
    for timed in evidence.events:
        match timed.event:
            case TopicCreated(topic=topic, assignment=assignment):
                for number, replicas in enumerate(assignment):
                    preferred[TopicPartition(topic, number)] = replicas[0]
                    states.pop(TopicPartition(topic, number), None)
            case EligibleReplicas(topic=topic, partition=number, eligible=replicas):
                eligible[TopicPartition(topic, number)] = replicas
            case BrokerRegistrationChanged(is_fenced=is_fenced, is_shutting_down=is_leaving):
                yield f"registration: {'fenced' if is_fenced else 'not fenced any more'}"
                if is_leaving:
                    yield "registration: shutting down"
            case BrokerUnregistered():
                yield "registration: removed"
            case PartitionState() as state:
                partition = TopicPartition(state.topic, state.partition)
                if (before := states.get(partition)) is not None:
                    is_eligible = state.leader in eligible.get(partition, ())
                    yield from _elected(before, state, preferred.get(partition), is_eligible)
                    # With KRaft a controller that drops who left keeps the leader epoch from 3.6
                    # on, and a leader's request began a new one before that (KAFKA-15021).
                    is_leaders = state.leader_epoch == before.leader_epoch
                    if evidence.is_kraft:
                        wanted = [isr for time, isr in asked[partition] if time <= timed.time]
                        is_leaders = wanted[-1:] == [{*state.isr}]
                    yield from _changed(before, state, is_leaders)
                states[partition] = state


def _elected(
    before: PartitionState, state: PartitionState, preferred: int | None, is_eligible: bool
) -> Iterator[str]:
    if state.leader_epoch == before.leader_epoch:
        return
    if state.leader == NO_LEADER:
        yield "election: nobody can lead"
    elif state.leader == before.leader:
        yield "election: of the same leader"
    elif state.leader not in before.isr:
        yield f"election: {'of an eligible replica' if is_eligible else 'outside of the ISR'}"
    elif state.leader == preferred and before.leader in state.isr:
        yield "election: of the preferred replica"
    else:
        yield "election: in the ISR"


def _asked_by_leaders(
    evidence: RunEvidence,
) -> Mapping[TopicPartition, list[tuple[float, set[int]]]]:
    """Return the ISRs that leaders asked for (AlterPartition), each with its time."""
    asked = defaultdict[TopicPartition, list[tuple[float, set[int]]]](list)
    for message in evidence.links or ():
        if isinstance(message.said, IsrAsked):
            for partition, wanted in message.said.isrs.items():
                asked[partition].append((message.wall_time_s, {*wanted.isr}))
    return asked


def _changed(before: PartitionState, state: PartitionState, is_leaders: bool) -> Iterator[str]:
    gone, come = {*before.isr} - {*state.isr}, {*state.isr} - {*before.isr}
    if gone and before.leader in gone and before.leader != state.leader:
        yield "ISR: without the leader before"
    elif gone:
        yield f"ISR: {'without who lags' if is_leaders else 'without who left'}"
    if come and is_leaders:
        yield "ISR: with who caught up"
    if state.leader == NO_LEADER and len(state.isr) < 2:
        yield "ISR: its last member is gone"


def _starts(evidence: RunEvidence) -> Iterator[str]:
    since: dict[int, list[str]] = {}
    for timed in evidence.events:
        match timed.event:
            case StopBroker(broker=broker, clean=is_clean):
                since[broker] = [f"start: after a {'clean stop' if is_clean else 'kill'}"]
            case StartBroker(broker=broker):
                yield from since.pop(broker, ())
            case (
                LoseTail() | LoseEpochs() | LoseFile() | WipeLogDirectory() | FailLogDirectory()
            ) as act:
                since.setdefault(act.broker, []).append(_DISKS[type(act)])


def _truncations(prediction: Prediction) -> Iterator[str]:
    for each in prediction.truncations:
        yield f"truncation: {'inside' if each.is_inside_batch else 'at'} a batch"
        if each.target_offset <= 0:
            yield "truncation: of the whole log"
        if each.target_offset < each.high_watermark:
            yield "truncation: below the high watermark"
        is_one = each.log_end_offset_before - each.target_offset == 1
        yield f"truncation: of {'one record' if is_one else 'several records'}"
