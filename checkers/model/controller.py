"""Decisions: what the controller and the leaders wrote to ZooKeeper, and whom it is told.

The controller queues a LeaderAndIsr for each live assigned replica; each broker's queue is sent in
order, one request at a time (ControllerChannelManager, RequestSendThread), and thrown away when the
controller sees the broker leave. A newly registered broker is sent the present state of all its
partitions (KafkaController.onBrokerStartup), and so is every broker by a new controller. Changes of
the ISR that a leader wrote are sent to nobody. Read from 1.1.1, 2.1.1, 2.2.0 and 2.8.2.

KIP-380 is modelled only so far: up to 2.1 a controller that was stopped while a broker left and
came back does not notice, and sends nothing.
"""

from checkers.model import follower, leader
from checkers.model.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    PartitionState,
    TopicCreated,
    TopicPartition,
)
from checkers.model.state import Broker, Cluster, Outbox, Replica

LEADER_AND_ISR = "LeaderAndIsr"


def topic_created(cluster: Cluster, event: TopicCreated) -> None:
    """Note the assignment."""
    for index, replicas in enumerate(event.assignment):
        cluster.assignments[TopicPartition(event.topic, index)] = replicas


def partition_state(cluster: Cluster, event: PartitionState) -> None:
    """Follow a new partition state: a new epoch is the controller's, else it is a leader's ISR."""
    partition = TopicPartition(event.topic, event.partition)
    known = cluster.partition_states.get(partition)
    cluster.partition_states[partition] = event
    if known is None or event.leader_epoch > known.leader_epoch:
        for broker_id in cluster.assignments.get(partition, ()):
            if broker_id in cluster.outboxes:
                cluster.outboxes[broker_id].states.append(event)
        return
    broker = cluster.brokers.get(event.leader)
    replica = broker.replicas.get(partition) if broker is not None else None
    if broker is None or replica is None or not broker.is_running:
        return
    if replica.leader == event.leader and replica.leader_epoch == event.leader_epoch:
        for removed in set(replica.isr) - set(event.isr):
            if removed in replica.views:
                replica.views[removed].is_caught_up = False
                replica.views[removed].asks_to_join = False
        replica.isr = event.isr
        leader.increment_high_watermark(cluster, broker, partition)


def broker_registered(cluster: Cluster, event: BrokerRegistered) -> None:
    """Note the broker; the controller sees it unless it is stopped."""
    cluster.registered[event.broker] = event.czxid
    observe(cluster)


def broker_unregistered(cluster: Cluster, event: BrokerUnregistered) -> None:
    """Forget the broker; the controller sees it unless it is stopped."""
    cluster.registered.pop(event.broker, None)
    observe(cluster)


def controller_elected(cluster: Cluster, event: ControllerElected) -> None:
    """Let a new controller tell every broker the present state of its partitions."""
    cluster.controller = event.broker
    cluster.seen = dict(cluster.registered)
    cluster.outboxes = {}
    for broker_id in sorted(cluster.seen):
        _open(cluster, broker_id)


def observe(cluster: Cluster) -> None:
    """Let the controller compare the registered brokers with those that it last saw."""
    acting = _acting(cluster)
    if acting is None:
        return
    for broker_id, czxid in list(cluster.seen.items()):
        bounced = cluster.registered.get(broker_id, czxid) != czxid
        if broker_id not in cluster.registered or (bounced and acting.generation.sees_bounces):
            del cluster.seen[broker_id]
            cluster.outboxes.pop(broker_id, None)
    for broker_id, czxid in sorted(cluster.registered.items()):
        if broker_id not in cluster.seen:
            _open(cluster, broker_id)
        cluster.seen[broker_id] = czxid


def deliver(cluster: Cluster) -> bool:
    """Send what is queued to each broker that can be reached; returns whether anything was."""
    acting = _acting(cluster)
    if acting is None:
        return False
    delivered = False
    for broker_id in sorted(cluster.outboxes):
        outbox = cluster.outboxes[broker_id]
        while outbox.states and not outbox.held_by and _reaches(cluster, acting, broker_id):
            held = _holds(cluster, acting.broker, broker_id, outbox.states[0], "request")
            if held:
                outbox.held_by = held
                break
            state = outbox.states.popleft()
            outbox.held_by = _holds(cluster, acting.broker, broker_id, state, "response")
            leader_and_isr(cluster, cluster.brokers[broker_id], state)
            delivered = True
    return delivered


def leader_and_isr(cluster: Cluster, broker: Broker, state: PartitionState) -> None:
    """Handle a LeaderAndIsr on one broker (ReplicaManager.becomeLeaderOrFollower)."""
    partition = TopicPartition(state.topic, state.partition)
    replica = broker.replicas.setdefault(partition, Replica())
    if state.leader_epoch <= replica.leader_epoch:
        return
    if state.leader == broker.broker:
        follower.leave_fetchers(broker, partition)
        leader.become_leader(cluster, broker, partition, state)
    elif state.leader in cluster.seen:
        follower.become_follower(cluster, broker, partition, state)
    follower.end_idle_threads(broker)


def _open(cluster: Cluster, broker_id: int) -> None:
    outbox = cluster.outboxes[broker_id] = Outbox()
    for partition, state in sorted(cluster.partition_states.items()):
        if broker_id in cluster.assignments.get(partition, ()):
            outbox.states.append(state)


def _acting(cluster: Cluster) -> Broker | None:
    if cluster.controller is None:
        return None
    broker = cluster.brokers.get(cluster.controller)
    return broker if broker is not None and broker.is_running and not broker.is_paused else None


def _reaches(cluster: Cluster, acting: Broker, broker_id: int) -> bool:
    if broker_id not in cluster.brokers:
        return False
    if broker_id == acting.broker:
        return True
    return cluster.passes(acting.broker, broker_id)


def _holds(
    cluster: Cluster, source: int, target: int, state: PartitionState, direction: str
) -> set[str]:
    return {
        hold.name
        for hold in cluster.holds.values()
        if hold.api == LEADER_AND_ISR
        and hold.direction == direction
        and hold.source in (None, source)
        and hold.target in (None, target)
        and hold.topic in (None, state.topic)
        and hold.partition in (None, state.partition)
    }
