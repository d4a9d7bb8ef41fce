"""Lookahead: the rest of a record tells a search early where nothing can fit."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import itemgetter
from typing import Any, TypeVar

from kchaos.checkers.acts import FORGED_ERRORS, ForgeAnswers, StopBroker, TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.client_connections import ClientConnections
from kchaos.checkers.model.follow.decisions_ahead import DecisionsAhead
from kchaos.checkers.model.follow.observations import (
    METADATA_LOG,
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    CopyBegun,
    EpochAnswered,
    EpochAsked,
    Fate,
    FetchAnswered,
    FetchAsked,
    IsrAnswered,
    IsrAsked,
    Number,
    OffsetAnswered,
    OffsetAsked,
    PartitionAsked,
    Record,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.values.events import LogStartObserved, PartitionState, Produce
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.requests import EARLIEST, PartitionRequest

_TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS.name
_Item = TypeVar("_Item", bound=tuple[Any, ...])


class Lookahead:
    """Indexes over one record."""

    def __init__(self, record: Record) -> None:
        self.responses: dict[Number, ResponseSeen] = {}
        self.requests: dict[Number, RequestSeen] = {}
        self.control_answers: dict[Number, ControlAnswered] = {}
        self.client_answers: dict[str, ClientAnswered] = {}
        self.produces: dict[str, Produce] = {}
        self._sent_to: dict[tuple[int, TopicPartition], list[int]] = defaultdict(list)
        self.decisions = DecisionsAhead(record)
        self.connections = ClientConnections(record)
        self.shows_isr_answers = False
        self.forgeries: dict[tuple[int, int, int], str] = {}
        self._answered: dict[Number, int] = {}
        self._client_answered: dict[str, int] = {}
        self._produced: dict[tuple[int, TopicPartition], list[tuple[int, str]]] = defaultdict(list)
        self._read: dict[tuple[int, TopicPartition, int], list[tuple[int, int]]] = defaultdict(list)
        self._asked: dict[tuple[int, int, TopicPartition], list[tuple[int, int, FetchAsked]]] = (
            defaultdict(list)
        )
        self._fetches_of: dict[tuple[int, TopicPartition], list[tuple[int, FetchAsked, Number]]] = (
            defaultdict(list)
        )
        self._fetched: dict[tuple[int, int, TopicPartition], list[int]] = defaultdict(list)
        self._asked_at: dict[Number, int] = {}
        self._answers: dict[tuple[int, TopicPartition], list[tuple[int, Number, int]]] = (
            defaultdict(list)
        )
        self._told_on: dict[
            tuple[int, int, int, TopicPartition], list[tuple[int, FetchAnswered]]
        ] = defaultdict(list)
        self._begun: dict[tuple[int, int, int], int] = {}
        self._cut: dict[tuple[int, int, int], int] = {}
        self._answered_at: dict[tuple[Number, int, TopicPartition], int] = {}
        self._empty: dict[tuple[int, TopicPartition], list[tuple[int, Number, int]]] = defaultdict(
            list
        )
        self._waited: dict[tuple[int, TopicPartition, int], list[tuple[int, Number]]] = defaultdict(
            list
        )
        self._epochs_asked: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = defaultdict(
            list
        )
        self._ends_told: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
        self._copied: dict[tuple[TopicPartition, int, int], int] = {}
        self._payloads: dict[tuple[TopicPartition, int, int], set[str | None]] = defaultdict(set)
        self._last_on: dict[int, int] = {}
        self._on: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        self._told: dict[int, list[tuple[int, ControlSent]]] = defaultdict(list)
        self._killed: dict[int, list[int]] = defaultdict(list)
        self._stopped: dict[int, list[tuple[int, Mapping[TopicPartition, int]]]] = defaultdict(list)
        self._closed: dict[int, list[tuple[int, int | None]]] = defaultdict(list)
        self._of_pair: dict[tuple[int, int], list[tuple[int, RequestSeen | ResponseSeen]]] = (
            defaultdict(list)
        )
        self._sent: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._session: dict[int, dict[TopicPartition, FetchAsked]] = {}
        self.backing_off: dict[Number, frozenset[TopicPartition]] = {}
        self.unchanged: dict[Number, Mapping[TopicPartition, FetchAsked]] = {}
        self._begins: dict[tuple[int, TopicPartition], list[tuple[int, int]]] = defaultdict(list)
        self._isrs_asked: dict[
            tuple[int, TopicPartition, int], list[tuple[int, frozenset[int]]]
        ] = defaultdict(list)
        self._times = [item.time for item in record.seen]
        self._lag_s = record.lag_s
        self._fetch_timeout_s = record.fetch_timeout_s
        for index, item in enumerate(record.seen):
            self._add(index, item.what)
            for broker, partition, start in self._log_starts(item.what):
                self._note_start(self._begins[broker, partition], index, start)
            if isinstance(item.what, StopBroker):
                closed = self.decisions.closed_by(item.what, item.time)
                self._closed[item.what.broker].append((index, closed))

    def _add(self, index: int, what: object) -> None:  # noqa: C901
        match what:
            case RequestSeen():
                self._note_request(index, what)
            case ResponseSeen():
                self._note_connection(index, what.number)
                if what.fate is Fate.FORGED:
                    pass  # It is not what the leader answered.
                elif what.fate is Fate.WAITS:
                    self.responses.setdefault(what.number, what)
                else:
                    self.responses[what.number] = what
                self._of_pair[what.follower, what.source].append((index, what))
                for partition, said in what.partitions.items():
                    answer = (index, what.number, said.error_code)
                    self._answers[what.leader, partition].append(answer)
                    self._answered_at.setdefault((what.number, what.leader, partition), index)
                self._note_told(index, what)
                self._note_empty(index, what)
                self._note_epochs(index, what)
                self._note_ends(index, what)
            case ControlAnswered():
                self.control_answers.setdefault(what.number, what)
                self._answered.setdefault(what.number, index)
            case CopyBegun():
                for partition, files in what.files:
                    for base_offset, last_offset, leader_epoch, _ in files.batches:
                        batch = (partition, base_offset, leader_epoch)
                        self._copied[batch] = min(last_offset, self._copied.get(batch, last_offset))
                    for header, payload in zip(files.batches, files.payloads, strict=False):
                        self._payloads[partition, header[0], header[2]].add(payload)
            case ControlSent():
                self._told[what.broker].append((index, what))
            case Produce():
                self.produces[what.operation] = what
                partition = TopicPartition(what.topic, what.partition)
                self._sent_to[what.broker, partition].append(index)
            case ClientAnswered():
                self.client_answers[what.operation] = what
                self._client_answered[what.operation] = index
                self._note_produced(index, what)
            case IsrAsked():
                for partition, wanted in what.isrs.items():
                    request = (what.leader, partition, wanted.leader_epoch)
                    self._isrs_asked[request].append((index, frozenset(wanted.isr)))
            case IsrAnswered():
                self.shows_isr_answers = True
            case ForgeAnswers():
                code = FORGED_ERRORS.get(what.error)
                if code is not None:
                    self.forgeries[what.source, what.target, code] = what.error
            case StopBroker():
                if not what.clean:
                    self._killed[what.broker].append(index)
                marks = {
                    TopicPartition(topic, number): high_watermark
                    for topic, number, high_watermark in what.checkpointed or ()
                }
                self._stopped[what.broker].append((index, marks))

    def _note_told(self, index: int, response: ResponseSeen) -> None:
        connection = (response.number[0], response.follower, response.source)
        if not response.is_whole:
            self._cut.setdefault(connection, index)
        for partition, said in response.partitions.items():
            if isinstance(said, FetchAnswered):
                self._told_on[*connection, partition].append((index, said))

    def _note_produced(self, index: int, answer: ClientAnswered) -> None:
        sent = self.produces.get(answer.operation)
        if sent is not None and sent.acks == -1:
            partition = TopicPartition(sent.topic, sent.partition)
            self._produced[sent.broker, partition].append((index, answer.error))

    def _note_connection(self, index: int, number: Number) -> None:
        connection, correlation = number
        self._last_on[connection] = max(correlation, self._last_on.get(connection, correlation))
        places, latest = self._on[connection]
        places.append(index)
        latest.append(self._last_on[connection])

    def _log_starts(self, what: object) -> Iterator[tuple[int, TopicPartition, int]]:
        """Yield where a log was seen to begin: (broker, partition, offset)."""
        match what:
            case RequestSeen():
                for partition, asked in what.partitions.items():
                    if isinstance(asked, FetchAsked) and asked.log_start_offset is not None:
                        yield what.follower, partition, asked.log_start_offset
            case ResponseSeen():
                request = self.requests.get(what.number)
                for partition, said in what.partitions.items():
                    if isinstance(said, FetchAnswered) and said.log_start_offset is not None:
                        yield what.leader, partition, said.log_start_offset
                    before = None if request is None else request.partitions.get(partition)
                    is_start = isinstance(before, OffsetAsked) and before.timestamp == EARLIEST
                    if is_start and isinstance(said, OffsetAnswered) and said.offset is not None:
                        yield what.leader, partition, said.offset
            case CopyBegun():
                for partition, files in what.files:
                    if files.local_start is not None:
                        yield what.broker, partition, files.local_start
            case LogStartObserved():
                partition = TopicPartition(what.topic, what.partition)
                yield what.broker, partition, what.log_start_offset

    @staticmethod
    def _note_start(items: list[tuple[int, int]], index: int, start: int) -> None:
        """Note where a log was seen to begin; of equal ones after each other the last is kept."""
        if items and items[-1][1] == start:
            items.pop()
        items.append((index, start))

    def begins_later(
        self, broker: int, partition: TopicPartition, log_start_offset: int, index: int
    ) -> int | None:
        """Return where a log is next seen to begin, from an index on, if that is further on."""
        items = self._begins.get((broker, partition), [])
        for place in range(bisect_left(items, index, key=itemgetter(0)), len(items)):
            if items[place][1] > log_start_offset:
                return items[place][1]
        return None

    def _note_request(self, index: int, what: RequestSeen) -> None:
        self._note_connection(index, what.number)
        if what.number not in self.requests:
            self.requests[what.number] = what
            self._asked_at[what.number] = index
            self._sent[what.follower, what.source].append((index, what.number[1]))
            if what.api == FETCH:
                self._note_session(what)
            else:
                self.backing_off[what.number] = self._without_answer(what)
        self._of_pair[what.follower, what.source].append((index, what))
        if what.is_full:
            self._begun.setdefault((what.number[0], what.follower, what.source), index)
        for partition, asked in what.partitions.items():
            if isinstance(asked, EpochAsked):
                epoch = (index, asked.requested_epoch)
                self._epochs_asked[what.follower, partition].append(epoch)
            if isinstance(asked, FetchAsked):
                key = (what.follower, what.leader, partition)
                before = self._asked[key]
                if not before or before[-1][1] <= what.number[0]:
                    # An earlier connection's may come late, from a leader that was paused.
                    before.append((index, what.number[0], asked))
                self._fetches_of[what.follower, partition].append((index, asked, what.number))
                if what.fate is Fate.ARRIVES:
                    self._fetched[key].append(index)

    def _without_answer(self, what: RequestSeen) -> frozenset[TopicPartition]:
        """Return of which partitions the last requests of this kind had no answer, or an error.

        A fetcher leaves them out for `replica.fetch.backoff.ms`, and asks for the others meanwhile
        (AbstractFetcherThread.delayPartitions and PartitionFetchState.isTruncatingLog, 0.11.0.2 and
        1.1.1; isTruncating, 2.1.1 and 2.8.2).
        """
        without = self._on_lost_connection(what)
        for _, before in reversed(self._of_pair.get((what.follower, what.source), [])):
            if not isinstance(before, RequestSeen) or before.api != what.api:
                continue
            response = self.responses.get(before.number)
            said = (
                {} if response is None or response.fate is not Fate.ARRIVES else response.partitions
            )
            failed = {
                partition
                for partition in before.partitions
                if (answer := said.get(partition)) is None or answer.error_code
            }
            if not failed:
                break
            without |= failed
        return frozenset(without)

    def _on_lost_connection(self, what: RequestSeen) -> set[TopicPartition]:
        """Return what a fetcher had on the connection before, and has not asked about on this one.

        It connects anew once a Fetch fails, and leaves all out that it has then, also what was
        taken away meanwhile and put on it again to be truncated
        (AbstractFetcherThread.processFetchRequest, 0.11.0.2, 1.1.1, 2.4.1 and 3.8.0).
        """
        connection, asked = what.number[0], set[TopicPartition]()
        lost: int | None = None
        had: set[TopicPartition] = set()
        for _, message in reversed(self._of_pair.get((what.follower, what.source), [])):
            if message.number[0] == connection:
                asked.update(message.partitions if isinstance(message, RequestSeen) else ())
                continue
            if lost is None:
                lost = message.number[0]
                had.update(self._session.get(lost, {}))
            if message.number[0] != lost:
                break
            had.update(message.partitions)
        return had - asked

    def _note_session(self, what: RequestSeen) -> None:
        """Note what a Fetch says again by leaving it out, and what its session holds then.

        A fetcher names each partition of which anything is new (FetchSessionHandler.Builder.build
        and FetchRequest.PartitionData.equals, 1.1.1, 2.1.0, 2.5.1 and 3.8.0).
        """
        held = {} if what.is_full else self._session.get(what.number[0], {})
        known = {
            partition: said for partition, said in held.items() if partition not in what.forgotten
        }
        named = {
            partition: said
            for partition, said in what.partitions.items()
            if isinstance(said, FetchAsked)
        }
        self._session[what.number[0]] = {**known, **named}
        self.unchanged[what.number] = {
            partition: said for partition, said in known.items() if partition not in named
        }

    def _note_epochs(self, index: int, response: ResponseSeen) -> None:
        for partition, said in response.partitions.items():
            if not isinstance(said, FetchAnswered) or said.base_offset is None:
                continue
            if said.first_leader_epoch is not None and said.first_leader_epoch >= 0:
                key = (response.leader, partition, said.base_offset)
                self._read[key].append((index, said.first_leader_epoch))
                if said.high_watermark == said.base_offset:
                    self._waited[key].append((index, response.number))

    def _note_ends(self, index: int, response: ResponseSeen) -> None:
        """Note where a follower is told that an epoch ends, for which it may truncate its log."""
        for partition, said in response.partitions.items():
            if isinstance(said, EpochAnswered) and not said.error_code:
                self._ends_told[response.follower, partition].append((index, said.end_offset))

    def _note_empty(self, index: int, response: ResponseSeen) -> None:
        """Note from where a leader had no records to give; rarely others leave no room for some.

        Of a partition that an answer leaves out its leader has nothing new.
        """
        request = self.requests.get(response.number)
        asked: dict[TopicPartition, PartitionAsked] = {
            **self.unchanged.get(response.number, {}),
            **({} if request is None else request.partitions),
        }
        is_read = response.is_whole and not response.error_code
        for partition in asked if is_read else response.partitions:
            said, wanted = response.partitions.get(partition), asked.get(partition)
            is_empty = said is None or (
                isinstance(said, FetchAnswered)
                and not said.error_code
                and said.last_offset is None
                and said.diverging is None
            )
            if is_empty and isinstance(wanted, FetchAsked):
                empty = (index, response.number, wanted.fetch_offset)
                self._empty[response.leader, partition].append(empty)

    @cached_property
    def _least_empty(self) -> Mapping[tuple[int, TopicPartition], list[int]]:
        return {
            key: [*accumulate((asked for _, _, asked in reversed(items)), min)][::-1]
            for key, items in self._empty.items()
        }

    def empty_answers(
        self, leader: int, partition: TopicPartition, offset: int, operation: str, index: int
    ) -> Iterator[Number]:
        """Yield the Fetches from an offset or before to which a leader will have no records.

        Those are answered from an index on, and before the client of that produce is answered.
        """
        items = self._empty.get((leader, partition), [])
        answered = self._client_answered.get(operation)
        for place in range(bisect_left(items, index, key=itemgetter(0)), len(items)):
            at, number, asked = items[place]
            is_past = answered is not None and at > answered
            if is_past or self._least_empty[leader, partition][place] > offset:
                return
            if asked <= offset:
                yield number

    def waited_for(
        self, leader: int, partition: TopicPartition, offset: int, index: int
    ) -> Iterator[Number]:
        """Yield the Fetches whose answers have the batch at an offset and that high watermark.

        Those are answered from an index on. Where the high watermark was lower when the leader
        appended the batch, such Fetches moved it while they waited, but for at most one.
        """
        for _, number in _since(self._waited.get((leader, partition, offset), []), index):
            yield number

    def next_of(self, follower: int, source: int, index: int) -> RequestSeen | ResponseSeen | None:
        """Return the next message between a fetcher and its leader, from an index on."""
        items = self._of_pair.get((follower, source), [])
        return next((what for _, what in _since(items, index)), None)

    def next_unseen(self, follower: int, source: int, index: int) -> ResponseSeen | None:
        """Return the next answer to a Fetch that links did not record, from an index on.

        None if they record another request of that fetcher before.
        """
        items = self._of_pair.get((follower, source), [])
        for _, what in _since(items, index):
            if isinstance(what, RequestSeen):
                return None
            if what.api == FETCH and what.number not in self.requests:
                return what
        return None

    def index_behind(self, number: Number | None, index: int) -> int:
        """Return an index, or that behind a request, where it is seen later."""
        return index if number is None else max(index, self._asked_at.get(number, -1) + 1)

    def next_fetch(self, follower: int, source: int, index: int) -> RequestSeen | None:
        """Return the next Fetch that a fetcher sends its leader, from an index on."""
        items = self._of_pair.get((follower, source), [])
        asked = (what for _, what in _since(items, index) if isinstance(what, RequestSeen))
        return next((what for what in asked if what.api == FETCH), None)

    def fetches_before_told(
        self, follower: int, source: int, partition: TopicPartition, index: int
    ) -> RequestSeen | None:
        """Return the next Fetch, from an index on, if it asks for a partition.

        None where the follower is told before that the same broker leads that partition.
        """
        items = self._of_pair.get((follower, source), [])
        for at, what in _since(items, index):
            if not isinstance(what, RequestSeen) or what.api != FETCH:
                continue
            is_told = any(
                (state.topic, state.partition, state.leader) == (*partition, leader_of(source))
                for place, sent in self._told.get(follower, ())
                if index <= place < at
                for state in sent.states
            )
            asks = partition in what.partitions or partition in self.unchanged[what.number]
            return what if asks and not is_told else None
        return None

    def next_answered_before(
        self, leader: int, partition: TopicPartition, request: Number, index: int
    ) -> tuple[Number, int] | None:
        """Return which request a leader next answers about a partition, and the error code.

        None where that was asked after the leader had answered this control request.
        """
        items = self._answers.get((leader, partition), [])
        at = bisect_left(items, index, key=itemgetter(0))
        if at == len(items):
            return None
        _, number, error_code = items[at]
        asked, handled = self._asked_at.get(number), self._answered.get(request)
        is_before = asked is not None and (handled is None or asked < handled)
        return (number, error_code) if is_before else None

    def checkpointed_next(self, broker: int, partition: TopicPartition, index: int) -> int | None:
        """Return the high watermark that a broker next stops with, from an index on.

        None where it is told anything more of that partition before.
        """
        stops = self._stopped[broker]
        at = bisect_left(stops, index, key=itemgetter(0))
        if at == len(stops):
            return None
        stopped_at, checkpointed = stops[at]
        is_told = any(
            index <= told_at < stopped_at and (state.topic, state.partition) == partition
            for told_at, sent in self._told[broker]
            for state in sent.states
        )
        return None if is_told else checkpointed.get(partition)

    def keeps_until(
        self, number: Number, leader: int, partition: TopicPartition, index: int
    ) -> bool:
        """Return whether a leader deletes no replica from an index on, until an answer is seen."""
        answered = self._answered_at.get((number, leader, partition))
        return answered is not None and not any(
            stopped.partition == partition and stopped.deletes
            for at, sent in self._told[leader]
            if at < answered and self._answered.get(sent.number, index) >= index
            for stopped in sent.stopped
        )

    def is_sent_before(
        self, broker: int, partition: TopicPartition, request: Number, index: int
    ) -> bool:
        """Return whether a client sends to a broker, from an index on, before this response.

        That is a produce, and the broker's answer to a control request, or else its process's end.
        """
        stops = (at for at, _ in self._stopped.get(broker, ()) if at >= index)
        end = self._answered.get(request, next(stops, len(self._times)))
        sent = self._sent_to.get((broker, partition), [])
        at = bisect_left(sent, index)
        return at < len(sent) and sent[at] < end

    def is_sent_before_answer(self, sent: RequestSeen, control: Number) -> bool:
        """Return whether a request is sent before its broker answers a control request."""
        answered = self._answered.get(control)
        return answered is None or self._asked_at[sent.number] < answered

    def answered_before(
        self,
        leader: int,
        partition: TopicPartition,
        request: Number,
        index: int,
        error_codes: Container[int],
    ) -> Iterator[RequestSeen]:
        """Yield the requests that a leader answers, from an index on, with one of these errors.

        Those that were asked after the leader had answered this control request are left out.
        """
        items = self._answers.get((leader, partition), [])
        handled = self._answered.get(request)
        for _, number, error_code in _since(items, index):
            asked = self._asked_at.get(number)
            is_before = asked is not None and (handled is None or asked < handled)
            if is_before and error_code in error_codes:
                yield self.requests[number]

    def unseen_before(
        self, follower: int, source: int, partition: TopicPartition, request: Number, index: int
    ) -> Iterator[Number]:
        """Yield the Fetches that were not seen, and whose answers name a partition.

        Those answers come from an index on, before the follower answers this control request.
        """
        items = self._of_pair.get((follower, source), [])
        handled = self._answered.get(request)
        for at, what in _since(items, index):
            if handled is None or at > handled:
                return
            is_unseen = isinstance(what, ResponseSeen) and what.number not in self.requests
            if is_unseen and what.api == FETCH and partition in what.partitions:
                yield what.number

    def may_have_repeated(self, follower: int, source: int, index: int) -> bool:
        """Return whether the links passed on a request at an index that they did not record.

        A fetcher numbers its requests one after the other from 0, whichever connection they take.
        So there was none between two recorded ones whose numbers follow each other, and none before
        the first.
        """
        sent = self._sent.get((follower, source), [])
        at = bisect_left(sent, index, key=itemgetter(0))
        before = -1 if at == 0 else sent[at - 1][1]
        return at == len(sent) or sent[at][1] != before + 1

    def replica_epoch(self, follower: int, source: int, index: int) -> int:
        """Return the broker epoch in a fetcher's last Fetch seen before an index, -1 for none.

        One that repeats it, which the links do not record, has the same.
        """
        items = self._of_pair.get((follower, source), [])
        for place in reversed(range(bisect_left(items, index, key=itemgetter(0)))):
            seen = items[place][1]
            if isinstance(seen, RequestSeen) and seen.api == FETCH:
                return seen.replica_epoch
        return -1

    def has_asked(self, follower: int, source: int, partition: TopicPartition, index: int) -> bool:
        """Return whether a Fetch that asks a leader for a partition was seen before an index."""
        asked = self._asked.get((follower, leader_of(source), partition), [])
        return bool(asked) and asked[0][0] < index

    def has_asked_so(
        self,
        follower: int,
        source: int,
        partition: TopicPartition,
        index: int,
        asks: PartitionRequest,
    ) -> bool:
        """Return whether the last Fetch seen before an index asked the same, if there was one.

        The links do not record one that repeats the one before; the first from an offset, or in a
        leader epoch, they do. Connections are numbered in the order in which they were made, and a
        fetcher has one at a time.
        """
        asked = self._asked.get((follower, leader_of(source), partition), [])
        at = bisect_left(asked, index, key=itemgetter(0))
        if at == 0:
            return True
        said = asked[at - 1][2]
        is_so = said.leader_epoch in (None, -1, asks.leader_epoch)
        return is_so and said.fetch_offset == asks.fetch_offset

    def may_lag_too_long(
        self, follower: int, leader: int, partition: TopicPartition, index: int
    ) -> bool:
        """Return whether a follower may have been behind for longer than it may, before an index.

        Where its last fetch reached the leader's end of the fetch before, it counts as caught up
        since that one (kafka.cluster.Replica.updateFetchState). So this is of the last fetch but
        one that arrived, of those that the links recorded.
        """
        fetched = self._fetched.get((follower, leader, partition), [])
        at = bisect_left(fetched, index)
        if at == 0 or index == len(self._times):
            return False
        since = self._times[fetched[max(at - 2, 0)]]
        return self._times[index] - since > self._lag_s

    def may_have_timed_out(self, number: Number | None, anew: RequestSeen) -> bool:
        """Return whether a fetcher may have given up a request although a link passed its response.

        A link writes a message down before its first byte is sent, so that on a busy machine it may
        come too late. The fetcher closes the connection then, and asks anew on another one
        (`ReplicaFetcherBlockingSend` 0.11.0.0, 1.1.1 and 2.8.2; BrokerBlockingSender 3.8.0).
        """
        if number is None or anew.number[0] <= number[0]:
            return False
        asked, later = self._asked_at.get(number), self._asked_at.get(anew.number)
        # When a request that links did not record was asked nobody knows.
        if asked is None or later is None:
            return True
        return self._times[later] - self._times[asked] >= self._fetch_timeout_s

    def is_killed_before_asking(self, follower: int, source: int, index: int) -> bool:
        """Return whether a follower is killed, from an index on, before that fetcher asks again."""
        killed = next((at for at in self._killed.get(follower, ()) if at >= index), None)
        if killed is None:
            return False
        items = self._of_pair.get((follower, source), [])
        later = (item for item in _since(items, index) if isinstance(item[1], RequestSeen))
        asks = next(later, None)
        return asks is None or asks[0] > killed

    def is_shut_down(self, broker: int, index: int) -> bool:
        """Return whether a broker's process ends in order next, from an index on."""
        stopped = next((at for at, _ in self._stopped.get(broker, ()) if at >= index), None)
        return stopped is not None and stopped not in self._killed.get(broker, ())

    def epochs_asked_until_end(
        self, follower: int, source: int, partition: TopicPartition, index: int
    ) -> list[int | None]:
        """Return in which epochs a follower asks a leader for a partition until its process ends.

        From an index on; a message that does not say its epoch has None.
        """
        stops = (at for at, _ in self._stopped.get(follower, ()) if at >= index)
        end = next(stops, len(self._times))
        items = self._of_pair.get((follower, source), [])
        return [
            asked.leader_epoch
            for at, what in _since(items, index)
            if at < end and isinstance(what, RequestSeen)
            if (asked := what.partitions.get(partition)) is not None
        ]

    def was_not_appended(
        self, follower: int, partition: TopicPartition, batch: PredictedBatch, index: int
    ) -> bool:
        """Return whether a follower most likely did not append what it was answered.

        It was killed, or was paused until the connection was closed. So it is where its next Fetch
        asks for the same offset again: a Fetch with the epoch of the last record asks from the
        log's end (KIP-595). One without comes from there where no leader has told the follower of
        an end at or before it. So it is too where it sends a batch of another epoch from there,
        and has not fetched before.
        """
        fetches = self._fetches_of[follower, partition]
        at = bisect_left(fetches, index, key=itemgetter(0))
        first = fetches[at] if at < len(fetches) else None
        sent = self._read.get((follower, partition, batch.base_offset), [])
        at = bisect_left(sent, index, key=itemgetter(0))
        if at < len(sent) and (first is None or sent[at][0] < first[0]):
            return sent[at][1] != batch.leader_epoch
        if first is None or first[1].fetch_offset > batch.base_offset:
            return False
        if first[1].last_fetched_epoch is not None:
            return True
        ends = self._ends_told.get((follower, partition), [])
        told = [end for at, end in ends if index <= at < first[0]]
        return bool(told) and min(told) > first[1].fetch_offset

    def fetches_beyond(
        self, follower: int, partition: TopicPartition, offset: int, index: int
    ) -> bool:
        """Return whether a broker's next Fetch, from an index on, is from beyond an offset."""
        first = self._next_fetch_of(follower, partition, index)
        return first is not None and first.fetch_offset > offset

    def fetches_before_read(
        self, follower: int, partition: TopicPartition, offset: int, index: int
    ) -> bool:
        """Return whether it does so (`fetches_beyond`) before it next sends the batch there."""
        items = self._read.get((follower, partition, offset), [])
        at = bisect_left(items, index, key=itemgetter(0))
        fetches = self._fetches_of[follower, partition]
        first = bisect_left(fetches, index, key=itemgetter(0))
        is_before = first < len(fetches) and (at == len(items) or fetches[first][0] < items[at][0])
        return is_before and fetches[first][1].fetch_offset > offset

    def epoch_asked_next(self, follower: int, partition: TopicPartition, index: int) -> int | None:
        """Return for which epoch a broker next asks a leader, from an index on, None for none."""
        asked = self._epochs_asked.get((follower, partition), [])
        at = bisect_left(asked, index, key=itemgetter(0))
        return asked[at][1] if at < len(asked) else None

    def _next_fetch_of(
        self, follower: int, partition: TopicPartition, index: int
    ) -> FetchAsked | None:
        fetches = self._fetches_of[follower, partition]
        at = bisect_left(fetches, index, key=itemgetter(0))
        return fetches[at][1] if at < len(fetches) else None

    def has_closed(self, broker: int, index: int, decided: int) -> bool:
        """Return whether a broker that is shut down next, from an index on, has lost its session.

        In a shutdown fetchers end before the session is closed (kafka.server.KafkaServer.shutdown,
        0.10.2.2, 1.1.1, 2.8.2 and 3.6.2). A session that has expired says nothing about them.

        Args:
            broker: Its id.
            index: How many observations were taken.
            decided: How many decisions were taken.
        """
        closed = next((at for stop, at in self._closed.get(broker, ()) if stop >= index), None)
        return closed is not None and closed < decided

    def would_be_seen(
        self,
        number: Number,
        follower: int,
        source: int,
        partition: TopicPartition,
        high_watermark: int,
        log_start_offset: int,
        index: int,
    ) -> bool:
        """Return whether links would have recorded a response with this high watermark or start.

        They do if the answer before on that connection had another one of that partition.

        `source` is that of the thread that asked (`values.fetchers`), and `index` the number of
        observations taken.
        """
        said = self.told_before(number, follower, source, partition, index)
        return said is not None and (
            said.high_watermark != high_watermark
            or said.log_start_offset not in (None, log_start_offset)
        )

    def told_before(
        self, number: Number, follower: int, source: int, partition: TopicPartition, index: int
    ) -> FetchAnswered | None:
        """Return what the last recorded answer before an index said, of the same connection.

        For the arguments see `would_be_seen`.
        """
        answers = self._told_on.get((number[0], follower, source, partition), [])
        at = bisect_left(answers, index, key=itemgetter(0))
        return answers[at - 1][1] if at else None

    def begins_session(self, number: Number, follower: int, source: int, index: int) -> bool:
        """Return whether a fetch session began on the connection of a Fetch, whole up to an index.

        The first answer there about a partition is one that the links record: a session leaves out
        only what it said before (FetchSession.CachedPartition, 1.1.1, 2.8.2 and 3.8.0). One that
        did not begin there may have said it on another connection.

        For the arguments see `would_be_seen`.
        """
        connection = (number[0], follower, source)
        begun, cut = self._begun.get(connection), self._cut.get(connection)
        return begun is not None and begun < index and (cut is None or cut >= index)

    def high_watermark_to_tell(
        self,
        number: Number | None,
        follower: int,
        source: int,
        partition: TopicPartition,
        index: int,
    ) -> int | None:
        """Return the high watermark in the answer to a request in flight, None if it is not known.

        What an answer leaves out, and an answer that the links did not record, has the one that
        was told before. For the arguments see `would_be_seen`.
        """
        seen = None if number is None else self.responses.get(number)
        said = None if seen is None else seen.partitions.get(partition)
        if number is not None and said is None and (seen is not None or self.goes_on(number)):
            said = self.told_before(number, follower, source, partition, index)
        if not isinstance(said, FetchAnswered) or said.error_code:
            return None
        return said.high_watermark

    def epoch_at(
        self, leader: int, partition: TopicPartition, base_offset: int, index: int
    ) -> int | None:
        """Return the leader epoch of the batch there that a leader next sends, from an index on.

        None if it sends none, or one of a format without leader epochs.
        """
        items = self._read.get((leader, partition, base_offset), [])
        at = bisect_left(items, index, key=itemgetter(0))
        return items[at][1] if at < len(items) else None

    def next_isr_asked(
        self, leader: int, partition: TopicPartition, leader_epoch: int, index: int
    ) -> frozenset[int] | None:
        """Return the ISR that a leader is next seen to ask for in an epoch, from an index on."""
        items = self._isrs_asked.get((leader, partition, leader_epoch), [])
        at = bisect_left(items, index, key=itemgetter(0))
        return items[at][1] if at < len(items) else None

    def refuses_next(
        self, leader: int, partition: TopicPartition, leader_epoch: int, index: int
    ) -> bool:
        """Return whether a leader next answers acks=all with NOT_ENOUGH_REPLICAS, from an index on.

        And it does before it asks for another ISR.
        """
        answered = next(_since(self._produced.get((leader, partition), ()), index), None)
        if answered is None or answered[1] != _TOO_FEW:
            return False
        asked = next(
            _since(self._isrs_asked.get((leader, partition, leader_epoch), ()), index), None
        )
        return asked is None or answered[0] < asked[0]

    def fetches_before_isr_asked(
        self, follower: int, leader: int, partition: TopicPartition, leader_epoch: int, index: int
    ) -> bool:
        """Return whether a fetch is seen, from an index on, before the leader asks for an ISR."""
        requests = self._isrs_asked.get((leader, partition, leader_epoch), [])
        fetches = self._asked.get((follower, leader, partition), [])
        request = bisect_left(requests, index, key=itemgetter(0))
        fetch = bisect_left(fetches, index, key=itemgetter(0))
        if request == len(requests) or fetch == len(fetches):
            return False
        return fetches[fetch][0] < requests[request][0]

    def joins_in_next_epoch(
        self, follower: int, source: int, partition: TopicPartition, leader_epoch: int, index: int
    ) -> bool:
        """Return whether a leader asks for an ISR with a follower in an epoch after this one.

        From an index on, while no link sees the follower fetch, though that epoch began without it.
        """
        sent, leader = self._sent.get((follower, source), []), leader_of(source)
        later = bisect_left(sent, index, key=itemgetter(0))
        end = sent[later][0] if later < len(sent) else len(self._times)
        return any(
            state.leader_epoch > leader_epoch
            and follower not in state.isr
            and any(
                index <= at < end and follower in isr
                for at, isr in self._isrs_asked.get((leader, partition, state.leader_epoch), ())
            )
            for state in self.told_until(leader, partition, 0, end)
        )

    def copied_end(
        self, partition: TopicPartition, base_offset: int, leader_epoch: int
    ) -> int | None:
        """Return where a batch there that may be of this epoch ends, exclusive, in any snapshot.

        The first such end, for one produce may be several batches in the formats without epochs.
        """
        known = (self._copied.get((partition, base_offset, epoch)) for epoch in (leader_epoch, -1))
        return min((last + 1 for last in known if last is not None), default=None)

    def is_copied(self, partition: TopicPartition, batch: PredictedBatch) -> bool:
        """Return whether a batch may be in a snapshot: another one is in none in its place."""
        payloads = self._payloads.get((partition, batch.base_offset, batch.leader_epoch))
        return payloads is None or batch.payload in payloads or None in payloads

    def goes_on(self, number: Number) -> bool:
        """Return whether a later request is seen on a request's connection, or its answer."""
        connection, correlation = number
        return self._last_on[connection] > correlation

    def later(self, number: Number) -> int | None:
        """Return the index of the first message after a request on its connection."""
        places, latest = self._on[number[0]]
        at = bisect_right(latest, number[1])
        return places[at] if at < len(places) else None

    def told_until(
        self, leader: int, partition: TopicPartition, index: int, end: int
    ) -> Iterator[PartitionState]:
        """Yield what a leader hears of a partition's leader from an index on, before another.

        To hear that there is none may change nothing (`tells_leader`).
        """
        for at, sent in self._told[leader]:
            if index <= at < end:
                for state in sent.states:
                    if (state.topic, state.partition) == partition and tells_leader(sent, state):
                        yield state

    def fetches_until(
        self, follower: int, leader: int, partition: TopicPartition, index: int, end: int
    ) -> Iterator[tuple[Number | None, FetchAsked]]:
        """Yield which Fetches may reach a leader from an index on, before another, and what of it.

        One that the links did not record asks as the last one before it did; it is None here.
        """
        asked = self._asked.get((follower, leader, partition), [])
        at = bisect_left(asked, index, key=itemgetter(0))
        if at:
            yield None, asked[at - 1][2]
        fetches = self._fetches_of[follower, partition]
        for place, said, number in _since(fetches, index):
            if place >= end:
                return
            yield number, said

    def is_refused(self, number: Number, partition: TopicPartition) -> bool:
        """Return whether a leader is seen to refuse a partition of a request.

        One that failed itself may have done all that was asked.
        """
        response = self.responses.get(number)
        said = None if response is None else response.partitions.get(partition)
        return said is not None and said.error_code not in (
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_SERVER_ERROR,
        )

    def first_told(self, leader: int, partition: TopicPartition, index: int) -> int | None:
        """Return the high watermark that a leader tells first from an index on, with records.

        None if its first answer has none: then it may have counted the Fetch before it looked.
        """
        for _, _, said in self._fetches_answered(leader, partition, index):
            if not said.error_code:
                return None if said.last_offset is None else said.high_watermark
        return None

    def _fetches_answered(
        self, leader: int, partition: TopicPartition, index: int
    ) -> Iterator[tuple[int, Number, FetchAnswered]]:
        """Yield a leader's answers to Fetches of a partition: (index, number, answer)."""
        answers = self._answers.get((leader, partition), [])
        for at, number, _ in _since(answers, index):
            if number in self.responses:
                said = self.responses[number].partitions.get(partition)
                if isinstance(said, FetchAnswered):
                    yield at, number, said

    def told_before_answering(
        self, number: Number, control: Number, partition: TopicPartition, index: int
    ) -> int:
        """Return the high watermark in the answer to a Fetch, -1 without one.

        The answer is seen from an index on, and before that to a control request.
        """
        seen, answered = self.responses.get(number), self._answered.get(control)
        said = None if seen is None else seen.partitions.get(partition)
        if seen is None or answered is None or not isinstance(said, FetchAnswered):
            return -1
        is_between = any(
            index <= at < answered and item is seen
            for at, item in self._of_pair[seen.follower, seen.source]
        )
        return said.high_watermark if is_between and not said.error_code else -1

    def leads_until_later(
        self, leader: int, partition: TopicPartition, number: Number, index: int
    ) -> bool:
        """Return whether nothing ends a leader's term, from an index on, before a later message.

        That is the first one after a request on its connection. What ends a term is to hear of
        another leader (`tells_leader`), or to be told to stop the replica.
        """
        later = self.later(number)
        return later is not None and not any(
            index <= at < later
            and (
                any(
                    (state.topic, state.partition) == partition
                    and state.leader != leader
                    and tells_leader(sent, state)
                    for state in sent.states
                )
                or any(stopped.partition == partition for stopped in sent.stopped)
            )
            for at, sent in self._told[leader]
        )

    def is_client_answered(self, operation: str, index: int) -> bool:
        """Return whether a client has the answer to a produce from an index on."""
        return self._client_answered.get(operation, -1) >= index

    def is_told_before_answering(self, broker: int, operation: str, index: int) -> bool:
        """Return whether a broker hears of leaders, from an index on, before a client's answer."""
        answered = self._client_answered.get(operation)
        return any(
            what.states and (answered is None or at < answered)
            for at, what in self._told.get(broker, ())
            if at >= index
        )

    def is_told_by_others(self, broker: int, number: Number, index: int) -> bool:
        """Return whether another controller's request reaches a broker before this response."""
        answered = self._answered.get(number)
        return any(
            what.number[0] != number[0]
            for at, what in self._told.get(broker, ())
            if at >= index and (answered is None or at < answered)
        )

    def is_told_before_asking(self, follower: int, source: int, index: int) -> bool:
        """Return whether a follower hears of partitions, from an index on, before it asks again."""
        items = self._of_pair.get((follower, source), [])
        requests = (place for place, what in _since(items, index) if isinstance(what, RequestSeen))
        asks = next(requests, None)
        return any(
            what.states or what.stopped
            for place, what in self._told.get(follower, ())
            if place >= index and (asks is None or place < asks)
        )

    def is_told_before_answer(
        self,
        follower: int,
        source: int,
        asked: tuple[tuple[TopicPartition, PartitionRequest], ...],
        answer: ResponseSeen,
        index: int,
    ) -> bool:
        """Return whether a follower learns of its leader's next epoch before the next message.

        That is the answer to what it asks, and links did not record the request. Of a partition
        with an error it was most likely asked before: the leader has heard of an epoch first. A
        Fetch that carries its leader epoch was asked before too: the next epoch would be news, and
        recorded.
        """
        items = self._of_pair.get((follower, source), [])
        at = bisect_left(items, index, key=itemgetter(0))
        epochs = {
            partition: asks.leader_epoch
            for partition, asks in asked
            if not asks.carries_leader_epoch
            and partition in answer.partitions
            and not answer.partitions[partition].error_code
        }
        return any(
            state.leader == leader_of(source)
            and (state.topic, state.partition) in epochs
            and state.leader_epoch > epochs[TopicPartition(state.topic, state.partition)]
            for place, sent in self._told.get(follower, ())
            if index <= place < items[at][0]
            for state in sent.states
        )


def _since(items: Sequence[_Item], index: int) -> Iterator[_Item]:
    """Yield what was noted from an index on; each item begins with its own index."""
    for place in range(bisect_left(items, index, key=itemgetter(0)), len(items)):
        yield items[place]


def tells_leader(sent: ControlSent, state: PartitionState) -> bool:
    """Return whether a broker takes up a state: one that hears of no leader may go on as before.

    With ZooKeeper it changes its role, its leader and its leader epoch only if the new leader lives
    (kafka.server.ReplicaManager.makeFollowers, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0). With KRaft it
    steps down (applyLocalFollowersDelta, 3.3.2 and 4.1.2).
    """
    return state.leader != -1 or sent.api == METADATA_LOG
