"""Observations that contradict the model whatever the hidden steps: necessary conditions.

One pass over the record bounds from above (an over-approximation) what any state may hold by then:

- An offset exists only if a produce that was sent by then may cover it. One that was acknowledged
  covers the offsets that its client was told, one that was refused none, and any other may fill a
  gap. One with acks=all covers none where its leader had no ISR that was large enough.
- A replica's log ends where it ended before, where an answer that its fetcher got says, or behind
  what a client wrote to its broker.
- A leader's answer tells of no more than its own log has. A batch of a leader epoch is of a produce
  that the leader of that epoch may have read in it.
- A follower's high watermark is one that an answer told it, or an earlier one. Who asks anew on a
  connection, after it was last told to lead a partition, follows what it asks for, and a new
  process leads nothing yet: what it led before gave it no more than its end of then, and than an
  ISR of its own had fetched from it.
- Without leader epochs in its protocol a follower begins at its high watermark, and goes on with
  what its leader's answers gave it.
- A fetcher has one request in flight on a connection. It asks for more than before only where an
  answer gave it that, and asks anew after a question for an offset only once that was answered.
  An answer that was seen to be kept at a link is answered once it goes on.
- A Fetch that moves the high watermark is not answered unseen (`unanswered`).
- A checkpoint file holds a high watermark that its broker's log had by then.
- A LeaderAndIsr says what some decision wrote, and a leader epoch is that before or the next. A
  control request names a registration that its broker had; only a late request that the scenario
  makes may name another.

A search that has come to such an observation has explained as much as can be, and need not look at
the other ways to come there. What is not refuted may still be explained by nothing.
"""

from collections import defaultdict
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.model.broker.exchange import FETCH, LIST_OFFSETS
from kchaos.checkers.model.controller.allowed import contradiction
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    NOT_LEADING,
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    CopyBegun,
    CopyEnded,
    EpochAnswered,
    Fate,
    FetchAnswered,
    FetchAsked,
    Number,
    OffsetAnswered,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.follow.unanswered import Unanswered
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    Decided,
    HighWatermarkObserved,
    PartitionState,
    Produce,
    RemoteCopy,
    TopicConfigured,
    TopicCreated,
)


def first_refuted_decision(record: Record) -> int | None:
    """Return the index of the first decision that follows on no other; None without.

    A partition's state follows on its topic, and then on its own state before, and its ISR is of
    the replicas that were assigned last. The partitions of a topic that is made again begin anew.
    Registrations of a broker begin and end in turn.
    """
    registered: set[int] = set()
    assigned: dict[str, tuple[tuple[int, ...], ...]] = {}
    states: dict[TopicPartition, PartitionState] = {}
    for index, decided in enumerate(record.decided):
        state = decided.what
        if isinstance(state, BrokerRegistered | BrokerUnregistered):
            if (state.broker in registered) is isinstance(state, BrokerRegistered):
                return index
            registered ^= {state.broker}
        if isinstance(state, TopicCreated):
            assigned[state.topic] = state.assignment
            states = {
                partition: before
                for partition, before in states.items()
                if partition.topic != state.topic
            }
        if isinstance(state, PartitionState):
            partition = TopicPartition(state.topic, state.partition)
            assignments = assigned.get(state.topic, ())[state.partition :]
            if contradiction(assignments[0] if assignments else (), states.get(partition), state):
                return index
            states[partition] = state
    return None


def first_refuted(
    record: Record,
    lookahead: Lookahead,
    decisions: int | None = None,
    generations: Mapping[int, Generation] = MappingProxyType({}),
) -> tuple[int, str] | None:
    """Return the index of the first observation that no state explains, and why; None without.

    Args:
        record: What was seen.
        lookahead: Of the same record.
        decisions: How many decisions can be taken at most; None for all.
        generations: In place of what `StartBroker` says.
    """
    unanswered = Unanswered(lookahead, generations)
    bounds = _Bounds(len(record.decided) if decisions is None else decisions, record, lookahead)
    for index, item in enumerate(record.seen):
        why = bounds.refutes(item.what) or unanswered.refutes(item.what, index)
        if why:
            return index, why
        bounds.add(item.what)
        unanswered.add(item.what, index)
    return None


class _Bounds:
    """Bounds that a record sets at most, up to an observation."""

    def __init__(self, decisions: int, record: Record, lookahead: Lookahead) -> None:
        self._decisions = decisions
        self._lookahead = lookahead
        self._sent: dict[TopicPartition, list[Produce]] = defaultdict(list)
        self._ends: dict[TopicPartition, int] = defaultdict(int)
        self._got: dict[tuple[int, TopicPartition], int] = defaultdict(int)
        self._spare: dict[tuple[int, TopicPartition], int] = defaultdict(int)
        self._high: dict[tuple[int, TopicPartition], int] = defaultdict(int)
        self._given: dict[tuple[int, int, TopicPartition], int] = defaultdict(int)
        self._led: set[tuple[int, TopicPartition]] = set()
        self._fetched: dict[tuple[int, TopicPartition], dict[int, int]] = defaultdict(dict)
        self._isrs: dict[tuple[int, TopicPartition], set[frozenset[int]]] = defaultdict(set)
        for decided in record.decided:
            if isinstance(decided.what, PartitionState):
                self._note_isr(decided.what)
        self._taking: dict[tuple[int, TopicPartition], set[Number]] = defaultdict(set)
        self._led_since: dict[tuple[int, TopicPartition], int] = {}
        self._last_on: dict[int, int] = {}
        self._at = 0
        self._running: set[int] = set()
        self._asked: dict[Number, RequestSeen] = {}
        self._open: dict[int, RequestSeen] = {}
        self._fetchers = _Fetchers()
        self._epochs = _Epochs(lookahead)
        self._too_few = _TooFew(record)
        self._copying: dict[tuple[str, int], CopyBegun] = {}
        # A follower of a tiered log may build it from remote segments.
        self._is_tiered = any(isinstance(item.what, RemoteCopy) for item in record.seen)
        self._may_exit: set[int] = set()

    def refutes(self, what: object) -> str:
        """Return why nothing can be seen so now, or ""."""
        match what:
            case ClientAnswered(outcome="ok"):
                return self._acknowledged(what)
            case RequestSeen() if (
                what.fate is not Fate.ABANDONED and self._lookahead.requests[what.number] is what
            ):
                return self._asked_beyond(what)
            case ResponseSeen() if self._is_looked_at(what) and not what.error_code:
                return self._answered_beyond(what)
            case StopBroker() if what.checkpointed is not None:
                for topic, number, high_watermark in what.checkpointed:
                    partition = TopicPartition(topic, number)
                    why = self._too_high(what.broker, partition, high_watermark)
                    if why:
                        return why
            case HighWatermarkObserved():
                partition = TopicPartition(what.topic, what.partition)
                return self._beyond(what.broker, partition, what.high_watermark) or self._too_high(
                    what.broker, partition, what.high_watermark
                )
            case CopyEnded():
                return self._copied_beyond(what)
            case ControlSent() if what.broker in self._running - self._may_exit:
                return self._never_decided(what)
        return ""

    def _asked_beyond(self, what: RequestSeen) -> str:
        for partition, asked in what.partitions.items():
            if isinstance(asked, FetchAsked):
                why = self._beyond(what.follower, partition, asked.fetch_offset)
                why = why or self._above_high_watermark(what, partition, asked.fetch_offset)
                if why:
                    return why
        return "" if self._is_tiered else self._fetchers.refutes(what)

    def _answered_beyond(self, what: ResponseSeen) -> str:
        for partition, said in what.partitions.items():
            why = self._beyond(what.leader, partition, _end_told(said))
            if not why and isinstance(said, FetchAnswered) and said.base_offset is not None:
                why = self._epochs.refutes(partition, said.base_offset, said.first_leader_epoch)
            if why:
                return why
        return ""

    def _copied_beyond(self, what: CopyEnded) -> str:
        begun = self._copying.get((what.label, what.broker))
        for partition, files in begun.files if begun is not None else ():
            if files.batches:
                why = self._beyond(what.broker, partition, files.batches[-1][1] + 1)
                if why:
                    return why
            for base_offset, _, leader_epoch, _ in files.batches:
                why = self._epochs.refutes(partition, base_offset, leader_epoch)
                if why:
                    return why
        return ""

    def _never_decided(self, what: ControlSent) -> str:
        """Return why a request's registration or state was never decided."""
        if not self._lookahead.decisions.is_registered(
            what.broker, what.broker_epoch, self._decisions
        ):
            return (
                f"broker {what.broker} never registered with epoch {what.broker_epoch}, "
                f"which the {what.api} names"
            )
        for state in what.states:
            if not self._lookahead.decisions.is_written(state, self._decisions):
                return (
                    f"no decision wrote leader {state.leader}, leader epoch "
                    f"{state.leader_epoch} and ISR {list(state.isr)} of "
                    f"{state.topic}-{state.partition}"
                )
        return ""

    def add(self, what: object) -> None:  # noqa: C901
        """Take in what may happen from now on."""
        self._fetchers.add(what)
        self._epochs.add(what)
        self._too_few.add(what)
        self._at += 1
        match what:
            case StartBroker():
                self._running.add(what.broker)
            case StopBroker():
                self._running.discard(what.broker)
                # Its process leads nothing more, and the next one begins with what this one had.
                for key in [key for key in self._led if key[0] == what.broker]:
                    self._lead_no_more(key)
                # Requests of its connections may be gone, and then their answers are not looked at.
                self._asked = _without(what.broker, self._asked)
                self._open = _without(what.broker, self._open)
            case Produce() if not self._too_few.refuses(what):
                partition = TopicPartition(what.topic, what.partition)
                self._sent[partition].append(what)
                self._ends[partition] = self._end(partition)
                self._write(what.broker, partition, what)
            case ControlSent():
                self._lead(what)
            case ControlAnswered():
                for key, numbers in self._taking.items():
                    if what.number in numbers:
                        numbers.discard(what.number)
                        self._led_since[key] = self._at
            case RequestSeen():
                for partition, asked in what.partitions.items():
                    if isinstance(asked, FetchAsked):
                        fetched = self._fetched[what.leader, partition]
                        before = fetched.get(what.follower, 0)
                        fetched[what.follower] = max(before, asked.fetch_offset)
                self._follow(what)
                if what.api == LIST_OFFSETS:
                    # Out of its leader's range, an old broker may end itself.
                    self._may_exit.add(what.follower)
                if what.fate is Fate.ARRIVES and what.partitions:
                    self._asked[what.number] = what
                    self._open[what.number[0]] = what
            case ResponseSeen():
                self._last_on[what.number[0]] = self._at
                if what.fate in (Fate.ARRIVES, Fate.FORGED):
                    for partition, said in what.partitions.items():
                        key = (what.follower, partition)
                        self._got[key] = max(self._got[key], _end_given(said))
                        given = (what.follower, what.leader, partition)
                        self._given[given] = max(self._given[given], _end_given(said))
                        if isinstance(said, FetchAnswered):
                            told = (said.high_watermark, said.log_start_offset or 0)
                            self._high[key] = max(self._high[key], *told)
                        elif isinstance(said, OffsetAnswered):
                            # A log that is begun anew there is committed up to there.
                            self._high[key] = max(self._high[key], said.offset or 0)
            case CopyBegun():
                self._copying[what.label, what.broker] = what

    def _follow(self, asked: RequestSeen) -> None:
        """Note the partitions of which a broker has handled each request to lead, and ask another.

        A fetcher has one request in flight on a connection. So what follows a message there was
        sent after that, and it is enough that this was seen after the broker had handled them.
        """
        if self._lookahead.requests[asked.number] is asked:
            last = self._last_on.get(asked.number[0], -1)
            for partition in asked.partitions:
                key = (asked.follower, partition)
                is_after = not self._taking[key] and last > self._led_since.get(key, -1)
                if key in self._led and is_after:
                    self._lead_no_more(key)
        self._last_on[asked.number[0]] = self._at

    def _lead(self, sent: ControlSent) -> None:
        for state in sent.states:
            self._note_isr(state)
            if state.leader == sent.broker:
                key = (sent.broker, TopicPartition(state.topic, state.partition))
                self._led.add(key)
                self._led_since[key] = self._at
                self._taking[key].add(sent.number)

    def _lead_no_more(self, key: tuple[int, TopicPartition]) -> None:
        self._led.discard(key)
        self._taking[key].clear()
        self._high[key] = max(self._high[key], self._most_as_leader(*key))

    def _note_isr(self, state: PartitionState) -> None:
        partition = TopicPartition(state.topic, state.partition)
        self._isrs[state.leader, partition].add(frozenset(state.isr))

    def _most_as_leader(self, leader: int, partition: TopicPartition) -> int:
        """Return how far a broker's high watermark has come at most while it led.

        It moves to the smallest end of its ISR, of whoever it waits for besides, and of its own log
        (Partition.maybeIncrementLeaderHW, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0). A follower's end is
        the offset that it last fetched from. Which ISRs a leader may have had is written, some day.
        Only who is assigned counts, so who some assignment leaves out is no hindrance.
        """
        most = self._got[leader, partition] + self._spare[leader, partition]
        fetched = self._fetched[leader, partition]
        in_each = (
            min(
                (fetched.get(member, 0) for member in self._awaited(isr, partition) - {leader}),
                default=most,
            )
            for isr in self._isrs[leader, partition]
        )
        return min(most, max(in_each, default=most))

    def _awaited(self, isr: frozenset[int], partition: TopicPartition) -> frozenset[int]:
        return isr.intersection(*self._lookahead.decisions.assignments(partition))

    def _is_looked_at(self, response: ResponseSeen) -> bool:
        """Return whether a response is to an observed request, or one that repeated the last."""
        last = self._open.get(response.number[0])
        is_to_repeated = last is not None and last.number[1] < response.number[1]
        return response.number in self._asked or (is_to_repeated and response.fate is Fate.ARRIVES)

    def _end(self, partition: TopicPartition) -> int:
        """Return where a log ends at most: at the first offset that no produce may cover."""
        spare = 0
        covered: list[tuple[int, int]] = []
        for produce in self._sent[partition]:
            told = self._lookahead.client_answers.get(produce.operation)
            if told is not None and told.outcome == "ok" and told.base_offset >= 0:
                covered.append((told.base_offset, told.base_offset + len(produce.records)))
            elif _may_be_appended(produce, told):
                spare += len(produce.records)
        end = 0
        for first, last in sorted(covered):
            if first > end:
                spare -= first - end
                if spare < 0:
                    return first + spare
            end = max(end, last)
        return end + spare

    def _write(self, broker: int, partition: TopicPartition, produce: Produce) -> None:
        told = self._lookahead.client_answers.get(produce.operation)
        if told is not None and told.outcome == "ok" and told.base_offset >= 0:
            end = told.base_offset + len(produce.records)
            self._got[broker, partition] = max(self._got[broker, partition], end)
        elif _may_be_appended(produce, told):
            self._spare[broker, partition] += len(produce.records)

    def _acknowledged(self, answered: ClientAnswered) -> str:
        for partition, produces in self._sent.items():
            for produce in produces:
                if produce.operation == answered.operation:
                    is_beyond = answered.base_offset > self._ends[partition]
                    return self._no_record(partition) if is_beyond else ""
        return ""

    def _beyond(self, broker: int, partition: TopicPartition, offset: int) -> str:
        if offset > self._ends[partition]:
            return self._no_record(partition)
        most = self._got[broker, partition] + self._spare[broker, partition]
        if offset > most and not self._is_tiered:
            return (
                f"nobody wrote to broker {broker}, and no answer gave it, more of {partition.name} "
                f"than the records before {most}"
            )
        return ""

    def _too_high(self, broker: int, partition: TopicPartition, high_watermark: int) -> str:
        is_follower = (broker, partition) not in self._led and not self._is_tiered
        if is_follower and high_watermark > self._high[broker, partition]:
            return (
                f"broker {broker} leads no {partition.name}, and no answer told it "
                f"a high watermark above {self._high[broker, partition]}"
            )
        return ""

    def _above_high_watermark(
        self, asked: RequestSeen, partition: TopicPartition, offset: int
    ) -> str:
        """Return why a follower that truncates to its high watermark cannot fetch so, or "".

        It does where it begins to follow, with a protocol before 0.11 and so without epochs to ask
        for (ReplicaManager.makeFollowers, 0.10.2.2; maybeTruncate and buildLeaderEpochRequest of
        ReplicaFetcherThread, 0.11.0.3 and 1.1.1). Of what it led before it may have had more.
        """
        is_without_epochs = asked.version is not None and asked.version < _WITH_EPOCHS
        if not is_without_epochs or self._is_tiered or (asked.follower, partition) in self._led:
            return ""
        given = self._given[asked.follower, asked.leader, partition]
        most = max(self._high[asked.follower, partition], given)
        if offset <= most:
            return ""
        return (
            f"broker {asked.follower} follows {partition.name} from its high "
            f"watermark on, and no answer of broker {asked.leader} gave it the records from {most}"
        )

    def _no_record(self, partition: TopicPartition) -> str:
        return (
            f"no produce that was sent by then can be at offset {self._ends[partition]} of "
            f"{partition.name}"
        )


_K = TypeVar("_K")
_WITH_EPOCHS = 4
"""The version of a Fetch from which on its protocol has leader epochs (0.11)."""


def _without(broker: int, requests: dict[_K, RequestSeen]) -> dict[_K, RequestSeen]:
    return {
        key: request
        for key, request in requests.items()
        if broker not in (request.follower, request.leader)
    }


class _Epochs:
    """Which produces a leader may have appended in which of its leader epochs.

    A leader gives what it appends the epoch that a LeaderAndIsr told it (Partition.makeLeader and
    appendRecordsToLeader, 0.11.0.3, 1.1.1, 2.8.2 and 3.8.0), and followers keep that. What a client
    was told of before was appended in an earlier epoch. What a process had not read when it ended
    nobody reads.
    """

    def __init__(self, lookahead: Lookahead) -> None:
        self._lookahead = lookahead
        self._open: dict[int, dict[str, Produce]] = defaultdict(dict)
        self._led: dict[int, set[tuple[TopicPartition, int]]] = defaultdict(set)
        self._of: dict[tuple[TopicPartition, int], list[Produce]] = defaultdict(list)
        self._told: set[tuple[TopicPartition, int]] = set()
        self._markers: set[TopicPartition] = set()

    def refutes(self, partition: TopicPartition, offset: int, leader_epoch: int | None) -> str:
        """Return why no log has a batch of that epoch at an offset, or ""."""
        if (partition, leader_epoch) not in self._told or partition in self._markers:
            return ""
        assert leader_epoch is not None
        for produce in self._of[partition, leader_epoch]:
            told = self._lookahead.client_answers.get(produce.operation)
            if told is not None and told.outcome == "ok" and told.base_offset >= 0:
                if told.base_offset <= offset < told.base_offset + len(produce.records):
                    return ""
            elif _may_be_appended(produce, told):
                return ""
        return (
            f"no produce that the leader of epoch {leader_epoch} had can be at offset {offset} of "
            f"{partition.name}"
        )

    def add(self, what: object) -> None:
        match what:
            case Produce():
                partition = TopicPartition(what.topic, what.partition)
                if what.producer is not None and what.producer.is_marker:
                    # Its coordinator may send it anew, to another leader.
                    self._markers.add(partition)
                self._open[what.broker][what.operation] = what
                for led, leader_epoch in self._led[what.broker]:
                    if led == partition:
                        self._of[partition, leader_epoch].append(what)
            case ClientAnswered() if what.outcome == "ok" and what.base_offset >= 0:
                for produces in self._open.values():
                    # Without acks a client goes on before its produce is read.
                    if what.operation in produces and produces[what.operation].acks:
                        del produces[what.operation]
            case ControlSent():
                for state in what.states:
                    partition = TopicPartition(state.topic, state.partition)
                    if state.leader == what.broker:
                        self._told.add((partition, state.leader_epoch))
                        self._led[what.broker].add((partition, state.leader_epoch))
                        self._of[partition, state.leader_epoch] += (
                            produce
                            for produce in self._open[what.broker].values()
                            if TopicPartition(produce.topic, produce.partition) == partition
                        )
            case StopBroker():
                self._open[what.broker].clear()
                self._led[what.broker].clear()


class _TooFew:
    """Which produces with acks=all a leader refuses, since its ISR is never large enough for them.

    Before it appends one, a leader compares its ISR with min.insync.replicas. Whom it asks for does
    not count (Partition.appendMessagesToLeader 0.10.2.2, appendRecordsToLeader 1.1.1, 2.7.2, 2.8.2
    and 3.8.0). Its ISR is one that was written for it, in the leader epoch that it has by then or a
    later one.
    """

    def __init__(self, record: Record) -> None:
        self._written: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
        self._needed: dict[int | str, int] = {}
        self._replicas: dict[str, list[int]] = defaultdict(list)
        self._told: dict[Number, tuple[PartitionState, ...]] = {}
        self._taken: dict[tuple[int, TopicPartition], int] = {}
        items: list[Decided | Seen] = [*record.decided, *record.seen]
        for item in items:
            match item.what:
                case PartitionState() as state:
                    self._write(state)
                case ControlSent(states=states):
                    for state in states:
                        self._write(state)
                case TopicCreated(topic=topic, assignment=assignment):
                    self._replicas[topic].append(min(map(len, assignment), default=0))
                case TopicConfigured(topic=topic, configuration=configuration):
                    setting = dict(configuration).get("min.insync.replicas")
                    if setting is not None:
                        self._need(topic, int(setting) if setting.isdecimal() else 0)
                case StartBroker(broker=broker, min_insync_replicas=least):
                    self._need(broker, least)

    def refuses(self, produce: Produce) -> bool:
        """Return whether no leader epoch in which it may be appended has an ISR for it."""
        key = (produce.broker, TopicPartition(produce.topic, produce.partition))
        replicas = self._replicas[produce.topic]
        # The leader epochs of a topic that is made again begin anew.
        if produce.acks != -1 or key not in self._taken or len(replicas) != 1:
            return False
        of_broker = self._needed.get(produce.broker, 0)
        needed = min(replicas[0], of_broker, self._needed.get(produce.topic, of_broker))
        return all(
            members < needed for epoch, members in self._written[key] if epoch >= self._taken[key]
        )

    def add(self, what: object) -> None:
        match what:
            case ControlSent():
                self._told[what.number] = what.states
            case ControlAnswered(error_code=0):
                for state in self._told.get(what.number, ()):
                    partition = TopicPartition(state.topic, state.partition)
                    if state.leader == what.broker and not what.errors.get(partition, 0):
                        key = (what.broker, partition)
                        self._taken[key] = max(state.leader_epoch, self._taken.get(key, -1))
            case StopBroker():
                self._taken = {
                    key: epoch for key, epoch in self._taken.items() if key[0] != what.broker
                }

    def _write(self, state: PartitionState) -> None:
        key = (state.leader, TopicPartition(state.topic, state.partition))
        self._written[key].append((state.leader_epoch, len(state.isr)))

    def _need(self, of: int | str, least: int) -> None:
        self._needed[of] = min(least, self._needed.get(of, least))


class _Fetchers:
    """Fetcher threads: what each waits for and has asked, on its connection."""

    def __init__(self) -> None:
        self._unanswered: dict[tuple[int, int], RequestSeen | ResponseSeen] = {}
        self._fetched: dict[tuple[int, int, TopicPartition], tuple[Number, int]] = {}
        self._handling: dict[int, dict[Number, frozenset[TopicPartition]]] = defaultdict(dict)

    def refutes(self, asked: RequestSeen) -> str:
        """Return why a thread cannot ask so now, or ""."""
        waiting = self._unanswered.get((asked.follower, asked.source))
        unanswered = ""
        if waiting is not None and _is_later(asked, waiting.number):
            unanswered = (
                f"no answer was seen to the {waiting.api} that broker {asked.follower} sent before "
                "on that connection"
            )
            if waiting.api != FETCH:
                return unanswered
        for partition, now_asked in asked.partitions.items():
            before = self._fetched.get((asked.follower, asked.source, partition))
            if before is None or not isinstance(now_asked, FetchAsked):
                continue
            number, end = before
            if _is_later(asked, number) and now_asked.fetch_offset > end:
                return (
                    f"broker {asked.follower} had asked for {partition.name} from "
                    f"{end} on that connection, and no answer was seen since that gave it more"
                )
        return unanswered

    def add(self, what: object) -> None:
        match what:
            case RequestSeen() if what.fate is not Fate.ABANDONED:
                # Of which Fetches the answer is news to the links, `Unanswered` knows.
                if what.api != FETCH:
                    self._unanswered[what.follower, what.source] = what
                told = frozenset[TopicPartition]().union(*self._handling[what.follower].values())
                self._fetched |= {
                    (what.follower, what.source, partition): (what.number, asked.fetch_offset)
                    for partition, asked in what.partitions.items()
                    if isinstance(asked, FetchAsked) and partition not in told
                }
            case ResponseSeen(fate=Fate.WAITS):
                self._unanswered[what.follower, what.source] = what
            case ResponseSeen():
                key = (what.follower, what.source)
                if key in self._unanswered and self._unanswered[key].number == what.number:
                    del self._unanswered[key]
                for partition, said in what.partitions.items():
                    if (*key, partition) in self._fetched:
                        number, end = self._fetched[*key, partition]
                        self._fetched[*key, partition] = (number, max(end, _end_given(said)))
            case ControlSent() if what.states or what.stopped:
                # It may take these from the thread, and give them back with another offset.
                led = (TopicPartition(state.topic, state.partition) for state in what.states)
                told = frozenset({*led, *(stopped.partition for stopped in what.stopped)})
                self._handling[what.broker][what.number] = told
                self._fetched = {
                    key: known
                    for key, known in self._fetched.items()
                    if key[0] != what.broker or key[2] not in told
                }
            case ControlAnswered():
                self._handling[what.broker].pop(what.number, None)
            case StopBroker():
                self._handling[what.broker].clear()
                self._fetched = {
                    key: known for key, known in self._fetched.items() if key[0] != what.broker
                }


def _is_later(asked: RequestSeen, number: Number) -> bool:
    return asked.number[0] == number[0] and asked.number[1] > number[1]


def _end_told(said: object) -> int:
    """Return how far an answer says that its leader's log goes, at least."""
    match said:
        case FetchAnswered(error_code=0):
            return max(
                said.high_watermark, -1 if said.last_offset is None else said.last_offset + 1
            )
        case EpochAnswered(error_code=0):
            return said.end_offset
    return -1


def _end_given(said: object) -> int:
    """Return where a follower's log may end because of an answer."""
    match said:
        case FetchAnswered():
            diverging = 0 if said.diverging is None else said.diverging[1]
            end = 0 if said.last_offset is None else said.last_offset + 1
            return max(diverging, end, said.log_start_offset or 0)
        case EpochAnswered():
            return said.end_offset
        case OffsetAnswered():
            return said.offset or 0
    return 0


def _may_be_appended(produce: Produce, told: ClientAnswered | None) -> bool:
    """Return whether a broker may have appended a produce whose client got no offset."""
    if told is None or told.outcome != "fail":
        return True
    # With acks=all a leader that was deposed refuses what it has appended.
    refused = ("NOT_ENOUGH_REPLICAS", *(NOT_LEADING if produce.acks != -1 else ()))
    return told.error not in refused
