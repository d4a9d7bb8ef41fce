"""From 1.1.0 up to 2.3 a controller that tries an election once more does so for all partitions.

Read from kafka.controller.PartitionStateMachine.electLeaderForPartitions, 1.1.1 and 2.3.1; from
2.4.0 on only those that are left are tried.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

ELECTED_AGAIN = Rule(
    name="all are elected again",
    since=("1.1.0",),
    until=("2.4.0",),
    source="kafka.controller.PartitionStateMachine, 2.3.1",
    meaning=(
        "Where a leader has changed an ISR meanwhile, a controller elects once more, and for all "
        "partitions of that attempt. So a partition may get two leader epochs as a broker is "
        "shut down. From 2.4.0 on it elects for those alone that are left."
    ),
    change=lambda known: replace(known, elects_all_again=True),
)
