"""KIP-227: incremental fetches.

A leader tells a high watermark once in a session, also to a follower that did not take it because
it had begun to follow anew meanwhile (kafka.server.CachedPartition.maybeUpdateResponseData, 1.1.1,
2.1.1, 2.8.2 and 3.8.0).
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_227 = Rule(
    name="KIP-227",
    since=("1.1.0",),
    protocol="1.1-IV0",
    source="kafka.server.FetchSession, 1.1.0",
    meaning="Fetches are incremental: a session leaves out partitions that have not changed.",
    change=lambda known: replace(known, tells_high_watermark_once=True),
)
