"""Operations of a history: what a client sent and polled, and whether it knows how that ended."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Value = int | float | bool | str | None
"""Content of a record. In a history each value is sent to a key once."""
Outcome = Literal["ok", "fail", "info"]
Function = Literal["txn", "poll", "send", "assign", "subscribe"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A record that was sent.

    Attributes:
        key: The partition, by whatever name the history has for it.
        offset: At which it was acknowledged, or None where nobody said.
    """

    key: str
    value: Value
    offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """Records that one poll returned.

    Attributes:
        records: By key offsets and values, in the order in which they came.
        from_offsets: By key the offset from which it was asked to read. A key that is not in it
            was to be read from the beginning, by this poll or an earlier one.
    """

    records: Mapping[str, tuple[tuple[int | None, Value], ...]] = field(default_factory=dict)
    from_offsets: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOperation:
    """An operation that is over, or of which nobody heard again.

    Attributes:
        index: Its place among all that ended.
        process: Who did it; one process does one thing at a time.
        outcome: Done, certainly not done, or not known.
        actions: What it sent and polled, in order: a transaction, where it is more than one.
        keys: What an assign or a subscribe names.
        rebalanced: Keys that were given to or taken from the consumer meanwhile.
        commit_asked_at: The index of the first moment at which its records may be committed, or
            None where nobody knows.
        read_at: Where it stands, as "FILE:LINE".
    """

    index: int
    process: str
    outcome: Outcome
    function: Function
    actions: tuple[Send | Poll, ...] = ()
    keys: tuple[str, ...] = ()
    rebalanced: frozenset[str] = frozenset()
    commit_asked_at: int | None = None
    read_at: str = ""

    @property
    def sends(self) -> Iterator[Send]:
        """The values that it sent, in order."""
        return (action for action in self.actions if isinstance(action, Send))

    @property
    def polls(self) -> Iterator[Poll]:
        """Its polls, in order."""
        return (action for action in self.actions if isinstance(action, Poll))

    @property
    def writes(self) -> Mapping[str, list[Value]]:
        """By key the values that it sent, in order."""
        written: dict[str, list[Value]] = {}
        for send in self.sends:
            written.setdefault(send.key, []).append(send.value)
        return written

    @property
    def reads(self) -> Mapping[str, list[Value]]:
        """By key the values that its polls returned, in order."""
        read: dict[str, list[Value]] = {}
        for poll in self.polls:
            for key, records in poll.records.items():
                read.setdefault(key, []).extend(value for _, value in records)
        return read

    def __str__(self) -> str:
        """Return the place, for messages."""
        return self.read_at or f"operation {self.index}"


History = Sequence[HistoryOperation]
