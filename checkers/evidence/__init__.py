"""Evidence of a run, read once as typed values; judge, Spark and report read nothing else.

`run.RunEvidence` is a run; one module reads each kind of file:

    about       run.json, scenario.json, outcome.json
    actions     actions.jsonl, and the timeline of actions and decisions
    zookeeper   zookeeper/: decisions
    metadata    metadata/: decisions of a KRaft cluster
    history     history.jsonl: operations
    observed    observations.jsonl
    links       links.jsonl: messages in the model's words; `epoch_rounds` pairs questions
    hits        hits.jsonl; `leader_view` has what leaders told there of their followers
    snapshots   snapshots/: snapshot.json and the copied files

`files` reads, hashes and says where damage is. `assembling` puts together what the rules are given,
and `partition` has that and its rows.
"""
