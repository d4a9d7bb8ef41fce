"""Since 4.1.1 who led last is remembered as a partition loses its leader.

Read from org.apache.kafka.controller.PartitionChangeBuilder.maybeUpdateLastKnownLeader, 4.1.0 and
4.1.1. No Jira: pull request 20629.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.values.events import NO_LEADER


def remember_as_nobody_leads(
    leader: int, written: int, last_known: tuple[int, ...], isr: tuple[int, ...] | None
) -> tuple[int, ...] | None:
    """Remember the leader that a partition loses, unless it remembers one, until one is elected."""
    if written == NO_LEADER and not last_known:
        return (leader,)
    return () if written >= 0 and last_known else None


LAST_KNOWN_LEADER = Rule(
    name="last known leader",
    since=("4.1.1",),
    source="org.apache.kafka.controller.PartitionChangeBuilder, 4.1.1",
    meaning=(
        "A partition remembers its leader as it gets none, if it remembers nobody yet, and "
        "forgets it as somebody is elected. Before, as its ISR becomes empty, and as soon as "
        "somebody leads."
    ),
    change=lambda known: replace(known, last_known_leader=remember_as_nobody_leads),
)
