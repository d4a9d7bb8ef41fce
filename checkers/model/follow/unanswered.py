"""Fetches that cannot have been answered unseen: their answer had a new high watermark.

A later message on its connection tells that a Fetch was answered. The links record an answer with
another high watermark than the one before it on that connection. A leader counts a Fetch before it
answers one that finds nothing, and moves its high watermark then to the smallest end of its ISR and
of who has caught up. So a Fetch from beyond what its follower was told moves it, unless somebody
else keeps it back.

Read from kafka.server.ReplicaManager (`fetchMessages`, `updateFollowerLogReadResults`), its
DelayedFetch (`onComplete`) and kafka.cluster.Partition (`makeLeader`, `maybeExpandIsr`,
`maybeIncrementLeaderHW`), 0.10.2.2, 1.1.1, 2.0.1, 2.8.2 and 3.8.0.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    ControlAnswered,
    ControlSent,
    Fate,
    FetchAnswered,
    FetchAsked,
    Number,
    Question,
    Reply,
)
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import PartitionState

_NEVER = 1 << 62


@dataclass(slots=True)
class _Term:
    """A time in which one broker leads a partition, whatever leader epochs it is told.

    Attributes:
        since: Index from which it leads for certain.
        told_at: Index at which it was sent the last new leader epoch that it took.
        told_end: Where its log ended then, at least.
        log_end: Where its log ends, at least.
        isrs: The ISRs that it was told, oldest first; one of the last it took over.
        newest: Which request told it the newest leader epoch, at which index, where its log ended
            then, and how many ISRs it knew before.
        leader_epochs: Those that it was told.
    """

    since: int = _NEVER
    told_at: int = -1
    told_end: int = 0
    log_end: int = 0
    isrs: list[frozenset[int]] = field(default_factory=list)
    newest: tuple[Number, int, int, int] = ((0, 0), -1, 0, 0)
    leader_epochs: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Fetched:
    """One Fetch of a partition: which, and from where."""

    number: Number
    offset: int


class Unanswered:
    """What is known of leaders and of who fetches from them, up to an observation."""

    def __init__(self, lookahead: Lookahead, generations: Mapping[int, Generation]) -> None:
        self._lookahead = lookahead
        self._generations = dict(generations)
        self._given = frozenset(generations)
        self._terms: dict[tuple[int, TopicPartition], _Term] = {}
        self._told: dict[int, dict[Number, tuple[PartitionState, ...]]] = defaultdict(dict)
        self._fetched: dict[tuple[int, TopicPartition], dict[int, list[_Fetched]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._asked_at: dict[Number, int] = {}
        self._latest: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._begun: set[int] = set()
        self._replied: set[Number] = set()
        self._stopped: dict[int, int] = {}
        self._known: dict[tuple[int, TopicPartition], tuple[int, int]] = {}

    def refutes(self, asked: object, index: int) -> str:
        """Return why a Fetch that arrives at an index was not answered unseen, or ""."""
        if not isinstance(asked, Question) or asked.api != FETCH or asked.fate is not Fate.ARRIVES:
            return ""
        number, leader = asked.number, asked.leader
        if number in self._lookahead.replies or not self._lookahead.goes_on(number):
            return ""
        for partition in asked.partitions:
            if self._is_news(asked, partition):
                return (
                    f"no answer was seen that told broker {asked.follower} the first high "
                    f"watermark of {partition.name} on its connection to broker {leader}, or the "
                    f"first after an error: of request {number[1]}"
                )
        generation = self._generations.get(leader)
        if generation is None or generation.answers_nothing_at_once:
            return ""
        if not generation.may_advance((leader,), 2):
            return ""
        for partition, said in asked.partitions.items():
            high_watermark, known_at = self._known.get((number[0], partition), (_NEVER, -1))
            term = self._terms.get((leader, partition))
            if not isinstance(said, FetchAsked) or said.fetch_offset <= high_watermark:
                continue
            if term is None or known_at < term.since or self._is_told(leader, partition):
                continue
            if not self._lookahead.leads_until_later(leader, partition, number, index):
                continue
            if self._moves(asked, partition, said.fetch_offset, high_watermark, term, index):
                return (
                    f"broker {leader} would have told broker {asked.follower} a high watermark "
                    f"above {high_watermark} of {partition.name} in answer to request {number[1]}, "
                    "and no answer was seen"
                )
        return ""

    def _is_news(self, asked: Question, partition: TopicPartition) -> bool:
        """Tell whether whatever is answered for a partition is news to the links.

        An answer tells its first high watermark on a connection, and the first after an error. A
        fetch session leaves out only what it told before, and forgets that over an error
        (FetchSession.CachedPartition, 1.1.1, 2.8.2 and 3.8.0). It may have told it on another
        connection, if it did not begin on this one.
        """
        connection = asked.number[0]
        known = self._known.get((connection, partition))
        if known is not None:
            return known[0] < 0
        return asked.is_full or connection in self._begun

    def add(self, what: object, index: int) -> None:
        """Take in what was seen at an index."""
        match what:
            case StartBroker() if what.broker not in self._given:
                self._generations[what.broker] = generation_for(
                    what.release,
                    inter_broker_protocol=what.inter_broker_protocol,
                    message_format=what.message_format,
                )
            case StopBroker():
                self._told[what.broker].clear()
                self._stopped[what.broker] = index
                for key in [key for key in self._terms if key[0] == what.broker]:
                    del self._terms[key]
            case Question():
                self._ask(what, index)
            case Reply():
                self._reply(what, index)
            case ControlSent():
                self._tell(what, index)
            case ControlAnswered():
                self._take(what, index)

    def _ask(self, asked: Question, index: int) -> None:
        self._note(asked.number, index)
        if asked.fate is not Fate.ARRIVES:
            return
        self._asked_at.setdefault(asked.number, index)
        if asked.api == FETCH and asked.is_full:
            self._begun.add(asked.number[0])
        for partition, said in asked.partitions.items():
            if isinstance(said, FetchAsked):
                fetched = self._fetched[asked.leader, partition][asked.follower]
                fetched.append(_Fetched(asked.number, said.fetch_offset))

    def _reply(self, reply: Reply, index: int) -> None:
        # One whose request the links did not record was asked after the message before it.
        heard = self._heard.get(reply.number[0], -1)
        self._note(reply.number, index)
        if reply.fate is not Fate.WAITS:
            self._replied.add(reply.number)
        for partition, said in reply.partitions.items():
            if reply.error_code or said.error_code:
                fetched = self._fetched[reply.leader, partition][reply.follower]
                fetched[:] = [known for known in fetched if known.number != reply.number]
                if isinstance(said, FetchAnswered):
                    self._known[reply.number[0], partition] = (-1, -1)
            elif isinstance(said, FetchAnswered):
                known_at = self._asked_at.get(reply.number, heard)
                self._known[reply.number[0], partition] = (said.high_watermark, known_at)
                term = self._terms.get((reply.leader, partition))
                if term is not None and known_at >= term.since:
                    last = -1 if said.last_offset is None else said.last_offset
                    term.log_end = max(term.log_end, said.high_watermark, last + 1)

    def _note(self, number: Number, index: int) -> None:
        connection, correlation = number
        self._heard[connection] = index
        self._latest[connection] = max(correlation, self._latest.get(connection, correlation))

    def _tell(self, sent: ControlSent, index: int) -> None:
        for stopped in sent.stopped:
            self._terms.pop((sent.broker, stopped.partition), None)
        self._told[sent.broker][sent.number] = sent.states
        for state in sent.states:
            key = (sent.broker, TopicPartition(state.topic, state.partition))
            if state.leader != sent.broker:
                self._terms.pop(key, None)
                continue
            term = self._terms.setdefault(key, _Term())
            if all(epoch < state.leader_epoch for epoch in term.leader_epochs):
                term.newest = (sent.number, index, term.log_end, len(term.isrs))
            term.isrs.append(frozenset(state.isr))
            term.leader_epochs.add(state.leader_epoch)

    def _take(self, answered: ControlAnswered, index: int) -> None:
        for state in self._told[answered.broker].pop(answered.number, ()):
            partition = TopicPartition(state.topic, state.partition)
            term = self._terms.get((answered.broker, partition))
            is_taken = not answered.error_code and answered.errors.get(partition, 0) == 0
            if term is None or state.leader != answered.broker or not is_taken:
                continue
            term.since = min(term.since, index)
            number, told_at, told_end, before = term.newest
            if number == answered.number:
                term.told_at, term.told_end = told_at, told_end
                term.isrs = term.isrs[before:]

    def _is_told(self, broker: int, partition: TopicPartition) -> bool:
        """Tell whether a broker has a request about a partition that it has not answered."""
        return any(
            (state.topic, state.partition) == partition
            for states in self._told[broker].values()
            for state in states
        )

    def _moves(
        self,
        asked: Question,
        partition: TopicPartition,
        offset: int,
        above: int,
        term: _Term,
        index: int,
    ) -> bool:
        """Tell whether to count a Fetch moves the high watermark, and nobody keeps it back."""
        fetched = self._fetched[asked.leader, partition]
        own = fetched.get(asked.follower, [])
        # A leader that is asked from there once more may move nothing (KAFKA-8841).
        if any(known.offset == offset for known in own[-1:]):
            return False
        isr = frozenset[int]().union(*term.isrs)
        if not self._lookahead.is_always_assigned(partition, asked.follower):
            return False
        end, _ = self._until(asked, partition, above, index)
        if self._lookahead.is_told_until(asked.leader, partition, index, end):
            return False
        others = {*isr, *fetched, *self._generations} - {asked.leader, asked.follower}
        return not any(
            self._may_keep_back(other, asked, partition, above, term, other in isr, index)
            for other in others
        )

    def _may_keep_back(
        self,
        other: int,
        asked: Question,
        partition: TopicPartition,
        above: int,
        term: _Term,
        is_in_isr: bool,
        index: int,
    ) -> bool:
        """Tell whether a follower may keep the high watermark back until a Fetch is counted.

        It does from the ISR with an end up to there. Outside it joins from the high watermark
        on, or has caught up: its Fetch reached the leader's end, now or at its Fetch before.
        """
        fetched = self._fetched[asked.leader, partition].get(other, [])
        # What was answered was counted, and so was what came before it.
        counted = [known for known in fetched if self._is_answered(known.number)]
        offsets = [
            *(known.offset for known in fetched if not self._is_answered(known.number)),
            *self._to_come(other, asked, partition, above, index),
        ]
        if not counted or (
            # It was not heard of since the leader was told that it has left the ISR.
            self._asked_at[counted[-1].number] < self._stopped.get(other, -1) < term.told_at
        ):
            # With a leader's first epoch nobody's Fetch before it counts.
            least = above if len(term.leader_epochs) == 1 else min(term.told_end, above)
            return is_in_isr or any(least <= offset <= above for offset in offsets)
        return (
            self._asked_at[counted[-1].number] < term.since
            or counted[-1].offset <= above
            or any(offset <= above for offset in offsets)
        )

    def _until(
        self, asked: Question, partition: TopicPartition, above: int, index: int
    ) -> tuple[int, Number | None]:
        """Return before which index a Fetch is answered, if unseen, and which is counted after it.

        It is before somebody is told a higher high watermark: in answer to the latter, if at all.
        """
        later = self._lookahead.later(asked.number)
        assert later is not None
        risen = self._lookahead.first_above(asked.leader, partition, above, index)
        if risen is None or risen[0] >= later:
            return later, None
        moves = self._generations[asked.leader].answers_with_moved_high_watermark
        return risen[0], None if moves else risen[1]

    def _to_come(
        self, other: int, asked: Question, partition: TopicPartition, above: int, index: int
    ) -> Iterator[int]:
        """Yield from where another fetches, counted maybe before one that arrives is answered."""
        end, itself = self._until(asked, partition, above, index)
        is_gone = other in self._stopped and all(
            self._asked_at[known.number] < self._stopped[other]
            for known in self._fetched[asked.leader, partition].get(other, [])
        )
        for number, offset in self._lookahead.fetches_until(
            other, asked.leader, partition, index, end
        ):
            if number != itself if number is not None else not is_gone:
                yield offset

    def _is_answered(self, number: Number) -> bool:
        return number in self._replied or self._latest.get(number[0], number[1]) > number[1]
