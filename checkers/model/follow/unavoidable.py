"""From which step of an explanation on healing everything would not have helped any more.

**Verifies**: in the states of one explanation of a run, once every fault is healed, every broker
runs and is registered, every request that nobody has read is asked anew, and a controller has told
all what is decided: whether a follower comes to be level with its leader and holds other batches,
and whether no member of the ISR has a batch that was promised.
**Does not verify**: other explanations of the same run, and what a further election could save.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from kchaos.checkers import acts
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.broker import exchange
from kchaos.checkers.model.follow.observations import Seen
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.footprints import Footprints
from kchaos.checkers.model.settle.rounds import Perform, at_once, settle
from kchaos.checkers.model.state.state import EMPTY, Component, Read, State
from kchaos.checkers.model.state.world import Reads, World
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.log import missing, unlike
from kchaos.checkers.model.values.prediction import Promise, Unavoidable
from kchaos.checkers.model.values.replica import FetcherState, Replica, Role
from kchaos.checkers.model.values.requests import Stage

_UNREAD = (Stage.ARRIVED, Stage.READ, Stage.WAITING)
"""A request that its leader has; asked anew it is answered by what the log holds then."""


class Reached(NamedTuple):
    """A state of an explanation, and how it was reached.

    Attributes:
        item: What of the record was taken then; None of a step that leaves no trace.
        promised: What was acknowledged with acks=all then.
        changed: The components that the step changed, None of one that is gone.
    """

    state: State
    item: Seen | events.Decided | None = None
    promised: tuple[Promise, ...] = ()
    changed: Mapping[Component, Any] = MappingProxyType({})


class _Wrong(NamedTuple):
    """One batch that is not where it must be.

    Attributes:
        brokers: A leader and its follower that differ; none for what no member of the ISR has.
        offset: The batch's first offset; -1 where the follower does not come to be level with its
            leader, so that nobody can tell.
    """

    partition: acts.TopicPartition
    brokers: tuple[int, ...]
    offset: int


class Decisive(NamedTuple):
    """A harm that stays although everything is healed, with the step that did it.

    Attributes:
        at: Index of each step in the path.
        harms: For each, whether a cluster has that harm.
        never_rests: Whether a state that was asked for did not come to rest once it was healed. Of
            what came before it, nothing is known.
    """

    steps: tuple[Unavoidable, ...]
    at: tuple[int, ...] = ()
    harms: tuple[Callable[[World], bool], ...] = ()
    never_rests: bool = False


def unavoidable(
    path: Sequence[Reached],
    generations: Mapping[int, Generation],
    *,
    is_compacted: bool = False,
    promises: Iterable[Promise] | None = None,
) -> Decisive:
    """Return what is wrong in the end although everything is healed, with the step that did it.

    Left out is what nobody can tell of the states before the step.

    Args:
        path: The states of the explanation, the first one first.
        generations: In place of what `StartBroker` says.
        is_compacted: Whether brokers compact a topic that has no cleanup.policy of its own.
        promises: All that the explanation has, if they are at hand.
    """
    if promises is None:
        promises = (promise for reached in path for promise in reached.promised)
    promised = every = frozenset(promises)
    steps: dict[tuple[acts.TopicPartition, tuple[int, ...], int], list[int]] = {}
    never_rests = False
    healed = _Healed(generations, is_compacted)
    try:
        after = healed.wrongs(path[-1].state, promised)
        left = {wrong for wrong in after if wrong.offset >= 0}
        for index in range(len(path) - 1, 0, -1):
            if not left:
                break
            # Before it was promised nothing could be lost.
            promised -= {*path[index].promised}
            if path[index].state == path[index - 1].state and not path[index].promised:
                continue
            before = healed.wrongs(path[index - 1].state, promised)
            mended = {wrong for wrong in left if not {wrong, _open(wrong)} & before}
            for wrong in sorted(mended & after):
                steps.setdefault((wrong.partition, wrong.brokers, index), []).append(wrong.offset)
            left, after = left - mended, before
    except ModelError:
        # A state that never comes to rest says nothing about what could be avoided.
        never_rests = True
    told, at, harms = list[Unavoidable](), list[int](), list[Callable[[World], bool]]()
    for (partition, brokers, index), offsets in sorted(steps.items()):
        told.append(_unavoidable(path, index, partition, brokers, offsets))
        at.append(index)
        of_step = {_Wrong(partition, brokers, offset) for offset in offsets}
        harms.append(partial(_has_any, of_step, every, is_compacted))
    return Decisive(tuple(told), tuple(at), tuple(harms), never_rests)


def _has_any(
    wrong: set[_Wrong], promised: frozenset[Promise], is_compacted: bool, world: World
) -> bool:
    return bool(wrong & _wrongs(world, promised, is_compacted))


def _open(wrong: _Wrong) -> _Wrong:
    return wrong._replace(offset=-1)


def _unavoidable(
    path: Sequence[Reached],
    index: int,
    partition: acts.TopicPartition,
    brokers: tuple[int, ...],
    offsets: Sequence[int],
) -> Unavoidable:
    items = (path[place].item for place in range(index, -1, -1))
    last = next((item for item in items if item is not None), None)
    return Unavoidable(
        topic=partition.topic,
        partition=partition.partition,
        brokers=brokers,
        first_offset=min(offsets),
        last_offset=max(offsets),
        step=_told(path[index - 1].state, path[index], partition),
        time=None if last is None else last.time,
        source=last.source if isinstance(last, Seen) else "",
    )


class _Healed:
    """Harm in the states of one explanation, once all is healed.

    Its steps often change what healing never looks at, such as a control request on its way. So
    what was said of the last state stands while all that was read of it is the same. Else most of
    what healing does is what it did before, and is remembered from the second state on.
    """

    def __init__(self, generations: Mapping[int, Generation], is_compacted: bool) -> None:
        # A step that is remembered refers to nobody who remembers it: that would be a cycle.
        self._let_happen = partial(_let_happen, generations)
        self._footprints = Footprints()
        self._is_compacted = is_compacted
        self._promised: frozenset[Promise] | None = None
        self._known: dict[int, Any] = {}
        self._read = Reads(EMPTY.lookup)
        self._wrong: set[_Wrong] = set()

    def wrongs(self, state: State, promised: frozenset[Promise]) -> set[_Wrong]:
        """Return what is wrong once the state is healed, with what was promised by then."""
        if promised != self._promised or self._differs(state):
            is_first = self._promised is None
            perform = at_once if is_first else self._footprints.perform
            self._read = Reads(state.lookup if is_first else self._reading(state))
            self._promised = promised
            world = World(self._read.__getitem__)
            self._heal(world, perform)
            self._wrong = _wrongs(world, promised, self._is_compacted)
        return self._wrong

    def _heal(self, world: World, perform: Perform) -> None:
        for broker_id in world.broker_ids():
            # A controller tells all of it anew.
            world.put_received(broker_id, ())
            for source in world.leaders(broker_id):
                perform(world, ask_anew, broker_id, source)
        for event in _healing(world):
            perform(world, self._let_happen, event)
        settle(world, perform)

    def _reading(self, state: State) -> Read:
        """Return what reads a state, with one object for all equal values, as footprints ask for.

        So healing hits upon what a later state of the explanation was found to be.
        """
        lookup, known, one_object = state.lookup, self._known, self._footprints.value

        def reading(component: Component) -> Any:
            value = lookup(component)
            # An identity is a value's own: the explanation keeps its states meanwhile.
            same = known.get(id(value))
            if same is None and value is not None:
                same = known[id(value)] = one_object(value)
            return same

        return reading

    def _differs(self, state: State) -> bool:
        """Return whether a state differs in what was read of the last one."""
        for component, value in self._read.items():
            now = state.lookup(component)
            if now is not value and now != value:
                return True
        return False


def _wrongs(world: World, promised: Iterable[Promise], is_compacted: bool) -> set[_Wrong]:
    partitions = world.get(("topics",)) or ()
    wrong = {difference for partition in partitions for difference in _differing(world, partition)}
    return wrong | {*_lost(world, promised, is_compacted)}


def _let_happen(generations: Mapping[int, Generation], world: World, event: events.Event) -> bool:
    happen(world, event, generations)
    return True


def ask_anew(world: World, broker_id: int, source: int) -> bool:
    """Let a thread give up a request without an answer; return whether it had one."""
    request = exchange.awaited(world, broker_id, source)
    if request is None or request.stage not in _UNREAD:
        return False
    exchange.end(world, broker_id, source, request)
    exchange.end_session(world, broker_id, source, request)
    return True


def _healing(world: World) -> Iterator[events.Event]:
    yield from (acts.ReleaseHold(name=hold.name) for hold in world.holds())
    yield from (acts.ReleasePoint(name=hold.name) for hold in world.point_holds())
    yield from (acts.EndForgery(name=forgery.name) for forgery in world.forgeries())
    yield from (acts.HealLink(name=cut.name) for cut in world.cuts())
    registered = world.registered()
    czxid = max(registered.values(), default=0)
    for broker_id in world.broker_ids():
        broker = world.broker(broker_id)
        if broker is None or world.get(("failed", broker_id)):
            continue
        if broker.is_running and broker.is_paused:
            yield acts.ResumeBroker(broker=broker_id)
        if not broker.is_running:
            yield broker.configuration
        if not broker.is_running or broker_id not in registered:
            czxid += 1
            yield events.BrokerRegistered(broker=broker_id, czxid=czxid)
    # What a record shows of a controller's requests says nothing of those still to come.
    elected = world.get(("elected",))
    if elected is not None:
        yield events.ControllerElected(broker=elected)


def _differing(world: World, partition: acts.TopicPartition) -> Iterator[_Wrong]:
    """Yield where an in-sync follower's log differs from its leader's."""
    decided = world.partition_state(partition)
    leading = None if decided is None else world.replica(decided.leader, partition)
    if decided is None or leading is None:
        return
    leads = _is_of(leading, decided) and world.running(decided.leader) is not None
    for broker_id in world.assignment(partition):
        replica = world.replica(broker_id, partition)
        if broker_id == decided.leader or replica is None:
            continue
        pair = (min(broker_id, decided.leader), max(broker_id, decided.leader))
        is_level = replica.log.log_end_offset == leading.log.log_end_offset
        follows = _is_of(replica, decided) and _is_fetching(world, broker_id, partition)
        if not (leads and follows and is_level):
            yield _Wrong(partition, pair, -1)
            continue
        for batch in unlike(replica.log, leading.log):
            yield _Wrong(partition, pair, batch.base_offset)


def _is_of(replica: Replica, decided: events.PartitionState) -> bool:
    return (replica.leader, replica.leader_epoch) == (decided.leader, decided.leader_epoch)


def _is_fetching(world: World, broker_id: int, partition: acts.TopicPartition) -> bool:
    broker = world.running(broker_id)
    threads = (world.thread(broker_id, source) for source in world.leaders(broker_id))
    fetches = (
        thread.fetch(partition) for thread in threads if thread is not None and not thread.is_dead
    )
    return broker is not None and any(
        fetch is not None and fetch.state is FetcherState.FETCHING for fetch in fetches
    )


def _lost(world: World, promised: Iterable[Promise], is_compacted: bool) -> Iterator[_Wrong]:
    """Yield promised records that no member of the ISR has and compaction may not remove."""
    default = "compact" if is_compacted else ""
    of_partition: dict[acts.TopicPartition, set[tuple[int, str]]] = {}
    for partition, offset, payload in promised:
        of_partition.setdefault(partition, set()).add((offset, payload))
    for partition, gone in of_partition.items():
        written = dict(world.get(("topic configuration", partition.topic)) or ())
        if "compact" in written.get("cleanup.policy", default):
            continue
        decided = world.partition_state(partition)
        members = () if decided is None else decided.isr
        logs = [
            replica.log
            for member in members
            if (replica := world.replica(member, partition)) is not None
        ]
        for log in logs:
            gone = missing(log, gone)
        yield from (_Wrong(partition, (), offset) for offset, _ in gone if logs)


def _told(before: State, reached: Reached, partition: acts.TopicPartition) -> str:
    """Return a step's events in a few words."""
    what = None if reached.item is None else reached.item.what
    if isinstance(what, events.PartitionState):
        isr = ", ".join(map(str, what.isr))
        leads = f"broker {what.leader} leads" if what.leader >= 0 else "nobody leads"
        return (
            f"{leads} {what.topic}-{what.partition} in leader epoch {what.leader_epoch}, with ISR "
            f"[{isr}]"
        )
    if isinstance(what, acts.StartBroker):
        return f"broker {what.broker} was started"
    if isinstance(what, acts.StopBroker):
        return f"broker {what.broker} was {'stopped' if what.clean else 'killed'}"
    if any(promise.partition == partition for promise in reached.promised):
        offsets = [each.base_offset for each in reached.promised if each.partition == partition]
        return (
            f"records of {partition.topic}-{partition.partition} from offset {min(offsets)} on "
            "were acknowledged"
        )
    worlds = World(before), World(reached.state)
    for broker_id in worlds[1].assignment(partition):
        was, now = (world.replica(broker_id, partition) for world in worlds)
        if was == now or was is None or now is None:
            continue
        ends = was.log.log_end_offset, now.log.log_end_offset
        if ends[0] > ends[1]:
            return f"broker {broker_id} truncated its log from {ends[0]} to {ends[1]}"
        if (was.role, was.leader_epoch) != (now.role, now.leader_epoch):
            role = "led" if now.role is Role.LEADER else "followed"
            return f"broker {broker_id} heard that it {role} in leader epoch {now.leader_epoch}"
        if ends[0] < ends[1]:
            is_one = ends[0] == ends[1] - 1
            span = f"offset {ends[0]}" if is_one else f"offsets {ends[0]} to {ends[1] - 1}"
            return f"broker {broker_id} appended {span} in leader epoch {now.leader_epoch}"
        if was.high_watermark != now.high_watermark:
            return f"the high watermark of broker {broker_id} became {now.high_watermark}"
    if isinstance(what, events.Action):
        broker = getattr(what, "broker", None)
        return type(what).__name__ + ("" if broker is None else f" of broker {broker}")
    api = getattr(what, "api", "")
    return f"a message of {api} at a link" if api else "a step inside a broker"
