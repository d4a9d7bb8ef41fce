"""Connections of clients: of each of them a broker reads one request after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from kchaos.checkers.model.follow.observations import ClientAnswered, Record
from kchaos.checkers.model.values.events import Produce

_Place = tuple[list[list[Produce]], int]
_ALONE: _Place = ([], 0)


class ClientConnections:
    """The produces of a record on each connection.

    Until a broker has answered a request it reads no other of that connection
    (kafka.network.SocketServer mutes the channel, 0.10.2.2, 1.1.1 and 2.8.2).
    """

    def __init__(self, record: Record) -> None:
        self._sent: dict[str, tuple[int, Produce]] = {}
        self._answered: dict[str, int] = {}
        self._acknowledged: set[str] = set()
        for index, item in enumerate(record.seen):
            if isinstance(item.what, Produce):
                self._sent[item.what.operation] = (index, item.what)
            elif isinstance(item.what, ClientAnswered):
                self._answered[item.what.operation] = index
                if item.what.outcome == "ok":
                    self._acknowledged.add(item.what.operation)
        self._behind: dict[str, tuple[str, ...]] = {}
        self._places: dict[str, _Place] = {}
        for operation, before in record.behind.items():
            if before:
                answered = tuple(other for other in before if other in self._acknowledged)
                self._behind[operation] = answered or self.behind(before[0])
                queue, place = self._places.get(before[0]) or self._put(before, ([], 0))
                self._put((operation,), (queue, place + 1))
        queues = {id(queue): queue for queue, _ in self._places.values()}
        self._following = {
            number: (_first_from(queue, bool), _first_from(queue, self._is_answered))
            for number, queue in queues.items()
        }

    def _put(self, operations: Iterable[str], place: _Place) -> _Place:
        """Put produces of one request at a place of a connection; return that."""
        queue, at = place
        if at == len(queue):
            queue.append([])
        for operation in operations:
            self._places[operation] = place
            if operation in self._sent:
                queue[at].append(self._sent[operation][1])
        return place

    def behind(self, operation: str) -> tuple[str, ...]:
        """Return the last acknowledged produces before this one on its connection."""
        return self._behind.get(operation, ())

    def is_queued(self, sent: Iterable[Produce], operation: str) -> bool:
        """Return whether one of some produces is in an earlier request of the same connection."""
        queue, place = self._places.get(operation, _ALONE)
        others = (self._places.get(produce.operation, _ALONE) for produce in sent)
        return any(other is queue and at < place for other, at in others)

    def _is_answered(self, sent: Sequence[Produce]) -> bool:
        return any(produce.operation in self._answered for produce in sent)

    def without(
        self,
        sent: Sequence[Produce],
        operation: str,
        index: int | None = None,
        *,
        with_unanswered: bool = False,
    ) -> tuple[Produce, ...]:
        """Return the produces that a broker may read next once one of them is gone.

        Those of the next request on its connection are among them if they were sent before an
        index, which is that of the answer to the produce where none is given. `with_unanswered`
        says that those requests behind it are gone too that nobody saw answered.
        """
        left = [produce for produce in sent if produce.operation != operation]
        until = self._answered[operation] if index is None else index
        queue, place = self._places.get(operation, _ALONE)
        others = (self._places.get(produce.operation, _ALONE) for produce in left)
        if not any(other is queue and at == place for other, at in others):
            following = self._following[id(queue)][with_unanswered][place + 1] if queue else ()
            came = [each for each in following if self._sent[each.operation][0] < until]
            if came:
                left = sorted([*left, *came], key=lambda each: self._sent[each.operation][0])
        return tuple(left)

    def waiting(self, sent: Iterable[Produce], index: int) -> Iterator[Produce]:
        """Yield produces that a broker may read next, and those queued behind, before an index."""
        for produce in sent:
            yield produce
            queue, place = self._places.get(produce.operation, _ALONE)
            for following in chain.from_iterable(queue[place + 1 :]):
                if self._sent[following.operation][0] >= index:
                    break
                yield following


def _first_from(
    queue: Sequence[list[Produce]], is_meant: Callable[[list[Produce]], bool]
) -> list[list[Produce]]:
    """Return for each place of a queue the first request meant from there on, if there is one."""
    first: list[list[Produce]] = [[]]
    for sent in reversed(queue):
        first.append(sent if is_meant(sent) else first[-1])
    return first[::-1]
