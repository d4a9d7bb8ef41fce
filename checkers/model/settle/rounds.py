"""One scheduler over the machine: everything that can happen happens, in a fixed order.

It stands for a cluster that is left alone after each event until nothing changes any more.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.broker.exchange import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.settle import stale_request
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.prediction import EpochRound
from kchaos.checkers.model.values.replica import FetcherThread
from kchaos.checkers.model.values.requests import Exchange, FetchAnswer, Stage

_ROUNDS_LIMIT = 10_000
"""A guard against an endless loop in the model itself; real timelines need some dozens."""


class _Told(NamedTuple):
    """Last answer of a fetch session about a partition, and its follower's leader epoch then."""

    high_watermark: int
    log_start_offset: int
    leader_epoch: int

    @classmethod
    def by(cls, answer: FetchAnswer, leader_epoch: int) -> "_Told":
        return cls(answer.high_watermark, answer.log_start_offset, leader_epoch)


Step = Callable[..., bool]
Perform = Callable[..., bool]
"""Performs a step, (world, step, its other arguments), and returns whether it changed anything."""


def at_once(world: World, step: Step, *arguments: Any) -> bool:
    """Perform a step without remembering it."""
    return step(world, *arguments)


def settle(world: World, perform: Perform = at_once) -> None:
    """Let controllers, leaders and fetchers work, in a fixed order, until nothing changes.

    A truncation that never completes (KAFKA-10706) repeats itself without a change, so it ends the
    rounds too, and its partition stays "truncating".

    Args:
        world: The transition.
        perform: Performs one step; it may remember what a step did where it read the same.

    Raises:
        ModelError: The rounds do not end.
    """
    for _ in range(_ROUNDS_LIMIT):
        changed = _control(world, perform)
        changed = _learn(world, perform) or changed
        for broker_id in world.broker_ids():
            for source in world.leaders(broker_id):
                changed = perform(world, _work, broker_id, source) or changed
        if not changed and not _end_waits(world, perform):
            return
    raise ModelError(f"followers still change after {_ROUNDS_LIMIT} rounds; this is the model's")


def _control(world: World, perform: Perform) -> bool:
    changed = False
    for broker_id in world.broker_ids():
        changed = perform(world, outboxes.learn_epoch, broker_id) or changed
        if world.received(broker_id):
            changed = perform(world, stale_request.serve, broker_id) or changed
    for epoch in world.controller_epochs():
        changed = perform(world, _observe, epoch) or changed
        for broker_id in world.broker_ids():
            changed = perform(world, _deliver, epoch, broker_id) or changed
    return changed


def _observe(world: World, epoch: int) -> bool:
    if not outboxes.sees_changes(world, epoch):
        return False
    outboxes.observe(world, epoch)
    return True


def _deliver(world: World, epoch: int, broker_id: int) -> bool:
    changed = False
    while True:
        if outboxes.may_answer(world, epoch, broker_id):
            outboxes.answered(world, epoch, broker_id)
        elif not (
            outboxes.may_send(world, epoch, broker_id) and outboxes.send(world, epoch, broker_id)
        ):
            return changed
        changed = True


def _learn(world: World, perform: Perform) -> bool:
    changed = False
    for partition in world.get(("topics",)) or ():
        for broker_id in world.assignment(partition):
            changed = perform(world, _learn_isr, broker_id, partition) or changed
    return changed


def _learn_isr(world: World, broker_id: int, partition: TopicPartition) -> bool:
    if world.get(("isr change", broker_id, partition)) is None:
        return False
    broker = world.broker(broker_id)
    if broker is None:
        return False
    asks = broker.generation.asks_controller_for_isr
    if asks and not _reaches_controller(world, broker_id):
        return False
    leader.learn_isr(world, broker_id, partition)
    return True


def _reaches_controller(world: World, broker_id: int) -> bool:
    epochs = world.controller_epochs()
    if not epochs:
        return False
    controller = world.controller(epochs[-1]).broker
    if controller == broker_id:
        return True
    held = any(
        True
        for direction in ("request", "response")
        for _ in world.holding("AlterPartition", broker_id, controller, direction)
    )
    return not held and world.passes(broker_id, controller) and world.passes(controller, broker_id)


def _work(world: World, broker_id: int, source: int) -> bool:
    """Do one round of a fetcher thread's doWork: truncate, then fetch."""
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    if broker is None or thread is None or thread.is_dead or not broker.is_working:
        return False
    waiting = exchange.awaited(world, broker_id, source)
    if waiting is not None and _is_overtaken(world, source, thread, waiting):
        _lose(world, broker_id, source, waiting)
        waiting = None
    if waiting is not None:
        changed = _go_on(world, broker_id, source, waiting)
        changed = _reset_offsets(world, broker_id, source) or changed
        is_over = exchange.awaited(world, broker_id, source) is None
        return changed or (is_over and waiting.api == LIST_OFFSETS)
    _answer_overtaken(world, broker_id, source)
    changed = exchange.go_on_without_asking(world, broker_id, source)
    for api in (OFFSET_FOR_LEADER_EPOCH, FETCH):
        asked = exchange.question(world, broker_id, source, api)
        if asked is not None and not world.passes(broker_id, leader_of(source)):
            # A request that waited at the leader, or this one, is lost, and its connection with it.
            exchange.end_session(world, broker_id, source, asked)
        elif asked is not None:
            sent = exchange.send(world, broker_id, source, asked)
            changed = _go_on(world, broker_id, source, sent) or changed
            if exchange.awaited(world, broker_id, source) is not None:
                return True
    return _reset_offsets(world, broker_id, source) or changed


def _is_overtaken(world: World, source: int, thread: FetcherThread, waiting: Exchange) -> bool:
    """Return whether the answer to a Fetch is held, and the next one would be another.

    The follower knows of a newer leader epoch, or its leader would refuse it by now. Its time-out
    passes before the next event, and it asks anew.
    """
    if waiting.api != FETCH or not waiting.holds or waiting.stage is not Stage.DELIVERED:
        return False
    answers = dict(waiting.answers)
    for partition, asked in waiting.asked:
        fetch, answer = thread.fetch(partition), answers.get(partition)
        if fetch is None:
            continue
        # A failed Fetch ends its session, so that the next one is full.
        again = replace(asked, is_incremental=False)
        now = leader.read(world, leader_of(source), partition, again)
        if fetch.leader_epoch > asked.leader_epoch or (
            now.error and answer is not None and not answer.error
        ):
            return True
    return False


def _reset_offsets(world: World, broker_id: int, source: int) -> bool:
    """Let a thread that is out of range ask for its leader's end and start."""
    changed = False
    while (asked := exchange.question(world, broker_id, source, LIST_OFFSETS)) is not None:
        sent = exchange.send(world, broker_id, source, asked)
        changed = _go_on(world, broker_id, source, sent) or changed
        if exchange.awaited(world, broker_id, source) is not None:
            return True
        thread = world.thread(broker_id, source)
        if thread is not None and thread.reset is not None and thread.reset.is_asked:
            exchange.go_on_without_asking(world, broker_id, source)
    return changed


def _end_waits(world: World, perform: Perform) -> bool:
    """Let leaders end the waits of Fetches whose answers are held; return whether any waited.

    replica.fetch.wait.max.ms pass before the next event, so that the answer has the high watermark
    that the other followers have moved meanwhile (DelayedFetch.onComplete).
    """
    ended = False
    for broker_id in world.broker_ids():
        for source in world.leaders(broker_id):
            ended = perform(world, _end_wait, broker_id, source) or ended
    return ended


def _end_wait(world: World, broker_id: int, source: int) -> bool:
    waiting = exchange.awaited(world, broker_id, source)
    if waiting is None or waiting.stage is not Stage.WAITING:
        return False
    answered = exchange.answer_waiting(world, broker_id, source, waiting)
    held = exchange.hold_answer(world, broker_id, source, answered)
    world.notes += exchange.rounds(world, broker_id, source, held)
    exchange.change(world, broker_id, source, held, replace(held, stage=Stage.DELIVERED))
    return True


def _go_on(world: World, broker_id: int, source: int, request: Exchange) -> bool:
    """Let a request go as far as it gets; return whether anything changed but its way."""
    if request.holds or request.stage is Stage.WAITING:
        return False
    changed = False
    if request.stage is Stage.SENT:
        if not world.passes(broker_id, leader_of(source)):
            # What stays in a cut times out at last, and the thread asks anew.
            _lose(world, broker_id, source, request)
            return False
        request, changed = exchange.read(world, broker_id, source, request)
        if request.stage is Stage.WAITING:
            if exchange.answer_is_held(world, broker_id, source, request):
                return changed
            request = exchange.answer_waiting(world, broker_id, source, request)
        if not world.passes(leader_of(source), broker_id):
            _lose(world, broker_id, source, request)
            return changed
        request = exchange.hold_answer(world, broker_id, source, request)
        if request.holds:
            world.notes += exchange.rounds(world, broker_id, source, request)
            delivered = replace(request, stage=Stage.DELIVERED)
            exchange.change(world, broker_id, source, request, delivered)
            return True
    elif not world.passes(leader_of(source), broker_id):
        return False
    request = _without_told_again(world, broker_id, source, request)
    answered = exchange.rounds(world, broker_id, source, request)
    is_held = request.stage is Stage.DELIVERED
    moved = exchange.handle(world, broker_id, source, request)
    _forget_refused(world, broker_id, source, request)
    if not is_held:
        _note_rounds(world, answered, is_new=moved)
    return moved or changed or is_held


def _without_told_again(world: World, broker_id: int, source: int, request: Exchange) -> Exchange:
    """Leave out what a fetch session has told; return the request with the rest of its answers.

    An answer that brings nothing but the high watermark and log start that the session told last
    for a partition leaves the partition out, also if the follower did not take them then
    (CachedPartition.maybeUpdateResponseData, 1.1.1 and 2.5.1). The follower learns the high
    watermark when it moves next.
    """
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    if request.api != FETCH or request.error or broker is None or thread is None:
        return request
    if not broker.generation.tells_high_watermark_once:
        return request
    told = _told(world, broker_id, source)
    kept = []
    for partition, answer in request.answers:
        assert isinstance(answer, FetchAnswer)
        fetch = thread.fetch(partition)
        tells = _Told.by(answer, -1 if fetch is None else fetch.leader_epoch)
        is_known = partition in (thread.session or ()) and told.get(partition) == tells
        if not (is_known and exchange.says_nothing(answer)):
            kept.append((partition, answer))
        told[partition] = tells
    _remember_told(world, broker_id, source, told)
    if len(kept) == len(request.answers):
        return request
    after = replace(request, answers=tuple(kept))
    exchange.change(world, broker_id, source, request, after)
    return after


def _answer_overtaken(world: World, broker_id: int, source: int) -> None:
    """Answer the Fetch that waited at a leader while the follower was told of a newer leader epoch.

    The follower does not take the answer. A leader that sees the earlier epoch refuses the Fetch,
    and tells its high watermark anew then. A leader that does not see it has told its high
    watermark (KAFKA-9338).
    """
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    if broker is None or thread is None or not broker.generation.tells_high_watermark_once:
        return
    told = _told(world, broker_id, source)
    for partition, fetch in thread.partitions:
        if partition in told and told[partition].leader_epoch != fetch.leader_epoch:
            overtaken = told.pop(partition)
            answer = exchange.read_as_in_epoch(
                world, broker_id, source, partition, overtaken.leader_epoch
            )
            if not answer.error:
                told[partition] = _Told.by(answer, fetch.leader_epoch)
    _remember_told(world, broker_id, source, told)


def _told(world: World, broker_id: int, source: int) -> dict[TopicPartition, _Told]:
    return dict(world.get(("told", broker_id, source)) or ())


def _remember_told(
    world: World, broker_id: int, source: int, told: dict[TopicPartition, _Told]
) -> None:
    world.put(("told", broker_id, source), tuple(sorted(told.items())) or None)


def _lose(world: World, broker_id: int, source: int, request: Exchange) -> None:
    exchange.end(world, broker_id, source, request)
    exchange.end_session(world, broker_id, source, request)


def _forget_refused(world: World, broker_id: int, source: int, request: Exchange) -> None:
    """Take what was refused out of the fetch session; without partitions it ends.

    The follower asks for the partition again after its backoff, and forgets it for that time
    (AbstractFetcherThread.handlePartitionsWithErrors, FetchManager.newContext, 2.1.1).
    """
    refused = frozenset(partition for partition, answer in request.answers if answer.error)
    thread = world.thread(broker_id, source)
    if request.api == FETCH and refused and thread is not None and thread.session:
        left = thread.session - refused
        world.put_thread(broker_id, source, replace(thread, session=left or None))


def _note_rounds(world: World, answered: list[EpochRound], *, is_new: bool) -> None:
    """Note what was answered; a repetition that changes nothing is noted once."""
    for epoch_round in answered:
        known = [note for note in world.notes if isinstance(note, EpochRound)]
        if is_new or epoch_round not in known[-1:]:
            world.notes.append(epoch_round)
