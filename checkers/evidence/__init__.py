"""What a run left, read once and as typed values: what judge, Spark and report know of a run.

`run.RunEvidence` is a run; one module reads each kind of file:

    about       run.json, scenario.json, outcome.json
    actions     actions.jsonl, and the timeline of actions and decisions
    zookeeper   zookeeper/: decisions
    history     history.jsonl: operations
    observed    observations.jsonl
    links       links.jsonl: messages in the model's words, questions for leader epochs
    snapshots   snapshots/: snapshot.json and the copied files

`files` reads, hashes and says where damage is. `assembling` puts together what the rules are given,
and `partition` has that and its rows.
"""

from checkers.evidence.partition import (
    BATCH_COLUMNS,
    BEFORE,
    CONTEXT_COLUMNS,
    KEY_COLUMNS,
    OBSERVED,
    PREDICTED,
    ROW_COLUMNS,
    BatchEvidence,
    EarlierReplica,
    Excuse,
    PartitionEvidence,
    ReplicaEvidence,
    Side,
    batch_rows,
    context_row,
    finding_to_json,
    partition_evidence,
    with_batches,
)

__all__ = [
    "BATCH_COLUMNS",
    "BEFORE",
    "CONTEXT_COLUMNS",
    "KEY_COLUMNS",
    "OBSERVED",
    "PREDICTED",
    "ROW_COLUMNS",
    "BatchEvidence",
    "EarlierReplica",
    "Excuse",
    "PartitionEvidence",
    "ReplicaEvidence",
    "Side",
    "batch_rows",
    "context_row",
    "finding_to_json",
    "partition_evidence",
    "with_batches",
]
