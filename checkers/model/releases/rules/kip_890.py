"""KIP-890, first part (3.6.0): a leader asks the coordinator before a transaction begins in a log.

Read from kafka.server.ReplicaManager and kafka.log.UnifiedLog, 3.5.2, 3.6.0 and 3.8.0. The setting
`transaction.partition.verification.enable` switches it off.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_890 = Rule(
    name="KIP-890",
    since=("3.6.0",),
    source="kafka.log.UnifiedLog, 3.8.0",
    meaning=(
        "Before a leader appends the first batch of a transaction it asks the transaction's "
        "coordinator whether that knows of it, and may refuse the batch. Before, a batch that came "
        "late began a transaction that nobody ended (KAFKA-14402)."
    ),
    change=lambda known: replace(known, verifies_transactions=True),
)
