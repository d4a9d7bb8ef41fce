"""One of several processes that explore together: expands its part and answers for its keys."""

import signal
import sys
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from operator import itemgetter
from typing import Any

from kchaos.studies.explorer.errors import ExplorerError
from kchaos.studies.explorer.part import Broken, Candidate, StateSpacePart, owner

# Levels for which a process remembers what it has asked for: most states that are found again are
# found at once or a level later, and asking twice does no harm.
_LEVELS_REMEMBERED = 2
NO_MEMORY = 3
"""The exit code of a process that got no more memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """Progress of a process, as its `StateSpacePart` tells it."""

    generated: int
    distinct: int
    runs: int
    remaining: int
    has_next: bool
    broken: Broken | None
    memory_mib: float


def work(
    part: StateSpacePart,
    number: int,
    count: int,
    there: Connection,
    parents_ends: Sequence[Connection],
) -> None:
    """Be part `number` of so many until the other end of the connection is closed.

    Args:
        part: A copy of what has been explored so far.
        number: Which part this is, from 0.
        count: How many there are.
        there: Brings questions and takes answers, each a pair of a failure or "" and the answer.
        parents_ends: The parent's connections that this process has got with the fork. Held open
            here, they would hide from the others that the parent has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends this process.
    for connection in parents_ends:
        connection.close()
    member = _Member(part, number, count)
    while True:
        try:
            question = there.recv()
        except EOFError:
            return  # The parent has ended, and nobody wants an answer.
        try:
            answer = member.answer(question)
        except ExplorerError as error:
            there.send((str(error), None))
        except MemoryError:
            sys.exit(NO_MEMORY)
        else:
            there.send(("", answer))


_place = itemgetter(2)


class _Member:
    def __init__(self, part: StateSpacePart, number: int, count: int) -> None:
        part.take_share(number, count)
        self._part = part
        self._number = number
        self._count = count
        self._candidates: list[list[Candidate]] = []
        self._asked = deque([array("Q")])

    def answer(self, question: tuple[Any, ...]) -> Any:
        """Do what is asked, and return the answer."""
        match question:
            case ("expand",):
                return self._expand()
            case ("claim", asked):
                return [self._claim(sender, keys) for sender, keys in enumerate(asked)]
            case ("keep", answers, most):
                self._keep(answers, most)
            case ("descend",):
                self._descend()
            case ("way", broken):
                return self._part.way(broken)
        return self._status()

    def _expand(self) -> list[bytes]:
        """Return for each other process the keys of found states that it may know."""
        self._candidates = [[] for _ in range(self._count)]
        for candidate in self._part.expand():
            self._candidates[owner(candidate[0], self._count)].append(candidate)
        asked = []
        for number, candidates in enumerate(self._candidates):
            keys = array("Q")
            if number != self._number:
                keys.extend(key for key, _, _, _ in candidates)
                self._asked[-1].extend(keys)
            asked.append(keys.tobytes())
        return asked

    def _claim(self, sender: int, asked: bytes) -> bytes:
        """Return a 1 for each key of this process that is new, else a 0."""
        if sender == self._number:
            return b"\x01" * len(self._candidates[sender])  # `expand` found these to be new.
        keys = array("Q")
        keys.frombytes(asked)
        known = self._part.known
        answer = bytearray(len(keys))
        for place, key in enumerate(keys):
            if key not in known:
                known.add(key)
                answer[place] = 1
        return bytes(answer)

    def _keep(self, answers: Sequence[bytes], most: int) -> None:
        kept = [
            candidate
            for candidates, answer in zip(self._candidates, answers, strict=True)
            for candidate, is_new in zip(candidates, answer, strict=True)
            if is_new
        ]
        kept.sort(key=_place)  # States in a row are alike, which is good for caches.
        self._part.keep(kept[:most])

    def _descend(self) -> None:
        self._part.descend()
        self._asked.append(array("Q"))
        if len(self._asked) > _LEVELS_REMEMBERED:
            self._part.known.difference_update(self._asked.popleft())

    def _status(self) -> MemberStatus:
        part = self._part
        return MemberStatus(
            generated=part.generated,
            distinct=part.distinct,
            runs=part.runs,
            remaining=part.remaining,
            has_next=part.has_next,
            broken=part.broken,
            memory_mib=part.memory_mib(),
        )
