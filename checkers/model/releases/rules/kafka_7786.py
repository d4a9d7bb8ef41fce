"""KAFKA-7786: an answer that was asked for under another leader epoch is ignored.

Read from kafka.server.AbstractFetcherThread.truncateToEpochEndOffsets, 2.1.0 and 2.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def was_asked_in_this_epoch(asked_leader_epoch: int, leader_epoch: int) -> bool:
    """Return whether the follower is still in the epoch under which it asked."""
    return asked_leader_epoch == leader_epoch


KAFKA_7786 = Rule(
    name="KAFKA-7786",
    since=("2.1.1",),
    source="kafka.server.AbstractFetcherThread, 2.1.1",
    meaning=(
        "An answer about an epoch's end that was asked for under another leader epoch is ignored."
    ),
    change=lambda known: replace(known, takes_epoch_answer=was_asked_in_this_epoch),
)
