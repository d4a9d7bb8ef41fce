"""Between which releases a bug came or went."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kchaos.checkers.findings import Finding
from kchaos.checkers.model.releases.versions import RELEASED, Since, parse_version
from kchaos.checkers.results import Results
from kchaos.harness.commands.bisect import (
    Border,
    Plays,
    borders,
    findings_of_bug,
    lines_between,
    scenario_for,
    shows_bug,
)
from kchaos.harness.commands.cli import run
from kchaos.harness.errors import RunUnknown, UsageError


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
) -> None:
    lines = lines_between("1.0.0", "2.8.2")
    assert list(borders(lines, bad_until(*fixed))) == [
        Border(older=older, newer=newer, is_fix=True) for older, newer in told
    ]


def test_a_bug_that_came_is_told_as_such() -> None:
    came = Since("3.0.0")
    lines = lines_between("2.6.3", "3.9.1")
    (border,) = borders(lines, lambda release: came.includes(parse_version(release)))
    assert str(border) == "came: 2.8.2 does not show it, 3.0.0 does"


def test_few_releases_are_played() -> None:
    asked: list[str] = []
    is_bad = bad_until("2.0.0")

    def count(release: str) -> bool:
        if release not in asked:
            asked.append(release)
        return is_bad(release)

    list(borders(lines_between(RELEASED[0], RELEASED[-1]), count))
    assert len(asked) < len(RELEASED) / 3


def test_both_sides_of_a_border_are_played_again_and_counted() -> None:
    answers = {"1.1.1": [True, True, False], "2.0.0": [False, False, False]}
    said: list[str] = []
    plays = Plays(lambda release: answers[release].pop(0), say=said.append)
    border = Border(older="1.1.1", newer="2.0.0", is_fix=True)

    assert plays.is_bad("1.1.1")
    assert plays.confirmed(border, 3) == {"1.1.1": "2 of 3", "2.0.0": "3 of 3"}
    assert "2.0.0 does not show it" in said


def test_an_unknown_play_is_no_answer() -> None:
    plays = Plays(lambda _release: None, say=lambda _text: None)
    with pytest.raises(RunUnknown, match=r"2\.0\.0 was unknown"):
        plays.is_bad("2.0.0")


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
) -> None:
    assert findings_of_bug(name, case) == kinds


DEMOTED = Finding(
    kind="acknowledged-after-demotion", message="", topic="t", partition=0, brokers=(0,)
)
LOSS = Finding(kind="committed-loss", message="", topic="t", partition=0, brokers=(0,))


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
    safe: bool | None, findings: list[Finding], kinds: set[str], shows: bool | None
) -> None:
    results = Results(
        conforms=None,
        safe=safe,
        expected=True,
        findings=tuple(findings),
        path=Path(),
        prediction=None,
    )
    assert shows_bug(results, frozenset(kinds)) is shows


def test_releases_with_kraft_alone_are_between_others() -> None:
    assert lines_between("3.9.2", "4.1.0") == [["3.9.2"], ["4.0.0", "4.0.1", "4.0.2"], ["4.1.0"]]


def test_releases_that_are_not_as_they_are_called_are_refused() -> None:
    plays = Plays(lambda release: release == "1.1.1", say=lambda _text: None)
    plays.require(good="2.0.0", bad="1.1.1")
    with pytest.raises(UsageError, match=r"--bad must name"):
        plays.require(good="2.0.0", bad="2.0.0")
    with pytest.raises(UsageError, match=r"--good must name"):
        plays.require(good="1.1.1", bad="1.1.1")


def test_a_scenario_is_of_the_release_that_is_played() -> None:
    scenario = scenario_for("kafka-6361", "n20", "1.1.1")
    assert {broker.kafka for broker in scenario.cluster.brokers} == {"1.1.1"}
    with pytest.raises(UsageError, match=r"name --case n15"):
        scenario_for("KAFKA-6361", None, "1.1.1")


def test_a_file_is_played_on_each_release_and_expects_nothing(tmp_path: Path) -> None:
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
        (["KIP-101-2", "--good", "1.1.1"], "--bad"),
    ],
)
def test_bad_input_is_refused_before_a_cluster_starts(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["bisect", *arguments, "--runs-dir", str(tmp_path)]) == 64
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
