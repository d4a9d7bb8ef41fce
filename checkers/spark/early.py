"""Judging while Spark starts: processes of our own take the first runs, Spark takes the rest.

The start takes some seconds, in which two cores are idle for more than half of their time. The
processes are copies of this one, so that they import nothing and hold up no call to the JVM.
"""

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import Synchronized
from typing import Self

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.errors import SparkError
from kchaos.checkers.spark.tasks import Run, Share, Told

Judging = Callable[[Share], Iterable[Told]]
"""Function that judges runs and yields what is to be told of them; it ends when the runs do."""

_ALL = -1
_LOOK_S = 0.25


class EarlyJudge:
    """A process that judges one run after another, until the rest is taken from it.

    Use as a context manager: at its end there is no process left, however it ends. Where there are
    several, each is entered before the next one is made, and no two share a run or a number.
    """

    def __init__(self, number: int, runs: Sequence[Run], judging: Judging) -> None:
        context = multiprocessing.get_context("fork")
        self._number = number
        self._runs = runs
        self._judging = judging
        self._taken: Sequence[Run] | None = None
        self._told: Sequence[Told] | None = None
        self._begun = context.Value("q", 0)
        self._here, self._there = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_judge,
            args=(judging, number, runs, self._begun, self._there, dying_with_parent()),
            name="early judge",
            daemon=True,
        )

    def __enter__(self) -> Self:
        self._process.start()
        self._there.close()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._here.close()

    def take_rest(self) -> Sequence[Run]:
        """The runs that it has not begun; it begins none of them any more.

        Raises:
            SparkError: It could not write what it judged, and has ended.
        """
        lock = self._begun.get_lock()
        # A process that was killed with the lock never gives it back.
        while not (is_ours := lock.acquire(timeout=_LOOK_S)) and self._process.is_alive():
            pass
        begun = self._begun.get_obj()
        number, begun.value = begun.value, _ALL
        if is_ours:
            lock.release()
        self._taken = self._runs[:number]
        if self._here.poll():
            self._told = self._received()
        return self._runs[number:]

    def told(self) -> Sequence[Told]:
        """Return the results of the runs that it took, once the last of them is judged.

        Where the process was ended before, those runs are judged again here, into the same files.

        Raises:
            SparkError: It could not write what it judged.
        """
        taken = self._taken
        assert taken is not None, "told before the rest was taken"
        told = self._received() if self._told is None else self._told
        if told is None:
            return [*self._judging((self._number, taken))] if taken else []
        return told

    def _received(self) -> Sequence[Told] | None:
        """Its results, once it has them all; None where it was ended before."""
        try:
            failure, told = self._here.recv()
        except (EOFError, OSError):
            # The latter is half an answer.
            return None
        if failure:
            raise SparkError(f"a process that judges while Spark starts failed: {failure}")
        return list(told)


def _judge(
    judging: Judging,
    number: int,
    runs: Sequence[Run],
    begun: "Synchronized[int]",
    there: Connection,
    die_with_parent: Callable[[], None],
) -> None:
    die_with_parent()
    gc.freeze()  # As in Spark's daemon.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent ends this process.
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, signal.SIG_DFL)
    try:
        told = [*judging((number, _not_begun(runs, begun)))]
    except Exception as error:  # noqa: BLE001 - the parent raises it
        there.send((repr(error), ()))
    else:
        there.send(("", told))


def _not_begun(runs: Sequence[Run], begun: "Synchronized[int]") -> Iterator[Run]:
    """Yields runs in order and counts them, until somebody else has taken the rest."""
    for number, run in enumerate(runs):
        with begun.get_lock():
            if begun.value == _ALL:
                return
            begun.value = number + 1
        yield run
