"""Sequence numbers of batches that a leader takes from a producer with an id, by release.

Read from `checkSequence` of kafka.log.ProducerAppendInfo, 0.11.0.0, 1.0.0, 1.1.1, 2.0.1, 2.4.1,
2.5.0 and 3.8.0; KAFKA-9144 from `lastTimestamp` and `isProducerExpired` of
kafka.log.ProducerStateManager, 0.11.0.3-rc0, 1.1.1, 2.3.1 and 2.4.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.producers import (
    NO_EPOCH,
    NO_SEQUENCE,
    ProducerMark,
    ProducerState,
)

_OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
_UNKNOWN_PRODUCER = "UNKNOWN_PRODUCER_ID"


def refuse_unless_next(state: ProducerState, mark: ProducerMark) -> str:
    """Take the next sequence number of an epoch, and 0 in a new one."""
    if mark.producer_epoch != state.producer_epoch:
        return _OUT_OF_ORDER if mark.base_sequence else ""
    return "" if state.follows(mark.base_sequence) else _OUT_OF_ORDER


def refuse_unknown_producer(state: ProducerState, mark: ProducerMark) -> str:
    """Say by an error of its own that the log knows nothing of the producer."""
    if state.producer_epoch == NO_EPOCH and mark.base_sequence:
        return _UNKNOWN_PRODUCER
    return refuse_unless_next(state, mark)


def refuse_unknown_sequence(state: ProducerState, mark: ProducerMark) -> str:
    """Say the same where the log has a marker of that epoch and nothing else."""
    is_same = mark.producer_epoch == state.producer_epoch
    if is_same and state.last_sequence == NO_SEQUENCE and mark.base_sequence:
        return _UNKNOWN_PRODUCER
    return refuse_unknown_producer(state, mark)


def take_unknown_producer(state: ProducerState, mark: ProducerMark) -> str:
    """Take any sequence number of a producer of which the log knows nothing."""
    return "" if state.producer_epoch == NO_EPOCH else refuse_unless_next(state, mark)


KAFKA_5494 = Rule(
    name="KAFKA-5494",
    since=("1.0.0",),
    source="kafka.log.ProducerStateManager, 1.1.1",
    meaning=(
        "A log remembers the last five batches of a producer, and tells by their sequence numbers "
        "what was sent once more. Before, it remembered the last one, or the last marker. A broker "
        "that starts takes a producer for expired of whose epoch its log has a marker alone."
    ),
    change=lambda known: replace(known, remembered_batches=5, forgets_fenced_producers=True),
)
KAFKA_9144 = Rule(
    name="KAFKA-9144",
    since=("2.4.1", "2.5.0"),
    source="kafka.log.ProducerStateManager, 2.4.1",
    meaning=(
        "The time of a transaction's marker counts for when its producer expires. So a broker that "
        "starts knows whom a marker has fenced."
    ),
    change=lambda known: replace(known, forgets_fenced_producers=False),
)
KAFKA_5793 = Rule(
    name="KAFKA-5793",
    since=("1.0.0",),
    until=("2.5.0",),
    source="kafka.log.ProducerStateManager, 1.1.1",
    meaning=(
        "A leader that knows nothing of a producer refuses a batch that does not begin with "
        "sequence number 0. It does so with an error of its own, UNKNOWN_PRODUCER_ID."
    ),
    change=lambda known: replace(known, refuse_sequence=refuse_unknown_producer),
)
KAFKA_7298 = Rule(
    name="KAFKA-7298",
    since=("2.0.1",),
    until=("2.5.0",),
    source="kafka.log.ProducerStateManager, 2.4.1",
    meaning=(
        "A leader may know no more of a producer's epoch than a transaction's marker. Then it "
        "refuses a batch that does not begin with sequence number 0, with UNKNOWN_PRODUCER_ID. "
        "Before, it did so with OUT_OF_ORDER_SEQUENCE_NUMBER."
    ),
    change=lambda known: replace(known, refuse_sequence=refuse_unknown_sequence),
)
KIP_360 = Rule(
    name="KIP-360",
    since=("2.5.0",),
    source="kafka.log.ProducerStateManager, 2.8.2",
    meaning=(
        "A leader that knows nothing of a producer takes its batch, whatever sequence number that "
        "begins with (KAFKA-8710)."
    ),
    change=lambda known: replace(known, refuse_sequence=take_unknown_producer),
)
