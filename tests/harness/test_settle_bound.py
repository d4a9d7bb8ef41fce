"""For how long nothing may change follows from the time-outs, or is set by a command."""

from pathlib import Path
from typing import Any

import pytest

from kchaos.harness.campaign.children import Children
from kchaos.harness.commands.cli import run
from kchaos.harness.gates.settled import settle_bound
from kchaos.harness.run.runner import RunOptions

QUICK = {
    "controller.socket.timeout.ms": "1000",
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "1000",
    "zookeeper.session.timeout.ms": "6000",
}


def test_the_bound_outlasts_the_longest_time_out_of_any_broker():
    slow = QUICK | {"controller.socket.timeout.ms": "40000"}
    bound = settle_bound([QUICK, slow])
    assert (bound.seconds, bound.needed_s) == (60, 60)
    assert bound.source == "1.5 times the longest time-out, controller.socket.timeout.ms=40000"


@pytest.mark.parametrize("name", list(QUICK))
def test_every_time_out_counts_and_so_does_kafka_s_default_of_it(name: str):
    others = {key: value for key, value in QUICK.items() if key != name}
    assert settle_bound([others]).seconds > settle_bound([QUICK]).seconds
    assert settle_bound([others | {name: "80000"}]).seconds == 120


def test_with_short_time_outs_there_is_a_least_bound():
    bound = settle_bound([QUICK])
    assert (bound.seconds, bound.source[:18]) == (20, "the least there is")


def test_a_bound_that_was_set_says_what_the_time_outs_need():
    bound = settle_bound([{}], 5)
    assert (bound.seconds, bound.needed_s) == (5, 45)
    assert bound.source == "set for this run; its brokers' time-outs need 45 s"


@pytest.mark.parametrize(
    "command",
    [
        ("reproduce", "KAFKA-6361"),
        ("replay", "run"),
        ("measure",),
        ("chaos", "--kafka", "1.1.1"),
        ("shrink", "run"),
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_plays_takes_a_bound_and_refuses_nonsense(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    for seconds in ("0", "-3", "nan", "inf", "soon"):
        assert run([*command, f"--settle-bound={seconds}"]) == 64, seconds
        assert "--settle-bound" in capsys.readouterr().err, seconds


def test_a_bound_that_was_set_reaches_the_scenario_and_the_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    taken: list[RunOptions] = []

    def play(_scenario: Any, *, options: RunOptions, **_said: Any) -> None:
        taken.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("kchaos.harness.campaign.campaign.play", play)
    in_turn = "--side-by-side=1"
    command = ["reproduce", "KAFKA-6361", in_turn, "--offline", f"--runs-dir={tmp_path}"]
    assert run([*command, "--settle-bound=90"]) == 130
    monkeypatch.setenv("KCHAOS_SETTLE_BOUND", "70")
    assert run(command) == 130
    assert [each.settle_bound_s for each in taken] == [90, 70]

    words = Children(options=taken[0], work=tmp_path)._arguments(tmp_path / "1.json")
    assert words[words.index("--settle-bound") + 1] == "90.0"
