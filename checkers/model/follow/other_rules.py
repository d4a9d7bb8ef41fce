"""Which rule of a later release would have spared a run its harm, from one of its own states on.

**Verifies**: from a state of the run's explanation, the rest of its acts and decisions does the
same harm by the run's own rules, and by those of a later release none, or it asks of that release a
decision that it does not take. A rule decides if the later release without it does the harm too.
**Does not verify**: what the messages before that state had been by other rules, and another order
of what brokers do at once. Where the run's own rules do not do the harm again, nothing is known.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from operator import itemgetter

from kchaos.checkers import acts
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.follow.observations import Record, is_action
from kchaos.checkers.model.follow.unavoidable import Decisive, ask_anew
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.versions import RELEASED, parse_version
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.settle.predict import left_alone_after
from kchaos.checkers.model.settle.rounds import settle
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.prediction import DisallowedDecision, Unavoidable

_MOST_EVENTS = 3_000
"""Acts and decisions that are gone through, all tries together, until nothing is said."""

Exchange = Callable[[acts.StartBroker], Generation]


class _Unknown(Exception):
    """The rest of a run cannot be gone through, or would take too long."""


def spared_by(
    record: Record, path: Sequence[tuple[State, int, int]], decisive: Decisive
) -> tuple[Unavoidable, ...]:
    """Return each harm with the first later release that spares the run it, and why.

    Args:
        record: What was seen of the run.
        path: States of its explanation, each with the numbers of observations and of decisions that
            were taken by then.
        decisive: What `unavoidable` says of that path.
    """
    started = [item.what for item in record.seen if isinstance(item.what, acts.StartBroker)]
    releases = {each.release for each in started}
    if any(each.mode == "kraft" for each in started) or not releases <= {*RELEASED}:
        return decisive.steps
    newest = max(map(parse_version, releases))
    later = [release for release in RELEASED if parse_version(release) > newest]
    spared = []
    for since, step, is_harmed in zip(decisive.steps, decisive.at, decisive.harms, strict=True):
        try:
            release, rules = _spared(record, path, step, is_harmed, later)
        except _Unknown:
            release, rules = "", ()
        spared.append(replace(since, spared_in=release, spared_by=rules))
    return tuple(spared)


def _spared(
    record: Record,
    path: Sequence[tuple[State, int, int]],
    step: int,
    is_harmed: Callable[[World], bool],
    later: Sequence[str],
) -> tuple[str, tuple[str, ...]]:
    ends = _Ends(record, is_harmed)
    for start in _starts(path, step):
        ends.begin(path[start])
        if not later or not ends.badly(_own()) or ends.badly(_of(later[-1])):
            continue
        release = next(each for each in later if not ends.badly(_of(each)))
        own = {*chain.from_iterable(_own()(each).rules for each in ends.started)}
        new = {*chain.from_iterable(_of(release)(each).rules for each in ends.started)} - own
        rules = tuple(sorted(rule for rule in new if ends.badly(_of(release, without=rule))))
        return release, rules if rules and not ends.badly(_own(*rules)) else ()
    return "", ()


def _starts(path: Sequence[tuple[State, int, int]], step: int) -> Iterator[int]:
    """Yield the state before the harm, and earlier ones before a decision, the last one first."""
    yield step - 1
    for index in range(step - 1, 0, -1):
        if path[index][2] > path[index - 1][2]:
            yield index - 1


def _own(*also: str) -> Exchange:
    return lambda broker: _composed(broker, broker.release, also=also)


def _of(release: str, *, without: str = "") -> Exchange:
    return lambda broker: _composed(broker, release, without=(without,) if without else ())


def _composed(
    broker: acts.StartBroker,
    release: str,
    *,
    also: tuple[str, ...] = (),
    without: tuple[str, ...] = (),
) -> Generation:
    return generation_for(
        release,
        inter_broker_protocol=broker.inter_broker_protocol,
        message_format=broker.message_format,
        also=also,
        without=without,
    )


class _Ends:
    """How the rest of a run ends from one of its states, by rules that are given."""

    def __init__(self, record: Record, is_harmed: Callable[[World], bool]) -> None:
        self.started = [
            item.what for item in record.seen if isinstance(item.what, acts.StartBroker)
        ]
        self._record = record
        self._is_harmed = is_harmed
        self._left = _MOST_EVENTS

    def begin(self, start: tuple[State, int, int]) -> None:
        """Go from that state on, which has taken so many observations and decisions."""
        self._state, seen, decided = start
        rest: list[tuple[float, events.Event]] = [
            (each.time, each.what) for each in self._record.seen[seen:] if is_action(each.what)
        ]
        rest += [
            (each.time, each.what)
            for each in self._record.decided[decided:]
            if not isinstance(each.what, events.Snapshot)
        ]
        rest.sort(key=itemgetter(0))
        self._rest = [event for _, event in rest]

    def badly(self, exchange: Exchange) -> bool:
        """Return whether each decision is allowed by these rules and the harm is done.

        Raises:
            _Unknown: Too much was gone through by now, or an event is not possible.
        """
        self._left -= len(self._rest)
        if self._left < 0:
            raise _Unknown
        generations = {broker.broker: exchange(broker) for broker in self.started}
        try:
            state = self._exchanged(exchange, generations)
        except ModelError as error:
            raise _Unknown from error
        for event in self._rest:
            try:
                state, notes = left_alone_after(state, event, generations)
            except ModelError as error:
                raise _Unknown from error
            if any(isinstance(note, DisallowedDecision) for note in notes):
                return False
        return self._is_harmed(World(state))

    def _exchanged(self, exchange: Exchange, generations: Mapping[int, Generation]) -> State:
        """Return the state with other rules, by which a controller tells everything anew."""
        world = World(self._state)
        for broker_id in world.broker_ids():
            broker = world.broker(broker_id)
            if broker is not None:
                composed = exchange(broker.configuration)
                world.put_broker(broker_id, replace(broker, generation=composed))
            world.put_received(broker_id, ())
            for source in world.leaders(broker_id):
                ask_anew(world, broker_id, source)
        elected = world.get(("elected",))
        if elected is not None:
            happen(world, events.ControllerElected(broker=elected), generations)
        settle(world)
        return world.state(self._state)
