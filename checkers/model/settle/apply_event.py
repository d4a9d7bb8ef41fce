"""Transitions of events: what each action and each decision does at once."""

from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from kchaos.checkers import acts
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.broker import (
    cleaning,
    exchange,
    leader,
    log_start,
    process,
    topic_settings,
)
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.releases.composition import generation_of
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle import stale_request
from kchaos.checkers.model.state.state import Broker, Checkpoint
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.prediction import ImpossibleHighWatermark, PredictedProduce
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.shared import Shared


def happen(world: World, event: events.Event, generations: Mapping[int, Generation]) -> None:
    """Let one event take effect, without what brokers do because of it.

    Args:
        world: The transition.
        event: Any; a look at the cluster changes nothing, nor does `AskBrokerToStop`: the broker
            works on.
        generations: In place of what `StartBroker` says, for brokers that are not as released.

    Raises:
        ModelError: The state makes the event impossible.
        AssertionError: No case says what the event changes.
    """
    if isinstance(event, events.Decision):
        decide(world, event)
        return
    match event:
        case acts.StartBroker():
            _start(world, event, generations.get(event.broker))
        case acts.StopBroker() | acts.PauseBroker() | acts.ResumeBroker():
            _process(world, event)
        case (
            acts.LoseTail()
            | acts.LoseEpochs()
            | acts.WipeLogDirectory()
            | acts.FailLogDirectory()
            | acts.RestoreLogDirectory()
        ):
            _disk(world, event)
        case (
            acts.CutLink()
            | acts.HealLink()
            | acts.Hold()
            | acts.ReleaseHold()
            | acts.ForgeAnswers()
            | acts.EndForgery()
            | acts.StaleRequest()
        ):
            _network(world, event)
        case acts.HoldPoint() | acts.ReleasePoint():
            _point(world, event)
        case events.Produce():
            _produce(world, event)
        case events.HighWatermarkObserved() | events.LogCleaned():
            _look(world, event)
        case events.DeleteRecords() | events.LogStartObserved():
            _log_start(world, event)
        case acts.AdoptTopicConfiguration():
            topic_settings.adopt(world, event)
        case events.Snapshot() | events.TierRead() | acts.AskBrokerToStop():
            pass
        case _:
            assert_never(event)


def decide(world: World, decision: events.Decision) -> None:
    """Let ZooKeeper take a write in: what was decided, and who is to be told of it.

    Raises:
        ModelError: Only a KRaft cluster decides that.
        AssertionError: No case says what the decision changes.
    """
    match decision:
        case events.TopicCreated():
            outboxes.topic_created(world, decision)
        case events.TopicIdentified():
            world.put(("topic id", decision.topic), decision.topic_id)
        case events.TopicDeleted():
            outboxes.topic_deleted(world, decision)
        case events.TopicConfigured():
            topic_settings.configured(world, decision)
        case events.PartitionState():
            outboxes.partition_state(world, decision)
        case events.BrokerRegistered():
            outboxes.broker_registered(world, decision)
        case events.BrokerUnregistered():
            outboxes.broker_unregistered(world, decision)
        case events.ControllerElected():
            outboxes.controller_elected(world, decision)
        case (
            events.BrokerRegistrationChanged()
            | events.EligibleReplicas()
            | events.FeatureLevelSet()
        ):
            raise ModelError(f"{type(decision).__name__}: only a KRaft cluster decides that")
        case _:
            assert_never(decision)


def _process(world: World, event: acts.StopBroker | acts.PauseBroker | acts.ResumeBroker) -> None:
    match event:
        case acts.StopBroker():
            _stop(world, event)
        case acts.PauseBroker():
            _pause(world, event)
        case acts.ResumeBroker():
            _resume(world, event)


def _disk(
    world: World,
    event: acts.LoseTail
    | acts.LoseEpochs
    | acts.WipeLogDirectory
    | acts.FailLogDirectory
    | acts.RestoreLogDirectory,
) -> None:
    match event:
        case acts.LoseTail():
            _lose_tail(world, event)
        case acts.LoseEpochs():
            _lose_epochs(world, event)
        case acts.WipeLogDirectory():
            _wipe(world, event)
        case acts.FailLogDirectory():
            fail_directory(world, event)
            process.fail_log_directory(world, event)
        case acts.RestoreLogDirectory():
            _restore_directory(world, event)


def _network(
    world: World,
    event: acts.CutLink
    | acts.HealLink
    | acts.Hold
    | acts.ReleaseHold
    | acts.ForgeAnswers
    | acts.EndForgery
    | acts.StaleRequest,
) -> None:
    match event:
        case acts.CutLink():
            world.put(("cuts",), (*world.cuts(), event))
        case acts.HealLink():
            world.put(("cuts",), tuple(cut for cut in world.cuts() if not event.heals(cut)))
        case acts.Hold():
            world.put(("holds",), (*world.holds(), event))
        case acts.ReleaseHold():
            _release(world, event.name)
        case acts.ForgeAnswers():
            world.put(("forgeries",), (*world.forgeries(), event))
        case acts.EndForgery():
            left = tuple(forgery for forgery in world.forgeries() if forgery.name != event.name)
            world.put(("forgeries",), left)
        case acts.StaleRequest():
            stale_request.arrive(world, event)


def _start(world: World, event: acts.StartBroker, generation: Generation | None) -> None:
    if world.running(event.broker) is not None:
        raise ModelError(f"broker {event.broker} runs already; stop it first")
    if event.replica_fetchers > len(world.sources(event.broker, 0)):
        world.put(("fetchers", event.broker), event.replica_fetchers)
    process.start(world, event, generation or generation_of(event))


def _stop(world: World, event: acts.StopBroker) -> None:
    broker = world.broker(event.broker)
    if broker is None or not (broker.is_running or broker.has_exited):
        raise ModelError(f"broker {event.broker} does not run; start it first")
    checkpointed = None
    if event.checkpointed is not None:
        checkpointed = {acts.TopicPartition(*each[:2]): each[2] for each in event.checkpointed}
    process.stop(world, event.broker, is_clean=event.clean, checkpointed=checkpointed)
    stopped = world.broker(event.broker)
    assert stopped is not None
    world.put_broker(event.broker, replace(stopped, has_exited=False, hangs=False))


def fail_directory(world: World, event: acts.FailLogDirectory) -> None:
    """Note that a log directory fails, whenever its broker finds out.

    Raises:
        ModelError: The broker does not run.
    """
    if world.running(event.broker) is None:
        raise ModelError(f"broker {event.broker} must run for a log directory to fail")
    failed: tuple[acts.FailLogDirectory, ...] = world.get(("failed", event.broker)) or ()
    world.put(("failed", event.broker), (*failed, event))


def _restore_directory(world: World, event: acts.RestoreLogDirectory) -> None:
    broker = world.broker(event.broker)
    if broker is None or broker.is_running:
        raise ModelError(
            f"broker {event.broker} must be down before a log directory of it is restored: "
            "what it does then while it runs is not followed"
        )
    failed: tuple[acts.FailLogDirectory, ...] = world.get(("failed", event.broker)) or ()
    left = tuple(known for known in failed if known.directory != event.directory)
    there = frozenset(
        acts.TopicPartition(*each)
        for known in failed
        if known not in left
        for each in known.partitions
    )
    restored: frozenset[acts.TopicPartition] = world.get(("restored", event.broker)) or frozenset()
    world.put(("restored", event.broker), restored | there)
    world.put(("failed", event.broker), left or None)


def _pause(world: World, event: acts.PauseBroker) -> None:
    world.put_broker(event.broker, replace(_running(world, event.broker), is_paused=True))
    for leader_id in world.leaders(event.broker):
        waiting = world.exchanges(event.broker, leader_id)
        paused = tuple(replace(open_exchange, was_paused=True) for open_exchange in waiting)
        world.put_exchanges(event.broker, leader_id, paused)


def _resume(world: World, event: acts.ResumeBroker) -> None:
    broker = _running(world, event.broker)
    world.put_broker(event.broker, replace(broker, is_paused=False))
    waiting: tuple[events.Produce, ...] = world.get(("delayed", event.broker)) or ()
    world.put(("delayed", event.broker), None)
    for request in waiting:
        leader.produce(world, request)


def _lose_tail(world: World, event: acts.LoseTail) -> None:
    partition, replica = _replica_to_lose(world, event, "tail")
    if any(
        batch.base_offset < event.log_end_offset <= batch.last_offset
        for batch in replica.log.batches
    ):
        raise ModelError(f"offset {event.log_end_offset} is inside a batch, not at an edge")
    shorter = replica.log.lose_tail(event.log_end_offset)
    world.put(("replica", event.broker, partition), replace(replica, log=shorter))


def _lose_epochs(world: World, event: acts.LoseEpochs) -> None:
    partition, replica = _replica_to_lose(world, event, "epochs")
    world.put(("replica", event.broker, partition), replace(replica, entries=()))


def _replica_to_lose(
    world: World, event: acts.LoseTail | acts.LoseEpochs, lost: str
) -> tuple[acts.TopicPartition, Replica]:
    _require_stopped(world, event.broker, lost)
    partition = acts.TopicPartition(event.topic, event.partition)
    replica = world.replica(event.broker, partition)
    if replica is None:
        raise ModelError(f"broker {event.broker} has no replica of {event.topic}")
    return partition, replica


def _require_stopped(world: World, broker: int, lost: str) -> None:
    if world.broker(broker) is None or world.running(broker) is not None:
        raise ModelError(f"broker {broker} must be stopped to lose its {lost}")


def _wipe(world: World, event: acts.WipeLogDirectory) -> None:
    """Empty every replica: the next start finds no log, and creates one when it is told to."""
    _require_stopped(world, event.broker, "logs")
    if world.get(("failed", event.broker)):
        raise ModelError(
            f"broker {event.broker} loses its logs while a log directory of it has failed: "
            "what is left then is not followed"
        )
    for partition in world.partitions(event.broker):
        world.put(("replica", event.broker, partition), Replica())
        world.put(("checkpoint", event.broker, partition), Checkpoint())


def _produce(world: World, event: events.Produce) -> None:
    if world.get(("answer", event.operation)) is not None:
        raise ModelError(f"operation {event.operation!r} was used before")
    broker = world.running(event.broker)
    waiting = PredictedProduce(operation=event.operation, acknowledged=None, base_offset=-1)
    world.answer(waiting)
    if broker is None:
        world.answer(replace(waiting, acknowledged=False, error="BROKER_NOT_AVAILABLE"))
    elif broker.is_paused:
        delayed = world.get(("delayed", event.broker)) or ()
        world.put(("delayed", event.broker), (*delayed, event))
    else:
        leader.produce(world, event)


def _release(world: World, name: str) -> None:
    world.put(("holds",), tuple(hold for hold in world.holds() if hold.name != name))
    for epoch in world.controller_epochs():
        for broker_id in world.broker_ids():
            _release_outbox(world, epoch, broker_id, name)
    for broker_id in world.broker_ids():
        for leader_id in world.leaders(broker_id):
            for open_exchange in world.exchanges(broker_id, leader_id):
                if name in open_exchange.holds:
                    left = tuple(hold for hold in open_exchange.holds if hold != name)
                    exchange.change(
                        world,
                        broker_id,
                        leader_id,
                        open_exchange,
                        replace(open_exchange, holds=left),
                    )


def _release_outbox(world: World, epoch: int, broker_id: int, name: str) -> None:
    outbox = world.outbox(epoch, broker_id)
    if outbox is None or name not in outbox.held_by:
        return
    left = tuple(hold for hold in outbox.held_by if hold != name)
    world.put(("outbox", epoch, broker_id), replace(outbox, held_by=left))
    # What has to wait for a fetcher of the broker is the next that the controller sends.
    if not left and not outbox.is_unanswered:
        outboxes.deliver(world, epoch, broker_id)


def _point(world: World, event: acts.HoldPoint | acts.ReleasePoint) -> None:
    left = tuple(hold for hold in world.point_holds() if hold.name != event.name)
    world.put(("point holds",), (*left, event) if isinstance(event, acts.HoldPoint) else left)


def _log_start(world: World, event: events.DeleteRecords | events.LogStartObserved) -> None:
    if isinstance(event, events.DeleteRecords):
        log_start.asked_to_delete(world, event)
        return
    refused = log_start.observed(world, event)
    if refused:
        raise ModelError(
            f"broker {event.broker}'s log of {event.topic}-{event.partition} was seen to begin at "
            f"{event.log_start_offset}: {refused}"
        )


def _look(world: World, event: events.HighWatermarkObserved | events.LogCleaned) -> None:
    if isinstance(event, events.LogCleaned):
        cleaning.clean(world, event)
    else:
        _observe(world, event)


def _observe(world: World, event: events.HighWatermarkObserved) -> None:
    """Note what a running broker's checkpoint file held, and whether it can have held that.

    A file only moves forward to what memory held later, so every older value is dropped. Of a value
    that came more than once, the file may have held the first.
    """
    partition = acts.TopicPartition(event.topic, event.partition)
    high_watermark = event.high_watermark
    possible: Shared[int] = Shared()
    if world.replica(event.broker, partition) is not None:
        possible = world.checkpoint(event.broker, partition).possible
    if high_watermark in possible:
        later = Shared(possible[possible.index(high_watermark) :])
        world.put(
            ("checkpoint", event.broker, partition),
            Checkpoint(known=high_watermark, possible=later, is_observed=True),
        )
        return
    world.notes.append(
        ImpossibleHighWatermark(
            index=-1,
            broker=event.broker,
            topic=event.topic,
            partition=event.partition,
            high_watermark=high_watermark,
            allowed=tuple(sorted(set(possible))),
        )
    )


def _running(world: World, broker_id: int) -> Broker:
    broker = world.running(broker_id)
    if broker is None:
        raise ModelError(f"broker {broker_id} does not run; start it first")
    return broker
