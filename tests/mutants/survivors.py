"""Kinds of changes that the judge believes, and why nobody needs to notice them.

Each is content that nothing is judged by, or a change after which the evidence says no less than
before. A kind that is here and is always noticed is out of date, and the suite says so.
"""

SURVIVORS = {
    "bytes: half a batch at the end": (
        "A broker may be copied while it appends: a torn tail is noted as torn-tail, and "
        "recovery cuts it off. Everything that was promised lies before it."
    ),
    "bytes: zeros at the end": "A segment may be preallocated: noted as zero-tail.",
    "checkpoints: a producer snapshot, garbage": (
        "Of idempotent producers alone, and kchaos's clients are none: nothing is judged by it."
    ),
    "checkpoints: recovery-point-offset-checkpoint, raised": (
        "It says what was flushed, and nothing of what is there."
    ),
    "checkpoints: recovery-point-offset-checkpoint, far behind the end": "As above.",
    "checkpoints: high watermarks, one too low": (
        "The file of a running broker lags behind memory unless a gate or settling saw it."
    ),
    "checkpoints: high watermarks, one too low before the end": "As above.",
    "checkpoints: high watermarks, one too high before the end": (
        "Where memory may have been there: every value that it can have had is allowed until a "
        "gate looks."
    ),
    "checkpoints: high watermarks, one too high": "As above, where settling could not look.",
    "checkpoints: high watermarks, nothing in it": "It is made empty.",
    "checkpoints: high watermarks, the partition's line is gone": "As above.",
    "links: an answer that was cut": (
        "In front of a cut both are possible: the question arrived, or its answer did not."
    ),
    "links: another correlation": (
        "Links leave out fetches that ask for nothing new, so that an answer may be there "
        "without its question."
    ),
    "links: another connection": (
        "Links leave out fetches that ask for nothing new: an answer may have no question."
    ),
    "links: another high watermark in an answer": "Where the leader's may have been there.",
    "links: another current epoch": "Where the epoch is not compared by the broker's release.",
    "links: a high watermark far too high in an answer": (
        "Where the answer came too late, or below the follower's end."
    ),
    "links: an error in an answer": "An answer that brought nothing may as well have failed.",
    "zookeeper: a session ends that went on": (
        "A session may end at any time, at the very end too, and the broker goes on without."
    ),
    "zookeeper: an election that nobody made, the other replica": (
        "A preferred election, for which anybody may ask."
    ),
    "brokers: an empty log": (
        "Where run.json names Kafka's published jars by their digests, no log is needed to tell "
        "the release."
    ),
    "points: the leader's log ends far behind": "Shown only; the copied files tell.",
    "tier: metadata, the last record twice": (
        "A segment has the state of its newest record; that is said again."
    ),
    "withdrawn: the leader's files on every in-sync replica at the end": (
        "Where all hold the same records already."
    ),
    "zookeeper: a topic that nobody made": "Whoever may create topics.",
    "checkpoints: the high watermark stands still, everywhere": (
        "Every copy says the same: the file of a running broker lags behind memory."
    ),
    "links: an hour earlier": "Shown only; the order is that of the lines.",
    "links: an hour later": "As above.",
    "zookeeper: a setting that nobody made": (
        "A user's own admin client may have made it: the log is evidence, whoever asked for it."
    ),
    "metadata: another process registers": (
        "The id only says which registrations are of one process, and each stays so."
    ),
    "metadata: another feature level": (
        "Where nothing that was decided differs between the two levels."
    ),
    "snapshots: an earlier zxid": "With KRaft, where nothing was decided between both offsets.",
    "zookeeper: garbage behind the log": (
        "The last record may be torn: the member was copied while it wrote."
    ),
}
"""Name of the kind and the reason."""
OF_TIERED = {
    "bytes: the log begins later on one replica": (
        "What is in the remote tier may leave a local disk at any time."
    ),
    "alike: the log begins later at the end": "As above, on every replica.",
}
"""The same for runs with tiered logs alone."""


def is_survivor(kind: str, run: str) -> bool:
    """Whether a kind may be believed in a run of that name."""
    return kind in SURVIVORS or ("tiered" in run and kind in OF_TIERED)
