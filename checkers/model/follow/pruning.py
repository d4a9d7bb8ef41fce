"""Partial-order reduction: steps that are independent of all others are taken at once.

A step is taken at once if neither its own outcome nor anything else depends on when it happens
before its trace in the record: then the other orders lead to the same states, and need not be
looked at. What a state needs no more is left out, so that states that are alike are equal.
"""

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.follow.internal_control_steps import handle_control
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import errors_differ
from kchaos.checkers.model.state.state import Broker, Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import (
    MOVED_TO_TIER,
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    Received,
    Stage,
    UpdateMetadata,
)


def step_at_once(state: State, lookahead: Lookahead, index: int) -> World | None:
    """Return a step that may be taken at once before the observation of that index, or None."""
    get = state.lookup
    for broker_id in get(("brokers",)) or ():
        broker: Broker | None = get(("broker", broker_id))
        if broker is None or not broker.is_working:
            continue
        if get(("control", broker_id)) is not None:
            step = _told_nothing_new(state, broker_id, broker, lookahead, index)
            step = step or _followed_already(state, broker_id, broker)
            if step is not None:
                return step
            continue
        for source in get(("leaders", broker_id)) or ():
            for request in get(("exchanges", broker_id, source)) or ():
                if request.is_awaited:
                    break
            else:
                continue
            if request.stage is not Stage.DELIVERED or request.was_paused:
                continue
            step = _answered_nothing_new(state, broker_id, source, request, lookahead, index)
            if step is not None:
                return step
    return None


def needed(
    changes: dict[Component, object], lookahead: Lookahead, index: int
) -> dict[Component, object]:
    """Return changes of components without what nothing that is still to come looks at.

    Left out are what a broker answered to its controller, if no answer was seen; a request that its
    thread has given up, once the leader has done with it, if no answer was seen; what is in an
    answer that was not seen; and what a client's produce was answered, if the client has its answer
    or gets none.

    `index` is of the first observation that is not taken yet.
    """
    kept = dict(changes)
    for component, value in changes.items():
        if component[0] == "control" and isinstance(value, tuple):
            kept[component] = tuple(item for item in value if _awaits(item, lookahead)) or None
        elif component[0] == "exchanges" and isinstance(value, tuple):
            seen = (_as_needed(item, lookahead) for item in value)
            kept[component] = tuple(exchange for exchange in seen if exchange is not None) or None
        elif component[0] == "answer" and not lookahead.is_client_answered(component[1], index):
            kept[component] = None
    return kept


def _awaits(request: Received, lookahead: Lookahead) -> bool:
    return request.errors is None or request.number in lookahead.control_answers


def _as_needed(request: Exchange, lookahead: Lookahead) -> Exchange | None:
    if request.number is None or request.number in lookahead.responses:
        return request
    has_counted = request.stage in (Stage.WAITING, Stage.ANSWERED, Stage.DELIVERED)
    if not request.is_awaited and (has_counted or (request.is_at_leader and not request.asked)):
        return None
    return replace(request, answers=()) if request.stage is Stage.ANSWERED else request


def _told_nothing_new(
    state: State, broker_id: int, broker: Broker, lookahead: Lookahead, index: int
) -> World | None:
    """Return the world after an UpdateMetadata that changes nothing for a broker, or None.

    Only another controller's request could make a difference, and there is none until it is
    answered.
    """
    waiting = World(state).to_handle(broker_id)
    if not waiting or not isinstance(waiting[0].request, UpdateMetadata):
        return None
    first = waiting[0]
    connection = first.number[0]
    is_alone = all(waiter.number[0] == connection for waiter in waiting)
    if not is_alone or lookahead.is_told_by_others(broker_id, first.number, index):
        return None
    world = World(state)
    errors = handle_control(world, broker_id, first, is_last=True)
    seen = lookahead.control_answers.get(first.number)
    if errors is None or (seen is not None and errors_differ(errors, seen)):
        return None
    after = world.broker(broker_id)
    if after is None or not _acts_alike(state, broker, after):
        return None
    return world


def _followed_already(state: State, broker_id: int, broker: Broker) -> World | None:
    """Return the world after metadata that repeats a follower's leader epoch, or None.

    Only the ISR is another one, and a follower does not look at that.
    """
    world = World(state)
    waiting = world.to_handle(broker_id)
    if not broker.generation.reads_metadata_log or not waiting:
        return None
    request = waiting[0].request
    if not isinstance(request, LeaderAndIsr) or request.states[0].leader == broker_id:
        return None
    told = request.states[0]
    replica = world.replica(broker_id, TopicPartition(told.topic, told.partition))
    if replica is None or replica.role is not Role.FOLLOWER:
        return None
    if told.leader_epoch != replica.leader_epoch:
        return None
    is_last = all(part.number != waiting[0].number for part in waiting[1:])
    handle_control(world, broker_id, waiting[0], is_last=is_last)
    return world


def _acts_alike(state: State, before: Broker, after: Broker) -> bool:
    """Return whether a broker acts alike but for control requests, which it handles in order."""
    if (before.told, before.topic_ids) != (after.told, after.topic_ids):
        return False
    changed = before.live ^ after.live
    generation = before.generation
    if generation.reads_metadata_log:
        changed |= {broker for broker, _ in before.epochs ^ after.epochs}
        return not changed & _followers(state, before.configuration.broker)
    return not any(
        asks(broker, before.live) != asks(broker, after.live)
        for asks in (generation.waits_outside_isr, generation.may_join_isr)
        for broker in changed
    )


def _followers(state: State, broker_id: int) -> frozenset[int]:
    """Return the followers of all partitions that a broker leads."""
    get = state.lookup
    replicas = (
        get(("replica", broker_id, partition)) for partition in get(("partitions", broker_id)) or ()
    )
    return frozenset(
        follower
        for replica in replicas
        if replica.role is Role.LEADER
        for follower, _ in replica.views
    )


def _answered_nothing_new(
    state: State, broker_id: int, source: int, waiting: Exchange, lookahead: Lookahead, index: int
) -> World | None:
    """Return the world after a response that changes nothing for its follower, or None.

    A LeaderAndIsr or a StopReplica could make a difference, and there is none until the follower
    asks again.
    """
    world = World(state)
    if lookahead.is_told_before_asking(broker_id, source, index):
        return None
    if any(
        isinstance(answer, FetchAnswer) and answer.error == MOVED_TO_TIER
        for _, answer in waiting.answers
    ):
        return None
    before = world.thread(broker_id, source)
    if before is None or before.is_dead:
        return None
    exchange.handle(world, broker_id, source, waiting)
    own = (("exchanges", broker_id, source), ("thread", broker_id, source))
    if any(
        component not in own and state(component) != value
        for component, value in world.changes.items()
    ):
        return None
    after = world.thread(broker_id, source)
    if after is None or replace(after, session=before.session) != before:
        return None
    return world
