"""Since 4.3.0 a partition keeps its eligible leader replicas as a directory is assigned.

Read from org.apache.kafka.controller.ReplicationControlManager.handleAssignReplicasToDirs, 4.2.1
and 4.3.0. No Jira: pull request 20716.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

ELIGIBLE_OF_ASSIGNED = Rule(
    name="eligible replicas of an assigned directory",
    since=("4.3.0",),
    source="org.apache.kafka.controller.ReplicationControlManager, 4.3.0",
    meaning=(
        "A partition keeps its eligible leader replicas as a broker tells in which of its "
        "directories a replica lies. Before, it loses them."
    ),
    change=lambda known: replace(known, keeps_eligible_of_assigned=True),
)
