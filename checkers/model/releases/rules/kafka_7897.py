"""KAFKA-7897: a log in a message format without leader epochs has no epoch cache at all.

From 2.0.1 on an election alone puts an epoch into the cache, also where batches carry none, and a
follower then truncates far too much. Read from kafka.log.Log.initializeLeaderEpochCache, 2.1.0 and
2.1.1. The same change stopped recovery from restoring epoch 0 (kafka.log.LogSegment.recover), and
`epochs` of kafka.cluster.Replica, a value set once, went with it.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.rules.first_release import keep_no_epoch, load_no_entries


def recover_above_zero(leader_epoch: int) -> bool:
    """Put an epoch back unless it is 0, the condition that KAFKA-10432 corrects."""
    return leader_epoch > 0


KAFKA_7897 = Rule(
    name="KAFKA-7897",
    since=("2.1.1",),
    until=("4.0.0",),
    source="kafka.log.Log, 2.1.1",
    meaning="A log in a message format without leader epochs has no epoch cache at all.",
    is_for_old_formats=True,
    change=lambda known: replace(
        known,
        loaded_entries=load_no_entries,
        assign_epoch=keep_no_epoch,
        entries_of_new_leader=keep_no_epoch,
    ),
)

EPOCHS_OF_LOG = Rule(
    name="epochs of the log after a move",
    since=("2.1.1",),
    source="kafka.log.Log, 2.1.1",
    meaning=(
        "A replica that has moved between log directories asks and answers with the leader epochs "
        "of its log. Before, it goes on with the cache of the log before the move, and with the "
        "end which that log had."
    ),
    change=lambda known: replace(known, keeps_epochs_over_moves=False),
)

EPOCH_ZERO = Rule(
    name="recovery without epoch 0",
    since=("2.1.1",),
    until=("2.6.1",),
    source="kafka.log.LogSegment, 2.1.1",
    meaning="Recovery after an unclean stop does not put epoch 0 back into the cache.",
    change=lambda known: replace(known, recovers_epoch=recover_above_zero),
)
