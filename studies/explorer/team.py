"""Several processes that explore one state space together, level by level.

Each process expands the states that it found first, and answers for the keys that are its own: a
state that another one finds belongs to the finder if the owner of its key has not met it. So only
keys cross from process to process, never values, and a trace lies within one process. All begin as
copies of the process that found the first levels. What they say goes through that one, which
explores nothing itself, so that no two ever wait for each other.
"""

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, Self

from kchaos.studies.explorer.errors import ProcessError, RuleError
from kchaos.studies.explorer.member import NO_MEMORY, MemberStatus, work
from kchaos.studies.explorer.memory import resident_mib
from kchaos.studies.explorer.part import Broken, StateSpacePart

_SECONDS_TO_END = 10


class Team:
    """Processes that go on from where a part is; whoever explores sees a `StateSpacePart`.

    Use as a context manager: at its end there is no process left, however it ends.
    """

    def __init__(self, part: StateSpacePart, count: int) -> None:
        self._part = part
        self._before = part.generated, part.distinct
        self._processes: list[ForkProcess] = []
        self._connections: list[Connection] = []
        self._statuses: list[MemberStatus] = []
        self._count = count

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("fork")
        try:
            for number in range(self._count):
                here, there = context.Pipe()
                self._connections.append(here)
                process = context.Process(
                    target=work,
                    args=(self._part, number, self._count, there, tuple(self._connections)),
                    name=f"explorer {number}",
                    daemon=True,
                )
                self._processes.append(process)
                process.start()
                there.close()
            self._statuses = self._ask_all([("status",)] * self._count)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes; they have nothing to tidy up."""
        for process in self._processes:
            if process.pid is not None:
                process.kill()
                process.join()
        for connection in self._connections:
            connection.close()

    @property
    def generated(self) -> int:
        """Number of states that were found, each counted as often as it was found."""
        return self._before[0] + sum(status.generated for status in self._statuses)

    @property
    def distinct(self) -> int:
        """Number of states that were kept."""
        return self._before[1] + sum(status.distinct for status in self._statuses)

    @property
    def runs(self) -> int:
        """Number of times that a body has run; before the processes began, once for all of them."""
        before = self._part.runs
        return before + sum(status.runs - before for status in self._statuses)

    @property
    def remaining(self) -> int:
        """Number of states of this level that are still to be expanded."""
        return sum(status.remaining for status in self._statuses)

    @property
    def has_next(self) -> bool:
        """Whether the next level has states already."""
        return any(status.has_next for status in self._statuses)

    @property
    def broken(self) -> Broken | None:
        """Among the kept states that break an invariant, the one with the least key."""
        return min(
            (status.broken for status in self._statuses if status.broken is not None),
            key=lambda broken: broken.key,
            default=None,
        )

    def memory_mib(self) -> float:
        """Return how much memory all hold; what they share counts for each."""
        return resident_mib() + sum(status.memory_mib for status in self._statuses)

    def round(self, room: int) -> bool:
        """Expand some states and keep what is new; return whether that was more than the room."""
        count = range(self._count)
        asked = self._ask_all([("expand",)] * self._count)
        answered = self._ask_all(
            [("claim", [asked[sender][owner] for sender in count]) for owner in count]
        )
        new_by_finder = [sum(sum(answered[owner][finder]) for owner in count) for finder in count]
        kept: list[int] = []
        for finder in count:
            kept.append(min(new_by_finder[finder], room - sum(kept)))
        self._statuses = self._ask_all(
            [
                ("keep", [answered[owner][finder] for owner in count], kept[finder])
                for finder in count
            ]
        )
        return sum(new_by_finder) > room

    def descend(self) -> bool:
        """Go on with the next level; return whether it has any states."""
        self._statuses = self._ask_all([("descend",)] * self._count)
        return self.remaining > 0

    def way(self, broken: Broken) -> list[int]:
        """Return the places of the moves that lead to a state that breaks an invariant."""
        number = [status.broken for status in self._statuses].index(broken)
        self._send(number, ("way", broken))
        way: list[int] = self._receive(number)
        return way

    def _ask_all(self, questions: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Ask each process something and return the answers in the order of the processes."""
        for number, question in enumerate(questions):
            self._send(number, question)
        numbers = {id(each): number for number, each in enumerate(self._connections)}
        answers: dict[int, Any] = {}
        while len(answers) < self._count:
            open_ones = [c for c in self._connections if numbers[id(c)] not in answers]
            for ready in wait(open_ones):
                number = numbers[id(ready)]
                answers[number] = self._receive(number)
        return [answers[number] for number in range(self._count)]

    def _send(self, number: int, question: tuple[Any, ...]) -> None:
        try:
            self._connections[number].send(question)
        except BrokenPipeError as error:
            raise self._ended(number) from error

    def _receive(self, number: int) -> Any:
        try:
            failure, answer = self._connections[number].recv()
        except (EOFError, ConnectionResetError) as error:
            raise self._ended(number) from error
        if failure:
            raise RuleError(failure)
        return answer

    def _ended(self, number: int) -> ProcessError:
        process = self._processes[number]
        process.join(_SECONDS_TO_END)
        code = process.exitcode
        how = "is still ending" if code is None else f"has ended with exit code {code}"
        if code == NO_MEMORY:
            how = "got no more memory"
        elif code is not None and code < 0:
            how = f"was ended by {signal.Signals(-code).name}"
        status = self._statuses[number] if self._statuses else None
        held = f"; last it held {status.memory_mib:.0f} MiB" if status else ""
        return ProcessError(
            f"process {process.pid}, which explored part {number} of {self._count}, {how}{held}; "
            "if the machine has no memory left, bound it (--memory) or take fewer processes"
        )
