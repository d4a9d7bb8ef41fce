"""Since 2.3.0 a new controller takes the replicas of dead brokers out of the ISRs (KAFKA-3143).

Read from kafka.controller.ReplicaStateMachine.startup, 2.3.0; before, it only brings the replicas
of live brokers online (2.2.2), and a broker that died unseen stays in the ISR until its leader
drops it.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule

KAFKA_3143 = Rule(
    name="KAFKA-3143",
    since=("2.3.0",),
    is_of_zookeeper=True,
    source="kafka.controller.ReplicaStateMachine, 2.3.0",
    meaning=(
        "A new controller also takes the replicas of dead brokers out of the ISRs, which adds one "
        "to the leader epoch. Before, a broker that died while no controller saw it stays in the "
        "ISR until its leader drops it."
    ),
    change=lambda known: replace(known, removes_offline_at_start=True),
)
