"""KIP-570: a StopReplica names the partition's leader epoch, and a broker refuses an older one.

Jira KAFKA-9539. From 2.6.0 to 3.4.0 a broker also refuses the partition's own leader epoch
(KAFKA-13972), and a controlled shutdown sends just that to the followers that it stops: the
controller sends it before it takes them out of the ISR in a new epoch. Read from
kafka.server.ReplicaManager.stopReplicas, 2.6.0, 2.8.2, 3.4.0 and 3.4.1,
kafka.controller.ReplicaStateMachine (OfflineReplica) and ControllerChannelManager, 2.6.0 and 2.8.2.

A controller tells the epoch from inter-broker protocol 2.6-IV0 on. A broker looks at it whatever
its own protocol is, and obeys where none is told.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KIP_570 = Rule(
    name="KIP-570",
    since=("2.6.0",),
    is_of_zookeeper=True,
    source="kafka.server.ReplicaManager, 2.6.0",
    meaning=(
        "A broker obeys a StopReplica with a leader epoch only if that is newer than the "
        "partition's own, and whenever the request has none (KAFKA-9539)."
    ),
    change=lambda known: replace(known, refuses_stop=lambda told, own: 0 <= told <= own),
)

EPOCHS_TOLD = Rule(
    name="leader epochs in StopReplica",
    since=("2.6.0",),
    protocol="2.6-IV0",
    is_of_zookeeper=True,
    source="kafka.controller.ControllerChannelManager, 2.6.0",
    meaning="A controller's StopReplica names the partition's leader epoch (KIP-570).",
    change=lambda known: replace(known, tells_epoch_to_stop=True),
)

KAFKA_13972 = Rule(
    name="KAFKA-13972",
    since=("3.4.1", "3.5.0"),
    is_of_zookeeper=True,
    source="kafka.server.ReplicaManager, 3.4.1",
    meaning="StopReplica is obeyed at the partition's own leader epoch too.",
    change=lambda known: replace(known, refuses_stop=lambda told, own: 0 <= told < own),
)
