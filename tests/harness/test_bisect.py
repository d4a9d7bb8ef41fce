"""Between which releases a bug came or went."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.model.releases.versions import RELEASED, Since, parse_version
from kchaos.checkers.run_line import FindingLine, RunLine
from kchaos.harness.campaign import bisection
from kchaos.harness.campaign.bisection import (
    Answers,
    Border,
    ReleaseSpan,
    borders,
    findings_of_bug,
    lines_between,
    scenario_for,
    shows_bug,
    span_of_builds,
    span_of_releases,
)
from kchaos.harness.commands.cli import run
from kchaos.harness.exits import MACHINE
from tests.support.run_lines import found


def bad_until(*fixed: str) -> Callable[[str], bool]:
    return lambda release: not Since(*fixed).includes(parse_version(release))


@pytest.mark.parametrize(
    ("fixed", "told"),
    [
        (("2.0.0",), [("1.1.1", "2.0.0")]),
        (("2.0.1",), [("2.0.0", "2.0.1")]),
        (("2.4.1", "2.5.0"), [("2.4.0", "2.4.1")]),
        (("2.2.1", "2.4.1", "2.5.0"), [("2.4.0", "2.4.1"), ("2.2.0", "2.2.1")]),
        (("1.1.1", "2.3.0"), [("2.2.2", "2.3.0"), ("1.1.0", "1.1.1")]),
    ],
)
def test_each_line_that_has_the_fix_is_named_with_its_first_release(
    fixed: tuple[str, ...], told: list[tuple[str, str]]
):
    lines = lines_between("1.0.0", "2.8.2")
    assert list(borders(lines, bad_until(*fixed))) == [
        Border(older=older, newer=newer, is_fix=True) for older, newer in told
    ]


def test_a_bug_that_came_is_told_as_such():
    came = Since("3.0.0")
    lines = lines_between("2.6.3", "3.9.1")
    (border,) = borders(lines, lambda release: came.includes(parse_version(release)))
    shown = {"2.8.2": (0, 1), "3.0.0": (1, 1)}
    told = "broken since 3.0.0: 2.8.2 shows it in 0 of 1 runs, 3.0.0 in 1 of 1"
    assert border.with_runs(shown) == told
    assert border.is_sure(shown)
    assert not border.is_sure(shown | {"3.0.0": (1, 2)})
    assert border.to_json()["first_bad"] == "3.0.0"


def test_few_releases_are_played():
    asked: list[str] = []
    is_bad = bad_until("2.0.0")

    def count(release: str) -> bool:
        if release not in asked:
            asked.append(release)
        return is_bad(release)

    list(borders(lines_between(RELEASED[0], RELEASED[-1]), count))
    assert len(asked) < len(RELEASED) / 3


def test_both_sides_of_a_border_are_played_again_and_counted():
    each = {"1.1.1": [True, True, False], "2.0.0": [False, False, False]}
    said: list[str] = []
    answers = Answers(lambda release: each[release].pop(0), say=said.append)
    border = Border(older="1.1.1", newer="2.0.0", is_fix=True)

    assert answers.is_bad("1.1.1")
    assert answers.confirmed(border, 3) == {"1.1.1": (2, 3), "2.0.0": (0, 3)}
    assert "2.0.0 does not show it" in said


def test_an_unknown_play_is_no_answer():
    answers = Answers(lambda _release: None, say=lambda _text: None)
    with pytest.raises(k.RunUnknown, match=r"2\.0\.0 was unknown"):
        answers.is_bad("2.0.0")


@pytest.mark.parametrize(
    ("name", "case", "kinds"),
    [
        ("kafka-14296", None, {"acknowledged-after-demotion"}),
        ("KAFKA-7164", "fetches-on", {"divergence", "truncated-below-high-watermark"}),
        ("KIP-380-upgrade-window", "two-rolls", set()),
    ],
)
def test_the_findings_of_a_bug_are_those_that_are_expected_where_it_is(
    name: str, case: str | None, kinds: set[str]
):
    assert findings_of_bug(name, case) == kinds


DEMOTED, LOSS = found("acknowledged-after-demotion"), found("committed-loss")


@pytest.mark.parametrize(
    ("safe", "findings", "kinds", "shows"),
    [
        (True, [DEMOTED], {"acknowledged-after-demotion"}, True),
        (True, [], {"acknowledged-after-demotion"}, False),
        (False, [LOSS], {"committed-loss", "divergence"}, True),
        (False, [LOSS], {"acknowledged-after-demotion"}, None),
        (False, [LOSS], set(), True),
        (True, [DEMOTED], set(), False),
        (None, [DEMOTED], {"acknowledged-after-demotion"}, None),
    ],
    ids=["conformance", "neither", "safety", "another", "file", "safe file", "unknown"],
)
def test_a_run_shows_a_bug_by_its_findings(
    safe: bool | None, findings: list[FindingLine], kinds: set[str], shows: bool | None
):
    assert shows_bug(RunLine(safe=safe, findings=tuple(findings)), frozenset(kinds)) is shows


def test_releases_with_kraft_alone_are_between_others():
    assert lines_between("3.9.2", "4.1.0") == [["3.9.2"], ["4.0.0", "4.0.1", "4.0.2"], ["4.1.0"]]


def test_releases_that_are_not_as_they_are_called_are_refused():
    answers = Answers(lambda release: release == "1.1.1", say=lambda _text: None)
    lines = [["1.1.1"], ["2.0.0"]]
    answers.require(ReleaseSpan(lines=lines, good="2.0.0", bad="1.1.1"))
    with pytest.raises(k.UsageError, match=r"--bad must name"):
        answers.require(ReleaseSpan(lines=lines, good="2.0.0", bad="2.0.0"))
    with pytest.raises(k.UsageError, match=r"--good must name"):
        answers.require(ReleaseSpan(lines=lines, good="1.1.1", bad="1.1.1"))
    with pytest.raises(k.UsageError, match=r"of 2\.0\.0 and 2\.0\.1 neither shows the bug"):
        answers.require(ReleaseSpan(lines=[["2.0.0", "2.0.1"]]))
    with pytest.raises(k.UsageError, match="both show the bug"):
        Answers(lambda _kafka: True, say=lambda _text: None).require(ReleaseSpan(lines=lines))


def test_a_scenario_is_of_the_release_that_is_played():
    scenario = scenario_for("kafka-6361", "n20", "1.1.1")
    assert {broker.kafka for broker in scenario.cluster.brokers} == {"1.1.1"}
    with pytest.raises(k.UsageError, match=r"name --case n15"):
        scenario_for("KAFKA-6361", None, "1.1.1")


def test_a_file_is_played_on_each_release_and_expects_nothing(tmp_path: Path):
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(scenario_for("KAFKA-6361", "n20", "1.1.1").to_json()))
    scenario = scenario_for(str(tmp_path), None, "2.0.1")
    assert scenario.release == "2.0.1"
    assert {broker.kafka for broker in scenario.cluster.brokers} == {"2.0.1"}
    assert scenario.expectation is None
    assert findings_of_bug(str(tmp_path), None) == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["KAFKA-6361", "--good", "2.0.1", "--bad", "1.1.1"], "name --case"),
        (["KAFKA-1", "--good", "2.0.1", "--bad", "1.1.1"], "no bug named"),
        (["KIP-101-2", "--good", "9.9.9", "--bad", "0.10.2.2"], "9.9.9"),
        (["KIP-501-min-isr", "--case", "no-such"], "name --good and --bad"),
        (["KIP-101-2", "--builds", "no-such-folder"], "no-such-folder is no folder of builds"),
        (["KIP-101-2", "--builds", "."], "has 0 builds of Kafka, and a border needs two"),
    ],
)
def test_bad_input_is_refused_before_a_cluster_starts(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    assert run(["bisect", *arguments, "--runs-dir", str(tmp_path)]) == 64
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_entry_says_between_which_releases_it_is_looked_for():
    span = span_of_releases("KIP-101-1", "clean-elections", None, good=None, bad=None)
    assert (span.bad, span.good) == ("0.10.2.2", "2.8.2")
    assert (span.lines[0], span.lines[-1][-1]) == (["0.10.2.2"], "2.8.2")
    span = span_of_releases("KIP-101-1", "clean-elections", None, good="0.11.0.0", bad=None)
    assert span.lines == [["0.10.2.2"], ["0.11.0.0"]]


def test_a_scenario_shows_the_bug_on_its_own_release():
    scenario = scenario_for("KAFKA-6361", "n20", "1.1.1")
    span = span_of_releases("a-file.json", None, scenario, good=None, bad=None)
    assert (span.bad, span.good) == ("1.1.1", RELEASED[-1])


def folder_of_builds(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name / "libs").mkdir(parents=True)
    (folder / "notes").mkdir()
    return folder


def test_builds_are_in_the_order_of_their_names_and_numbers(tmp_path: Path):
    folder = folder_of_builds(tmp_path, "build-10", "build-9", "build-2")
    (folder / "build-11.tgz").touch()
    order = ["build-2", "build-9", "build-10", "build-11.tgz"]

    (line,) = span_of_builds(folder, good=None, bad=None).lines
    assert [Path(build).name for build in line] == order
    span = span_of_builds(folder, good="build-10", bad="build-9")
    assert [Path(build).name for build in span.lines[0]] == ["build-9", "build-10"]
    assert (Path(span.good).name, Path(span.bad).name) == ("build-10", "build-9")
    with pytest.raises(k.UsageError, match="has no build build-3; it has build-2, "):
        span_of_builds(folder, good="build-3", bad=None)
    with pytest.raises(k.UsageError, match="good and bad are both build-2"):
        span_of_builds(folder, good="build-2", bad="build-2")


def test_a_build_that_is_unpacked_beside_its_archive_is_one_build(tmp_path: Path):
    folder = folder_of_builds(tmp_path, "kafka-3.9.0", "kafka-3.9.1")
    for archive in ("kafka-3.9.0.tgz", "kafka-3.9.1.tgz", "kafka-3.9.2.tgz"):
        (folder / archive).touch()

    span = span_of_builds(folder, good="kafka-3.9.1.tgz", bad="kafka-3.9.2")
    assert [Path(build).name for build in span.lines[0]] == ["kafka-3.9.1", "kafka-3.9.2.tgz"]
    assert (Path(span.good).name, Path(span.bad).name) == ("kafka-3.9.1", "kafka-3.9.2.tgz")
    with pytest.raises(k.UsageError, match=r"good and bad are both kafka-3\.9\.0"):
        span_of_builds(folder, good="kafka-3.9.0", bad="kafka-3.9.0.tgz")


def test_what_comes_before_a_release_is_older_than_it(tmp_path: Path):
    order = [
        "3.9.1",
        "4.0.0-SNAPSHOT",
        "4.0.0-rc2",
        "4.0.0-rc10",
        "4.0.0",
        "4.0.0-fix",
        "4.0.1-rc0",
    ]
    folder = folder_of_builds(tmp_path, *(f"kafka_2.13-{name}" for name in reversed(order)))

    (line,) = span_of_builds(folder, good=None, bad=None).lines

    assert [Path(build).name.removeprefix("kafka_2.13-") for build in line] == order


class Player(AbstractContextManager[Any]):
    """Plays nothing: answers by the name of the Kafka."""

    def __init__(self, is_bad: Callable[[str], bool]) -> None:
        self.is_bad = is_bad
        self.played: list[str] = []
        self.unread = ""
        self.warn: Callable[[str], None] = print

    def play(self, scenario: k.Scenario) -> RunLine:
        self.played.append(Path(scenario.release).name)
        if self.unread:
            self.warn(f"peers of {self.played[-1]} {self.unread}")
        is_bad = self.is_bad(self.played[-1])
        return RunLine(safe=not is_bad, findings=(LOSS,) if is_bad else (), run="runs/one")

    def stop(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is played beside no other test's."""
    monkeypatch.chdir(tmp_path)


def play_with(monkeypatch: pytest.MonkeyPatch, is_bad: Callable[[str], bool]) -> Player:
    player = Player(is_bad)

    def made(*, warn: Callable[[str], None], has_report: bool, **_options: Any) -> Player:
        assert not has_report
        player.warn = warn
        return player

    monkeypatch.setattr(bisection, "InThisProcess", made)
    of_build = SimpleNamespace(release="0.10.2.2")
    monkeypatch.setattr(bisection, "fetch", lambda *_, **__: of_build)
    return player


def test_each_border_is_told_with_its_first_good_one_and_how_often(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    player = play_with(monkeypatch, bad_until("0.11.0.2", "1.0.1"))
    arguments = ["bisect", "KIP-101-1", "--case", "clean-elections", "--good", "1.1.1"]

    assert run([*arguments, "--bad", "0.11.0.0", "--runs", "2"]) == 0

    borders = [
        "fixed in 1.0.1: 1.0.0 shows it in 2 of 2 runs, 1.0.1 in 0 of 2",
        "fixed in 0.11.0.2: 0.11.0.1 shows it in 2 of 2 runs, 0.11.0.2 in 0 of 2",
    ]
    # Each is progress when it is found; the last lines have all of them.
    captured = capsys.readouterr()
    assert captured.out.splitlines() == borders
    assert all(border in captured.err for border in borders)
    assert player.played.count("1.0.1") == 2


def test_builds_of_a_folder_are_bisected_and_the_first_bad_one_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    player = play_with(monkeypatch, lambda build: build in ("b10", "b11", "b12"))
    names = [f"b{number}" for number in range(1, 13)]
    folder = folder_of_builds(tmp_path, *names)
    arguments = ["bisect", "KIP-101-1", "--case", "clean-elections", "--builds", str(folder)]

    assert run([*arguments, "--runs", "3", "--json"]) == 0

    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert Path(line["first_bad"]).name == "b10"
    assert [*line["shown"].values()] == [[0, 3], [3, 3]]
    assert len({*player.played}) < len(names) / 2


def test_a_border_that_does_not_hold_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    answers = {"0.10.2.2": [True, True, False], "0.11.0.0": [False, False, False]}
    play_with(monkeypatch, lambda release: answers[release].pop(0))

    arguments = ["bisect", "KIP-101-1", "--case", "clean-elections", "--good", "0.11.0.0"]
    assert run([*arguments, "--bad", "0.10.2.2"]) == 1

    told = "fixed in 0.11.0.0: 0.10.2.2 shows it in 2 of 3 runs, 0.11.0.0 in 0 of 3"
    assert told in capsys.readouterr().out


def test_a_bisection_that_was_stopped_says_what_it_knows_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    player = play_with(monkeypatch, bad_until("1.0.1"))
    arguments = ["bisect", "KIP-101-1", "--case", "clean-elections", "--good", "1.1.1"]
    arguments += ["--bad", "0.11.0.0", "--runs", "1"]

    def play(scenario: k.Scenario) -> RunLine:
        if scenario.release not in ("1.1.1", "0.11.0.0"):
            raise k.MachineError("the disk is full")
        return Player.play(player, scenario)

    with monkeypatch.context() as broken:
        broken.setattr(player, "play", play)
        assert run(arguments) == MACHINE
    so_far = "0.11.0.0 shows it, 1.1.1 does not show it"
    assert f"so far: {so_far}; the same command goes on from there" in capsys.readouterr().err
    assert player.played == ["0.11.0.0", "1.1.1"]

    assert run(arguments) == 0
    captured = capsys.readouterr()
    assert f": {so_far}" in captured.err
    assert "fixed in 1.0.1: 1.0.0 shows it in 1 of 1 runs, 1.0.1 in 0 of 1" in captured.out
    assert len(player.played) == len({*player.played})
    assert [*tmp_path.glob("**/bisect-*")] == []


def test_every_kafka_of_a_bisection_is_fetched_before_the_first_run(
    monkeypatch: pytest.MonkeyPatch,
):
    player = play_with(monkeypatch, bad_until("1.0.1"))
    fetched: list[str] = []

    def fetch(kafka: str, **_: object) -> None:
        fetched.append(kafka)
        if kafka == "1.1.1":
            raise k.MachineError("the network is gone")

    monkeypatch.setattr(bisection, "fetch", fetch)
    arguments = ["KIP-101-1", "--case", "clean-elections", "--good", "1.1.1", "--bad", "0.11.0.3"]
    assert run(["bisect", *arguments]) == MACHINE
    assert fetched == ["0.11.0.3", "1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1"]
    assert player.played == []


def test_what_peers_cannot_read_is_said_once_for_each_kafka(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    player = play_with(monkeypatch, bad_until("0.11.0.0"))
    player.unread = "cannot read it"

    arguments = ["bisect", "KIP-101-1", "--case", "clean-elections", "--good", "0.11.0.0"]
    assert run([*arguments, "--bad", "0.10.2.2"]) == 0

    assert player.played.count("0.10.2.2") == 3
    said = capsys.readouterr().err
    assert said.count("peers of 0.10.2.2 cannot read it") == 1
    assert said.count("peers of 0.11.0.0 cannot read it") == 1
