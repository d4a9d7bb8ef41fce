"""What a record says of what comes later, so that a search does not go where nothing can fit."""

from bisect import bisect_left
from collections import defaultdict

from checkers.acts import StopBroker, TopicPartition
from checkers.model.events import PartitionState
from checkers.model.observations import (
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    Fate,
    IsrAnswered,
    Number,
    Question,
    Record,
    Reply,
)


class Lookahead:
    """Indexes over one record."""

    def __init__(self, record: Record) -> None:
        self.replies: dict[Number, Reply] = {}
        self.questions: dict[Number, Question] = {}
        self.control_answers: dict[Number, ControlAnswered] = {}
        self.client_answers: dict[str, ClientAnswered] = {}
        self.shows_isr_answers = False
        self._answered: dict[Number, int] = {}
        self._told: dict[int, list[tuple[int, ControlSent]]] = defaultdict(list)
        self._killed: dict[int, list[int]] = defaultdict(list)
        self._of_pair: dict[tuple[int, int], list[tuple[int, Question | Reply]]] = defaultdict(list)
        self._written: dict[tuple[TopicPartition, int, int], list[tuple[int, frozenset[int]]]] = (
            defaultdict(list)
        )
        for index, item in enumerate(record.seen):
            self._add(index, item.what)
        for index, decision in enumerate(record.decided):
            state = decision.what
            if isinstance(state, PartitionState):
                about = TopicPartition(state.topic, state.partition)
                key = (about, state.leader, state.leader_epoch)
                self._written[key].append((index, frozenset(state.isr)))

    def _add(self, index: int, what: object) -> None:
        match what:
            case Question():
                self.questions.setdefault(what.number, what)
                self._of_pair[what.follower, what.leader].append((index, what))
            case Reply():
                if what.fate is Fate.WAITS:
                    self.replies.setdefault(what.number, what)
                else:
                    self.replies[what.number] = what
                self._of_pair[what.follower, what.leader].append((index, what))
            case ControlAnswered():
                self.control_answers.setdefault(what.number, what)
                self._answered.setdefault(what.number, index)
            case ControlSent():
                self._told[what.broker].append((index, what))
            case ClientAnswered():
                self.client_answers[what.operation] = what
            case IsrAnswered():
                self.shows_isr_answers = True
            case StopBroker() if not what.clean:
                self._killed[what.broker].append(index)

    def next_of(self, follower: int, leader: int, index: int) -> Question | Reply | None:
        """Return the next message between a fetcher and its leader, from an index on."""
        items = self._of_pair.get((follower, leader), [])
        at = bisect_left(items, index, key=lambda item: item[0])
        return items[at][1] if at < len(items) else None

    def is_killed_before_asking(self, follower: int, leader: int, index: int) -> bool:
        """Tell whether a follower is killed, from an index on, before that fetcher asks again."""
        killed = next((at for at in self._killed.get(follower, ()) if at >= index), None)
        if killed is None:
            return False
        items = self._of_pair.get((follower, leader), [])
        at = bisect_left(items, index, key=lambda item: item[0])
        later = (item for item in items[at:] if isinstance(item[1], Question))
        asks = next(later, None)
        return asks is None or asks[0] > killed

    def is_told_by_others(self, broker: int, number: Number, index: int) -> bool:
        """Tell whether another controller's request reaches a broker before its answer to this."""
        answered = self._answered.get(number)
        return any(
            what.number[0] != number[0]
            for at, what in self._told.get(broker, ())
            if at >= index and (answered is None or at < answered)
        )

    def is_told_before_asking(self, follower: int, leader: int, index: int) -> bool:
        """Tell whether a follower hears of partitions, from an index on, before it asks again."""
        items = self._of_pair.get((follower, leader), [])
        at = bisect_left(items, index, key=lambda item: item[0])
        asks = next((one for one, what in items[at:] if isinstance(what, Question)), None)
        return any(
            what.states or what.stopped
            for one, what in self._told.get(follower, ())
            if one >= index and (asks is None or one < asks)
        )

    def is_written(self, state: PartitionState, decided: int) -> bool:
        """Tell whether one of the first `decided` decisions wrote this state."""
        about = TopicPartition(state.topic, state.partition)
        written = self._written.get((about, state.leader, state.leader_epoch), [])
        return any(index < decided and isr == frozenset(state.isr) for index, isr in written)
