"""KAFKA-18723: of a Fetch response a follower takes what is of its own leader epoch or before.

Read from kafka.server.AbstractFetcherThread.processFetchRequest and kafka.log.UnifiedLog.
analyzeAndValidateRecords, 3.9.0, 3.9.1, 4.0.0 and 4.0.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def was_asked_in_this_epoch(asked_leader_epoch: int, leader_epoch: int) -> bool:
    """Return whether the follower is still in the epoch under which it fetched."""
    return asked_leader_epoch == leader_epoch


KAFKA_18723 = Rule(
    name="KAFKA-18723",
    since=("3.9.1", "4.0.1"),
    source="kafka.server.AbstractFetcherThread, 3.9.1",
    meaning=(
        "A follower drops a Fetch response that was asked for under another leader epoch, and "
        "batches whose leader epoch is above its own."
    ),
    change=lambda known: replace(
        known, takes_fetch_answer=was_asked_in_this_epoch, drops_newer_epochs=True
    ),
)
