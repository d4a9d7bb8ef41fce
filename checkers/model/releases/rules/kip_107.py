"""KIP-107: a Fetch answer tells where the leader's log begins, and the follower's begins there too.

Before, or under an older protocol, each replica's own retention alone moves its log start. Read
from kafka.server.ReplicaFetcherThread (fetchRequestVersion, processPartitionData), 0.11.0.0 and
1.1.1.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_107 = Rule(
    name="KIP-107",
    since=("0.11.0.0",),
    protocol="0.11.0-IV1",
    source="kafka.server.ReplicaFetcherThread, 0.11.0.0",
    meaning=(
        "A Fetch answer has where the leader's log begins, and its own begins there from then on."
    ),
    change=lambda known: replace(known, learns_log_start=True),
)
