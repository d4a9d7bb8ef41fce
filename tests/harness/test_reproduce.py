"""Plays of `kchaos reproduce`: their order, and how progress is told."""

from pathlib import Path

import pytest

from kchaos.clusters.errors import ReleaseError
from kchaos.harness.catalogue import CATALOGUE, entry_named, scenario_of, with_brokers
from kchaos.harness.commands.cli import run
from kchaos.harness.commands.reproduce import reproduce, time_left
from kchaos.harness.run.runner import RunOptions


@pytest.mark.parametrize(
    ("spent_s", "done", "wanted", "told"),
    [
        (0.0, 0, 8, ""),
        (12.0, 1, 1, ""),
        (12.0, 1, 4, " (about 36 s left)"),
        (60.0, 2, 8, " (about 3 min left)"),
    ],
)
def test_the_time_left_is_told_once_something_is_done(
    spent_s: float, done: int, wanted: int, told: str
) -> None:
    assert time_left(spent_s, done, wanted) == told


def test_an_unknown_release_is_refused_before_the_first_cluster_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_named: object) -> None:
        raise AssertionError("a cluster was started")

    monkeypatch.setattr("kchaos.harness.commands.reproduce.play", refuse)
    with pytest.raises(ReleaseError, match=r"7\.0\.0"):
        reproduce(
            entry_named("KAFKA-6361"),
            cases=(),
            kafkas=("1.1.1", "7.0.0"),
            runs=1,
            judged_as=None,
            options=RunOptions(runs_directory=tmp_path),
            say=lambda _text: None,
            done=lambda _played: None,
        )


def test_single_brokers_of_an_entry_may_run_another_release() -> None:
    plain = scenario_of(CATALOGUE["KAFKA-6361"], "n20", "1.1.1")
    assert plain.expectation is not None
    mixed = with_brokers(plain, {1: "2.0.1"})
    kafkas = {broker.id: broker.kafka for broker in mixed.cluster.brokers}
    assert kafkas == {0: "1.1.1", 1: "2.0.1", 2: "1.1.1"}
    assert mixed.expectation is None
    assert mixed.steps == plain.steps


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (["7=2.0.1"], "KAFKA-6361 n20 has no broker 7; its brokers are 0, 1, 2"),
        (["x=2.0.1"], "'x=2.0.1' is not like 1=2.0.1"),
        (["1="], "'1=' is not like 1=2.0.1"),
        (["1=2.0.1", "1=1.1.1"], "broker 1 is named twice"),
        (["1=9.0.0"], "'9.0.0' is no known Kafka release"),
    ],
)
def test_a_mixed_cluster_that_cannot_be_is_refused_before_one_starts(
    tmp_path: Path, named: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    brokers = [word for value in named for word in ("--broker", value)]
    command = ["reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1", *brokers]
    assert run([*command, "--runs-dir", str(tmp_path / "runs")]) == 64
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
