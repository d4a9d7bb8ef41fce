"""Judgement in plain Python while Spark starts, without Spark."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from kchaos.checkers.errors import SparkError
from kchaos.checkers.spark.early import EarlyJudge, Judging
from kchaos.checkers.spark.tasks import Run, Share, Told

RUNS = [(number, f"/nowhere/{number}") for number in range(4)]


def one_at_a_time(gate: Connection, runs: Iterable[Run]) -> Iterator[Told]:
    """Tells through the gate which run is begun, waits there, and leaves each run alone."""
    for position, _ in runs:
        gate.send((os.getpid(), position))
        gate.recv()
        yield position


@pytest.fixture
def gate() -> Iterator[tuple[Connection, Connection]]:
    ours, theirs = multiprocessing.get_context("fork").Pipe()
    with ours, theirs:
        yield ours, theirs


def judge_of(gate: tuple[Connection, Connection]) -> EarlyJudge:
    return EarlyJudge(0, RUNS, lambda share: one_at_a_time(gate[1], share[1]))


def test_each_run_is_begun_here_or_left_to_who_takes_the_rest(
    gate: tuple[Connection, Connection],
) -> None:
    with judge_of(gate) as judge:
        assert gate[0].recv()[1] == 0
        gate[0].send("go on")
        assert gate[0].recv()[1] == 1
        # The second one is still judged: nobody waits for it here.
        assert judge.take_rest() == RUNS[2:]
        gate[0].send("go on")
        assert judge.told() == [0, 1]


def test_nothing_is_left_where_all_are_begun_before(gate: tuple[Connection, Connection]) -> None:
    with judge_of(gate) as judge:
        for _ in RUNS:
            gate[0].recv()
            gate[0].send("go on")
        assert judge.take_rest() == []
        assert judge.told() == [0, 1, 2, 3]


def test_no_process_is_left_where_the_block_is_interrupted(
    gate: tuple[Connection, Connection],
) -> None:
    def interrupted() -> None:
        with judge_of(gate):
            children.append(gate[0].recv()[0])
            # A terminal sends it to both; the parent decides.
            os.kill(children[0], signal.SIGINT)
            raise KeyboardInterrupt

    children: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not Path(f"/proc/{children[0]}").exists()


def test_the_end_of_a_process_is_seen_while_another_still_judges() -> None:
    parent = os.getpid()

    def judging(gate: Connection) -> Judging:
        def judge(share: Share) -> Iterator[Told]:
            if os.getpid() != parent:
                return one_at_a_time(gate, share[1])
            return (position for position, _ in share[1])

        return judge

    pipe = multiprocessing.get_context("fork").Pipe
    (ours, theirs), (others, of_others) = pipe(), pipe()
    with (
        EarlyJudge(0, RUNS[:2], judging(theirs)) as first,
        EarlyJudge(1, RUNS[2:], judging(of_others)) as second,
    ):
        pid, _ = ours.recv()
        os.kill(pid, signal.SIGKILL)
        assert first.take_rest() == RUNS[1:2]
        assert first.told() == [0]
        others.recv()
        assert second.take_rest() == RUNS[3:]
        others.send("go on")
        assert second.told() == [2]


@pytest.mark.parametrize("when", ["before", "after"])
def test_runs_of_a_process_that_is_ended_are_judged_again_and_the_rest_is_left(
    when: str, gate: tuple[Connection, Connection]
) -> None:
    parent = os.getpid()

    def judging(share: Share) -> Iterator[Told]:
        number, runs = share
        assert number == 7
        if os.getpid() != parent:
            yield from one_at_a_time(gate[1], runs)
        else:
            yield from (position for position, _ in runs)

    with EarlyJudge(7, RUNS, judging) as judge:
        pid, _ = gate[0].recv()
        gate[0].send("go on")
        gate[0].recv()
        if when == "before":
            os.kill(pid, signal.SIGKILL)
            judge._process.join()
        assert judge.take_rest() == RUNS[2:]
        if when == "after":
            os.kill(pid, signal.SIGKILL)
        assert judge.told() == [0, 1]


@pytest.mark.slow
def test_the_rest_is_taken_from_a_process_that_was_killed_with_the_lock() -> None:
    def with_the_lock(_: Share) -> Iterator[Told]:
        (judge,) = judges
        judge._begun.get_lock().acquire()
        os.kill(os.getpid(), signal.SIGKILL)
        yield from ()

    judges: list[EarlyJudge] = []
    judges.append(EarlyJudge(0, RUNS, with_the_lock))
    with judges[0] as judge:
        judge._process.join()
        taken: list[Sequence[Run]] = []
        taker = threading.Thread(target=lambda: taken.append(judge.take_rest()), daemon=True)
        taker.start()
        taker.join(timeout=60)
        assert taken == [RUNS]
        assert judge.told() == []


def full(gate: Connection) -> Iterator[Told]:
    """Judging that waits at the gate, and then finds no space on the disk."""
    gate.recv()
    yield from ()
    raise OSError(28, "No space left on device")


def test_what_it_cannot_write_is_an_error_and_no_result(
    gate: tuple[Connection, Connection],
) -> None:
    with EarlyJudge(0, RUNS, lambda _: full(gate[1])) as judge:
        judge.take_rest()
        gate[0].send("go on")
        with pytest.raises(SparkError, match="No space left"):
            judge.told()


def test_no_task_waits_in_vain_for_a_process_that_has_failed_before(
    gate: tuple[Connection, Connection],
) -> None:
    gate[0].send("go on")
    with EarlyJudge(0, RUNS, lambda _: full(gate[1])) as judge:
        judge._process.join()
        with pytest.raises(SparkError, match="No space left"):
            judge.take_rest()


@pytest.mark.parametrize(
    ("daemon", "threads", "most", "shares"),
    [
        (False, 1, 2, ["ac", "b"]),
        (False, 1, 1, ["abc"]),
        (False, 1, 0, []),
        (True, 1, 2, []),
        (False, 2, 2, []),
    ],
)
def test_a_process_that_is_daemonic_or_has_threads_is_not_copied(
    daemon: bool,
    threads: int,
    most: int,
    shares: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pyspark = pytest.importorskip("pyspark")
    from kchaos.checkers.spark import job

    ours, theirs = multiprocessing.get_context("fork").Pipe()
    of_a_job = {"whole_bytes": 1, "part_bytes": 1, "patience": 1}
    work = job._Work(
        places=[tmp_path / name for name in "abc"],
        tables=tmp_path / "out",
        log=tmp_path / "log",
        **of_a_job,
    )

    def start() -> None:
        is_over = threading.Event()
        others = [threading.Thread(target=is_over.wait) for _ in range(threads - 1)]
        for other in others:
            other.start()
        try:
            with job._early(work, "local[2]", most) as made:
                theirs.send([[place for _, place in judge._runs] for judge in made])
        finally:
            is_over.set()
            theirs.close()

    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    process = multiprocessing.get_context("fork").Process(target=start, daemon=daemon)
    process.start()
    theirs.close()
    with ours:
        assert ours.recv() == [[str(tmp_path / name) for name in share] for share in shares]
    process.join()


@pytest.mark.parametrize(
    ("master", "environment", "cores"),
    [
        ("local[3]", {}, 3),
        ("local[3, 4]", {}, 3),
        ("local", {}, 1),
        ("local[*]", {}, len(os.sched_getaffinity(0))),
        ("spark://host:7077", {}, 0),
        (None, {}, len(os.sched_getaffinity(0))),
        (None, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, 0),
        (None, {"SPARK_CONF_DIR": "/"}, 0),
        ("local[2]", {"PYSPARK_GATEWAY_PORT": "1"}, 0),
    ],
)
def test_spark_starts_on_cores_of_this_machine_unless_something_may_say_otherwise(
    master: str | None, environment: dict[str, str], cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    from kchaos.checkers.spark.context import threads_of_start

    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    assert threads_of_start(master) == cores
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", object())
    assert threads_of_start(master) == 0
