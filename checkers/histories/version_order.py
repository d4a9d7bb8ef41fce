"""In which order the values of each key are in its log, as far as a history shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kchaos.checkers.histories.operations import History, HistoryOperation, Send, Value

Values = Mapping[str, set[Value]]


@dataclass(slots=True)
class VersionOrder:
    """One key's log. An index counts the offsets at which a value was seen, without those between.

    Attributes:
        log: By offset the values that were seen there, in the order in which they came up. More
            than one is an inconsistency.
        offsets: The offset of each index.
        by_index: A value of each index: the first that came up.
        by_value: The last index of each of these values.
        first_index: The first index at which a value was seen, also beside another.
        last_index: The last such.
    """

    log: dict[int, list[Value]] = field(default_factory=dict)
    offsets: list[int] = field(default_factory=list)
    by_index: list[Value] = field(default_factory=list)
    by_value: dict[Value, int] = field(default_factory=dict)
    first_index: dict[Value, int] = field(default_factory=dict)
    last_index: dict[Value, int] = field(default_factory=dict)

    def note(self, offset: int | None, value: Value) -> None:
        """Note that a value is at an offset, if that is known."""
        if offset is not None:
            values = self.log.setdefault(offset, [])
            if value not in values:
                values.append(value)

    def count(self) -> None:
        """Give each offset its index, when all is noted."""
        for index, offset in enumerate(sorted(self.log)):
            self.offsets.append(offset)
            self.by_index.append(self.log[offset][0])
            self.by_value[self.log[offset][0]] = index
            for value in self.log[offset]:
                self.first_index.setdefault(value, index)
                self.last_index[value] = index

    def distance(self, before: Value, after: Value) -> int:
        """Return the number of indexes from one value to another; 1 if it is unknown."""
        if before in self.by_value and after in self.by_value:
            return self.by_value[after] - self.by_value[before]
        return 1


def version_orders(history: History, read: Values) -> Mapping[str, VersionOrder]:
    """Return the order of each key's values.

    What was sent counts only if it is certain to be there. What a poll returned counts always: a
    consumer gets what is committed, whatever becomes of its own transaction.

    `read` has by key all values read by operations that are known to be done.
    """
    orders: dict[str, VersionOrder] = {}
    for operation in history:
        is_there = is_committed(operation, read)
        for action in operation.actions:
            if isinstance(action, Send):
                if is_there:
                    orders.setdefault(action.key, VersionOrder()).note(action.offset, action.value)
                continue
            for key, records in action.records.items():
                order = orders.setdefault(key, VersionOrder())
                for offset, value in records:
                    order.note(offset, value)
    for order in orders.values():
        order.count()
    return orders


def is_committed(operation: HistoryOperation, read: Values) -> bool:
    """Return whether an operation's sends are certain to be there: done, or read."""
    if operation.outcome == "info":
        return any(send.value in read.get(send.key, ()) for send in operation.sends)
    return operation.outcome == "ok"


def values_read(operations: Iterable[HistoryOperation]) -> Values:
    """Return by key all values read by operations that are known to be done."""
    read: dict[str, set[Value]] = {}
    for operation in operations:
        if operation.outcome == "ok":
            for key, values in operation.reads.items():
                read.setdefault(key, set()).update(values)
    return read
