"""Since 1.1.0 a controller leaves the last member in an ISR, whether it may elect others or not.

Read from kafka.controller.ReplicaStateMachine.doRemoveReplicasFromIsr, 1.1.0; before,
KafkaController.removeReplicaFromIsr, 1.0.2.
"""

from dataclasses import replace

from kchaos.checkers.model.releases.rule import Rule


def keep_last_member(isr: tuple[int, ...], broker: int, _is_unclean: bool) -> tuple[int, ...]:
    """Return the ISR without the broker; with it where there is no other member."""
    return tuple(member for member in isr if member != broker) or isr


LAST_IN_ISR = Rule(
    name="last member stays in the ISR",
    since=("1.1.0",),
    is_of_zookeeper=True,
    source="kafka.controller.ReplicaStateMachine, 1.1.0",
    meaning=(
        "A controller leaves the last member in an ISR when that broker goes. Before, it took it "
        "out where unclean elections are allowed."
    ),
    change=lambda known: replace(known, isr_without=keep_last_member),
)
