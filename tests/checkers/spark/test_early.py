"""Judgement in plain Python while Spark starts, without Spark."""

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from kchaos.checkers.errors import SparkError
from kchaos.checkers.spark.early import EarlyJudge
from kchaos.checkers.spark.tasks import Run, Told

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
    return EarlyJudge(RUNS, lambda runs: one_at_a_time(gate[1], runs))


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
        assert judge.told() == [0, 1, 2, 3]
        assert judge.take_rest() == []


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


def test_a_process_that_is_ended_is_an_error_and_no_result(
    gate: tuple[Connection, Connection],
) -> None:
    with judge_of(gate) as judge:
        pid, _ = gate[0].recv()
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(SparkError, match="ended with code -9"):
            judge.told()


def test_what_it_cannot_write_is_an_error_and_no_result() -> None:
    def full(runs: Iterable[Run]) -> Iterator[Told]:
        yield from ()
        raise OSError(28, "No space left on device")

    with EarlyJudge(RUNS, full) as judge, pytest.raises(SparkError, match="No space left"):
        judge.told()


@pytest.mark.parametrize(
    ("master", "environment", "here"),
    [
        ("local[2]", {}, True),
        ("spark://host:7077", {}, False),
        (None, {}, True),
        (None, {"PYSPARK_SUBMIT_ARGS": "--master yarn pyspark-shell"}, False),
        (None, {"SPARK_CONF_DIR": "/"}, False),
        ("local[2]", {"PYSPARK_GATEWAY_PORT": "1"}, False),
    ],
)
def test_spark_starts_here_unless_something_may_say_otherwise(
    master: str | None, environment: dict[str, str], here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyspark = pytest.importorskip("pyspark")
    from kchaos.checkers.spark.context import starts_here

    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    assert starts_here(master) is here
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", object())
    assert starts_here(master) is False
