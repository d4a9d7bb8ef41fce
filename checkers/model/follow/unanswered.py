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
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.decisions_ahead import NO_NUMBER
from kchaos.checkers.model.follow.lookahead import Lookahead, tells_leader
from kchaos.checkers.model.follow.observations import (
    ControlAnswered,
    ControlSent,
    Fate,
    FetchAnswered,
    FetchAsked,
    Number,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.releases.composition import generation_of
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.requests import PartitionRequest

_NEVER = 1 << 62
_FORGOTTEN = (-2, -1)
"""A connection's knowledge of a partition after an error; a leader may tell -1 (KAFKA-3978)."""


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
        taken: The newest leader epoch that it leads in for certain; -1 without.
        high_watermark: The highest that it has told anybody.
        is_first: Whether its process was not told to lead the partition before. A broker may be
            told to follow, or to stop, and lead on, for it refuses that.
    """

    since: int = _NEVER
    told_at: int = -1
    told_end: int = 0
    log_end: int = 0
    isrs: list[frozenset[int]] = field(default_factory=list)
    newest: tuple[Number, int, int, int] = ((0, 0), -1, 0, 0)
    leader_epochs: set[int] = field(default_factory=set)
    taken: int = -1
    high_watermark: int = -1
    is_first: bool = True


@dataclass(slots=True)
class _Fetched:
    """One Fetch of a partition: which, and from where, or -1 (KAFKA-8400); and what it said."""

    number: Number
    offset: int
    said: FetchAsked


class Unanswered:
    """Knowledge of leaders and of their fetchers, up to an observation."""

    def __init__(self, lookahead: Lookahead, generations: Mapping[int, Generation]) -> None:
        self._lookahead = lookahead
        self._generations = dict(generations)
        self._given = frozenset(generations)
        self._terms: dict[tuple[int, TopicPartition], _Term] = {}
        self._told_to_lead: set[tuple[int, TopicPartition]] = set()
        self._told: dict[int, dict[Number, tuple[PartitionState, ...]]] = defaultdict(dict)
        self._fetched: dict[tuple[int, TopicPartition], dict[int, list[_Fetched]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self._needed: dict[int, int] = {}
        self._asked_at: dict[Number, int] = {}
        self._done_at: dict[Number, int] = {}
        self._latest: dict[int, int] = {}
        self._heard: dict[int, int] = {}
        self._begun: set[int] = set()
        self._cut_off: set[int] = set()
        self._replied: set[Number] = set()
        self._stopped: dict[int, int] = {}
        self._known: dict[tuple[int, TopicPartition], tuple[int, int]] = {}

    def refutes(self, asked: object, index: int) -> str:
        """Return why a Fetch that arrives at an index was not answered unseen, or ""."""
        if (
            not isinstance(asked, RequestSeen)
            or asked.api != FETCH
            or asked.fate is not Fate.ARRIVES
        ):
            return ""
        number, leader = asked.number, asked.leader
        if number in self._lookahead.responses or not self._lookahead.goes_on(number):
            return ""
        if number[0] in self._cut_off:
            return ""  # What was not read of an answer may have told a partition anything.
        for partition in asked.partitions:
            if self._is_news(asked, partition):
                return (
                    f"no answer was seen that told broker {asked.follower} the first high "
                    f"watermark of {partition.name} on its connection to broker {leader}, or the "
                    f"first after an error: of request {number[1]}"
                )
        for partition, said in asked.partitions.items():
            above, known_at = self._known.get((number[0], partition), (_NEVER, -1))
            if isinstance(said, FetchAsked) and self._rises(
                asked, partition, said.fetch_offset, above, known_at, index
            ):
                return (
                    f"broker {leader} would have told broker {asked.follower} a high watermark "
                    f"above {above} of {partition.name} in answer to request {number[1]}, and no "
                    "answer was seen"
                )
        return ""

    def _rises(
        self,
        asked: RequestSeen,
        partition: TopicPartition,
        offset: int,
        above: int,
        known_at: int,
        index: int,
    ) -> bool:
        """Return whether any answer has a higher high watermark than the one that was told before.

        It only grows in a term. So it does where the leader has told anybody a higher one by now,
        whenever it reads its log for the Fetch.
        """
        leader = asked.leader
        term, generation = self._terms.get((leader, partition)), self._generations.get(leader)
        if term is None or generation is None:
            return False
        if not self._lookahead.leads_until_later(leader, partition, asked.number, index):
            return False
        if term.high_watermark > above:
            return True
        if generation.answers_nothing_at_once or self._may_stand_still(asked, partition, index):
            return False
        if offset <= above or known_at < term.since or self._is_told(leader, partition):
            return False
        return self._moves(asked, partition, offset, above, term, index)

    def _may_stand_still(self, asked: RequestSeen, partition: TopicPartition, index: int) -> bool:
        """Return whether a leader's ISR may be too small for the high watermark to move at all.

        Which ISRs it may have until a later message is written (KAFKA-15583).
        """
        leader, later = asked.leader, self._lookahead.later(asked.number)
        term, generation = self._terms[leader, partition], self._generations[leader]
        assert later is not None
        to_come = [*self._lookahead.told_until(leader, partition, index, later)]
        isrs = [*term.isrs, *(frozenset(state.isr) for state in to_come)]
        for leader_epoch in {term.taken, *(state.leader_epoch for state in to_come)}:
            isrs += self._lookahead.decisions.isrs_written(partition, leader, leader_epoch)
        needed = max(
            self._needed.get(leader, NO_NUMBER),
            self._lookahead.decisions.most_needed(partition.topic),
        )
        return not all(generation.may_advance(tuple(isr), needed) for isr in isrs)

    def _is_news(self, asked: RequestSeen, partition: TopicPartition) -> bool:
        """Return whether whatever is answered for a partition is news to the links.

        An answer tells its first high watermark on a connection, and the first after an error. A
        fetch session leaves out only what it told before, and forgets that over an error
        (FetchSession.CachedPartition, 1.1.1, 2.8.2 and 3.8.0). It may have told it on another
        connection, if it did not begin on this one.
        """
        connection = asked.number[0]
        known = self._known.get((connection, partition))
        if known is not None:
            return known == _FORGOTTEN
        return asked.is_full or connection in self._begun

    def add(self, what: object, index: int) -> None:
        """Take in what was seen at an index."""
        match what:
            case StartBroker():
                self._needed[what.broker] = what.min_insync_replicas
                if what.broker in self._given:
                    return
                self._generations[what.broker] = generation_of(what)
            case StopBroker():
                self._told[what.broker].clear()
                self._stopped[what.broker] = index
                for key in [key for key in self._terms if key[0] == what.broker]:
                    del self._terms[key]
                self._told_to_lead = {key for key in self._told_to_lead if key[0] != what.broker}
            case RequestSeen():
                self._ask(what, index)
            case ResponseSeen():
                self._respond(what, index)
            case ControlSent():
                self._tell(what, index)
            case ControlAnswered():
                self._take(what, index)

    def _ask(self, asked: RequestSeen, index: int) -> None:
        self._note(asked.number, index)
        if asked.fate is not Fate.ARRIVES:
            return
        self._asked_at.setdefault(asked.number, index)
        if asked.api == FETCH and asked.is_full:
            self._begun.add(asked.number[0])
        for partition, said in asked.partitions.items():
            if isinstance(said, FetchAsked):
                fetched = self._fetched[asked.leader, partition][asked.follower]
                fetched.append(_Fetched(asked.number, said.fetch_offset, said))

    def _respond(self, response: ResponseSeen, index: int) -> None:
        # One whose request the links did not record was asked after the message before it.
        heard = self._heard.get(response.number[0], -1)
        self._note(response.number, index)
        # Of one that reached nobody, and that was not read, it is not known whether it failed.
        if response.fate is not Fate.WAITS and (
            response.partitions or response.fate is not Fate.ABANDONED
        ):
            self._replied.add(response.number)
        if response.error_code:
            for leader, partition in [*self._fetched]:
                if leader == response.leader:
                    self._fail(response, partition, response.error_code)
        if not response.is_whole:
            self._cut_off.add(response.number[0])
        for partition, said in response.partitions.items():
            if response.error_code or said.error_code:
                self._fail(response, partition, response.error_code or said.error_code)
                if isinstance(said, FetchAnswered):
                    self._known[response.number[0], partition] = _FORGOTTEN
            elif isinstance(said, FetchAnswered):
                known_at = self._asked_at.get(response.number, heard)
                self._known[response.number[0], partition] = (said.high_watermark, known_at)
                self._lead(response, partition, index)
                term = self._terms.get((response.leader, partition))
                if term is not None and known_at >= term.since:
                    last = -1 if said.last_offset is None else said.last_offset
                    term.log_end = max(term.log_end, said.high_watermark, last + 1)
                    term.high_watermark = max(term.high_watermark, said.high_watermark)

    def _fail(self, response: ResponseSeen, partition: TopicPartition, error_code: int) -> None:
        """Note that a Fetch failed: it does not count, or makes its follower's end unknown.

        A leader that fails itself may have counted it, or not (UNKNOWN_SERVER_ERROR).
        """
        own = self._fetched[response.leader, partition][response.follower]
        at = next((at for at, known in enumerate(own) if known.number == response.number), None)
        if error_code == ErrorCode.UNKNOWN_SERVER_ERROR and at is not None:
            self._terms.pop((response.leader, partition), None)
        generation = self._generations.get(response.leader)
        if response.error_code or generation is None or not generation.forgets_end_of_refused:
            own[:] = [known for known in own if known.number != response.number]
        elif own:
            # One that the links did not record repeated the last.
            own[-1 if at is None else at].offset = -1

    def _lead(self, response: ResponseSeen, partition: TopicPartition, index: int) -> None:
        """Note that a leader has taken over the leader epoch in which it answers a Fetch.

        It compares that with its own, for a full Fetch in every release that has one there
        (Partition.checkCurrentLeaderEpoch, 2.1.0 and 3.8.0).
        """
        request = self._lookahead.requests.get(response.number)
        asked = None if request is None else request.partitions.get(partition)
        if request is None or not request.is_full or not isinstance(asked, FetchAsked):
            return
        for number, states in [*self._told[response.leader].items()]:
            taken = tuple(
                state
                for state in states
                if (state.topic, state.partition) == partition
                and (state.leader, state.leader_epoch) == (response.leader, asked.leader_epoch)
            )
            left = tuple(state for state in states if state not in taken)
            self._told[response.leader][number] = left
            for state in taken:
                self._begin(response.leader, partition, state, number, index)

    def _note(self, number: Number, index: int) -> None:
        connection, correlation = number
        self._done_at.setdefault((connection, self._latest.get(connection, -1)), index)
        self._heard[connection] = index
        self._latest[connection] = max(correlation, self._latest.get(connection, correlation))

    def _tell(self, sent: ControlSent, index: int) -> None:
        for stopped in sent.stopped:
            self._terms.pop((sent.broker, stopped.partition), None)
        states = tuple(state for state in sent.states if tells_leader(sent, state))
        self._told[sent.broker][sent.number] = states
        for state in states:
            key = (sent.broker, TopicPartition(state.topic, state.partition))
            if state.leader != sent.broker:
                self._terms.pop(key, None)
                continue
            term = self._terms.setdefault(key, _Term(is_first=key not in self._told_to_lead))
            self._told_to_lead.add(key)
            if all(epoch < state.leader_epoch for epoch in term.leader_epochs):
                term.newest = (sent.number, index, term.log_end, len(term.isrs))
            term.isrs.append(frozenset(state.isr))
            term.leader_epochs.add(state.leader_epoch)

    def _take(self, answered: ControlAnswered, index: int) -> None:
        for state in self._told[answered.broker].pop(answered.number, ()):
            partition = TopicPartition(state.topic, state.partition)
            if not answered.error_code and answered.errors.get(partition, 0) == 0:
                self._begin(answered.broker, partition, state, answered.number, index)

    def _begin(
        self,
        broker: int,
        partition: TopicPartition,
        state: PartitionState,
        number: Number,
        index: int,
    ) -> None:
        """Note that a broker leads by now in a leader epoch that it was told."""
        term = self._terms.get((broker, partition))
        if term is None or state.leader != broker:
            return
        term.since = min(term.since, index)
        term.taken = max(term.taken, state.leader_epoch)
        newest, told_at, told_end, before = term.newest
        if newest == number:
            term.told_at, term.told_end = told_at, told_end
            term.isrs = term.isrs[before:]

    def _is_told(self, broker: int, partition: TopicPartition) -> bool:
        """Return whether a broker has a request about a partition that it has not answered."""
        return any(
            (state.topic, state.partition) == partition
            for states in self._told[broker].values()
            for state in states
        )

    def _moves(
        self,
        asked: RequestSeen,
        partition: TopicPartition,
        offset: int,
        above: int,
        term: _Term,
        index: int,
    ) -> bool:
        """Return whether to count a Fetch moves the high watermark, and nobody keeps it back."""
        fetched = self._fetched[asked.leader, partition]
        own = fetched.get(asked.follower, [])
        # A leader that is asked from there once more may move nothing (KAFKA-8841).
        if any(known.offset == offset for known in own[-1:]):
            return False
        if not self._lookahead.decisions.is_always_assigned(partition, asked.follower):
            return False
        end, _ = self._until(asked, partition, above, index)
        # It counts the Fetch before or after it begins with another epoch, as the leader it is.
        to_come = [*self._lookahead.told_until(asked.leader, partition, index, end)]
        isr = frozenset[int]().union(*term.isrs, *(state.isr for state in to_come))
        # A follower that has left the ISR may join again by a Fetch that the leader read before the
        # epoch began, and counted in it. Links show where the leader asks for that ISR (KIP-497).
        for leader_epoch in {term.taken, *(state.leader_epoch for state in to_come)}:
            isr = isr.union(*self._lookahead.isrs_asked(asked.leader, partition, leader_epoch, end))
        # Otherwise the answer to that Fetch shows it: the leader refuses the older epoch.
        fenced = {*self._lookahead.fenced_after(asked.leader, partition, term.told_at)}
        fenced.discard(asked.follower)
        if any(known.offset <= above for other in fenced for known in fetched.get(other, [])[-1:]):
            return False
        others = {*isr, *fetched, *self._generations} - {asked.leader, asked.follower}
        return not any(
            self._may_keep_back(other, asked, partition, above, term, other in isr, index)
            for other in others
        )

    def _may_keep_back(
        self,
        other: int,
        asked: RequestSeen,
        partition: TopicPartition,
        above: int,
        term: _Term,
        is_in_isr: bool,
        index: int,
    ) -> bool:
        """Return whether a follower may keep the high watermark back until a Fetch is counted.

        It does from the ISR with an end up to there. Outside it joins from the high watermark
        on, or has caught up: its Fetch reached the leader's end, now or at its Fetch before.
        """
        fetched = self._fetched[asked.leader, partition].get(other, [])
        # What was answered was counted, and so was what came before it.
        counted = [known for known in fetched if self._is_answered(known.number)]
        offsets = [
            *(known.offset for known in fetched if not self._is_answered(known.number)),
            *self._to_come(other, asked, partition, above, term, index),
        ]
        # What was counted before the leader was told that it has left the ISR counts no more.
        generation = self._generations[asked.leader]
        has_left = not is_in_isr and all(
            self._done_at.get(known.number, _NEVER) < term.told_at
            or _is_refused(known.said, term, generation)
            for known in counted
        )
        if (
            not counted
            or has_left
            or (self._asked_at[counted[-1].number] < self._stopped.get(other, -1) < term.told_at)
        ):
            # With a leader's first epoch nobody's Fetch before it counts.
            is_first = term.is_first and len(term.leader_epochs) == 1
            least = above if is_first else min(term.told_end, above)
            return is_in_isr or any(least <= offset <= above for offset in offsets)
        return (
            self._asked_at[counted[-1].number] < term.since
            or counted[-1].offset <= above
            or any(offset <= above for offset in offsets)
        )

    def _until(
        self, asked: RequestSeen, partition: TopicPartition, above: int, index: int
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
        self,
        other: int,
        asked: RequestSeen,
        partition: TopicPartition,
        above: int,
        term: _Term,
        index: int,
    ) -> Iterator[int]:
        """Yield from where another fetches, counted maybe before one that arrives is answered."""
        end, itself = self._until(asked, partition, above, index)
        is_gone = other in self._stopped and all(
            self._asked_at[known.number] < self._stopped[other]
            for known in self._fetched[asked.leader, partition].get(other, [])
        )
        generation = self._generations[asked.leader]
        for number, said in self._lookahead.fetches_until(
            other, asked.leader, partition, index, end
        ):
            if number is None:
                if not is_gone and not _is_refused(said, term, generation):
                    yield said.fetch_offset
            elif number != itself:
                fails = self._lookahead.is_refused(number, partition)
                if not fails or generation.forgets_end_of_refused:
                    yield -1 if fails else said.fetch_offset

    def _is_answered(self, number: Number) -> bool:
        return number in self._replied or self._latest.get(number[0], number[1]) > number[1]


def _is_refused(said: FetchAsked, term: _Term, generation: Generation) -> bool:
    """Return whether a leader refuses a Fetch that repeats one, for its leader epoch.

    The links would record that error.
    """
    if said.leader_epoch is None or said.leader_epoch < 0:
        return False
    repeated = PartitionRequest(
        leader_epoch=said.leader_epoch,
        carries_leader_epoch=True,
        fetch_offset=said.fetch_offset,
        requested_epoch=-1,
        is_incremental=True,
    )
    refuses = said.leader_epoch < term.taken and generation.sees_leader_epoch(repeated)
    return refuses and generation.refuse_epoch(said.leader_epoch, term.taken) != ""
