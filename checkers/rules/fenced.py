"""Elections of brokers that a KRaft controller takes for away (KAFKA-19522)."""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    PartitionState,
)


def elected_while_fenced(evidence: RunEvidence) -> Iterator[Finding]:
    """Yields a finding for each election of a broker that was fenced before and after it.

    What one batch of the metadata log has is applied at once, so a broker may be elected by the
    batch that unfences it. Source: ReplicationControlManager.LeaderAcceptor, which takes active
    brokers alone; PartitionChangeBuilder.canElectLastKnownLeader in 4.0 took others too.

    **Verifies**: every election in the metadata log of topics that are judged.
    **Does not verify**: that another replica should have been elected; that the broker's process
    lived.
    """
    batch_of = {entry.offset: entry.batch for entry in evidence.metadata_logs.entries}
    batches: dict[int, list[PartitionState | tuple[int, bool]]] = {}
    for timed in evidence.events:
        noted = batches.setdefault(batch_of.get(timed.zxid, timed.zxid), [])
        match timed.event:
            case PartitionState() as state:
                noted.append(state)
            case BrokerRegistered(broker=broker) | BrokerUnregistered(broker=broker):
                noted.append((broker, True))
            case BrokerRegistrationChanged(broker=broker, is_fenced=is_fenced):
                noted.append((broker, is_fenced))
            case _:
                pass
    unfenced: set[int] = set()
    epochs: dict[TopicPartition, int] = {}
    for noted in batches.values():
        before = frozenset(unfenced)
        for decision in noted:
            if isinstance(decision, tuple):
                broker, is_fenced = decision
                (unfenced.discard if is_fenced else unfenced.add)(broker)
        for state in (decision for decision in noted if isinstance(decision, PartitionState)):
            partition = TopicPartition(state.topic, state.partition)
            is_elected = state.leader >= 0 and epochs.get(partition, -1) != state.leader_epoch
            epochs[partition] = state.leader_epoch
            if is_elected and state.leader not in before | unfenced:
                yield Finding(
                    kind="decision-not-allowed",
                    topic=state.topic,
                    partition=state.partition,
                    brokers=(state.leader,),
                    message=f"offset {state.zxid} of the metadata log: broker {state.leader} was "
                    f"elected in leader epoch {state.leader_epoch} while it was fenced",
                    evidence={"offset": state.zxid, "leader_epoch": state.leader_epoch},
                )
