"""Up to 1.0 a fetcher asks of an answer only that it is about the offset that it stands at.

A partition may be taken from a thread that waits for an answer, and be put on it again with a newer
leader epoch. Then the answer is from before the election, and the records in it may be of a leader
that had to cut them off. The thread appends them and fetches on, in place of truncating. Read from
kafka.server.AbstractFetcherThread.processFetchRequest, 0.10.2.2, 0.11.0.0 to 0.11.0.2, 1.0.0 to
1.0.2, 1.1.0 and 2.1.1. It ended with KIP-113 (KAFKA-5163), which does not mention it.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

ANSWER_BEFORE_TRUNCATION = Rule(
    name="fetch answer before a truncation",
    since=("0.11.0.0",),
    until=("1.1.0",),
    source="kafka.server.AbstractFetcherThread, 1.0.2",
    meaning=(
        "A follower that is to truncate takes an answer to a Fetch from before it heard of that, "
        "if it fetches from the same offset again. With the records of that answer it goes on, and "
        "truncates nothing. From 1.1.0 on it waits until it has truncated (KAFKA-5163)."
    ),
    change=lambda known: replace(known, takes_fetch_answer_before_truncating=True),
)
