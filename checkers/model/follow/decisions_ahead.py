"""Decisions that a record holds, indexed: an early step must fit those that come later."""

from collections import defaultdict

from kchaos.checkers.acts import StaleRequest, StopBroker, TopicPartition
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.values import events


class DecisionsAhead:
    """Indexes over the decisions of one record."""

    def __init__(self, record: Record) -> None:
        self._decided = record.decided
        self._written: dict[tuple[TopicPartition, int, int], list[tuple[int, frozenset[int]]]] = (
            defaultdict(list)
        )
        self._assigned: dict[str, list[tuple[tuple[int, ...], ...]]] = defaultdict(list)
        self._registered = {
            (item.what.target, item.what.broker_epoch): -1
            for item in record.seen
            if isinstance(item.what, StaleRequest) and item.what.broker_epoch is not None
        }
        for index, decided in enumerate(record.decided):
            self._note(index, decided.what)

    def _note(self, index: int, decision: object) -> None:
        match decision:
            case events.PartitionState(topic=topic, partition=partition, leader=leader, isr=isr):
                key = (TopicPartition(topic, partition), leader, decision.leader_epoch)
                self._written[key].append((index, frozenset(isr)))
            case events.TopicCreated(topic=topic, assignment=assignment):
                self._assigned[topic].append(assignment)
            case events.BrokerRegistered(broker=broker, czxid=czxid):
                self._registered.setdefault((broker, czxid), index)

    def is_always_assigned(self, partition: TopicPartition, broker: int) -> bool:
        """Return whether each assignment that a record has of a partition names a broker."""
        assigned = self._assigned[partition.topic]
        of_partition = [each[partition.partition :][:1] for each in assigned]
        replicas = [each[0] for each in of_partition if each]
        return bool(replicas) and all(broker in each for each in replicas)

    def is_written(self, state: events.PartitionState, decided: int) -> bool:
        """Return whether one of the first `decided` decisions wrote this state."""
        partition = TopicPartition(state.topic, state.partition)
        written = self._written.get((partition, state.leader, state.leader_epoch), [])
        return any(index < decided and isr == frozenset(state.isr) for index, isr in written)

    def is_registered(self, broker: int, broker_epoch: int, decided: int) -> bool:
        """Return whether a control request may name this broker epoch after `decided` decisions.

        A controller knows it from the registration in ZooKeeper (`getAllBrokerAndEpochsInCluster`
        of kafka.zk.KafkaZkClient, 2.2.0 and 3.8.0); a late request has what the scenario says.
        """
        known = self._registered.get((broker, broker_epoch))
        return broker_epoch < 0 or (known is not None and known < decided)

    def closed_by(self, stop: StopBroker, time: float) -> int | None:
        """Return the index of the decision since which a clean stop's broker is unregistered."""
        if not stop.clean:
            return None
        registrations = [
            (index, decision.what)
            for index, decision in enumerate(self._decided)
            if isinstance(decision.what, events.BrokerRegistered | events.BrokerUnregistered)
            and decision.what.broker == stop.broker
            and decision.time <= time
        ]
        if not registrations or isinstance(registrations[-1][1], events.BrokerRegistered):
            return None
        return registrations[-1][0]
