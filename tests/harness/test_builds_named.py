"""Wherever a release is named, a build of somebody's own is told from it, and from others."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.evidence.about import marked, short_build
from kchaos.checkers.judge import judge
from kchaos.checkers.observations import BrokerStarted, Injected
from kchaos.checkers.results import Results
from kchaos.checkers.run_line import RunLine, line_of
from kchaos.harness.commands.show import result_lines, table_text
from kchaos.harness.report.answers import summary
from kchaos.harness.report.loading import load
from kchaos.harness.summary.rates import rates_of
from tests.support.clean_runs import clean_run, clean_snapshot

ONE, OTHER = f"/builds/a sha256:{'a' * 64}", f"/builds/b sha256:{'b' * 64}"


def judged(path: Path, build: str, rolled_to: str = "") -> Results:
    run = clean_snapshot(clean_run(path))
    brokers = {
        str(broker): {"release": "1.1.1", "judged_as": "1.1.1", "build": build} for broker in (0, 1)
    }
    described = run.run.read("run.json")
    run.run.write("run.json", {**described, "brokers": brokers}, replace=True)
    if rolled_to:
        run.observe(
            BrokerStarted(broker=1, pid=1, czxid=1, session_id=1, znode="", build=rolled_to)
        )
    return judge(run.seal())


def test_results_name_every_build_that_ran(tmp_path: Path):
    results = judged(tmp_path / "run", ONE, rolled_to=OTHER)

    assert results.build == f"{ONE}; {OTHER}"
    assert line_of(results).build == results.build
    assert f"on Kafka 1.1.1: /builds/a sha256:{'a' * 8}; /builds/b sha256:{'b' * 8}" in " ".join(
        line.strip() for line in result_lines(results)
    )


def test_a_release_that_was_published_needs_no_more_than_its_name(tmp_path: Path):
    results = judge(clean_snapshot(clean_run(tmp_path / "run")).seal())

    assert results.build == ""
    assert marked("1.1.1", "") == "1.1.1"
    assert "build" not in table_text([results])


def test_two_builds_of_one_name_are_told_apart_in_the_table(tmp_path: Path):
    results = judged(tmp_path / "run", ONE)

    text = table_text([results, replace(results, build=OTHER)])

    assert [line.split(")")[0] + ")" for line in text.splitlines() if "1.1.1" in line] == [
        "1.1.1 (aaaaaaaa)",
        "1.1.1 (bbbbbbbb)",
    ]
    assert "build: /builds/a sha256:aaaaaaaa" in text
    assert "build: /builds/b sha256:bbbbbbbb" in text
    assert short_build("image:apache/kafka") == "image:apache/kafka"


@pytest.mark.parametrize(("builds", "rows"), [((ONE, ONE), 1), ((ONE, OTHER), 2)])
def test_rates_put_only_runs_of_one_build_together(builds: tuple[str, str], rows: int):
    lines = [RunLine(release="1.1.1", entry="chaos", case="mixed", build=each) for each in builds]
    assert len(rates_of(lines)) == rows


def test_a_report_s_head_names_what_brokers_were_rolled_to(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))

    def roll(fault: str, **effect: str) -> None:
        build.observe(Injected(name="roll", fault=fault, lasting=False, before={}, effect=effect))

    roll("KillBroker", release="3.9.1")
    roll("RollBroker", release="2.0.1", build="")
    roll("RollBroker", release="2.0.1", build=ONE)
    roll("RollBroker", release="1.1.1", build="")
    head = summary(load(build.seal()))

    assert "on Kafka 1.1.1, rolled to 2.0.1 and 2.0.1 (aaaaaaaa), with 2 brokers" in head


def test_what_brokers_were_rolled_to_is_named_with_the_outcome_and_in_the_table(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    effect = {"release": "2.0.1", "build": ""}
    build.observe(
        Injected(name="roll", fault="RollBroker", lasting=False, before={}, effect=effect)
    )
    rolled = judge(build.seal())
    plain = judge(clean_snapshot(clean_run(tmp_path / "plain")).seal())

    assert (rolled.ran, plain.ran) == ("1.1.1, rolled to 2.0.1", "")
    assert rolled.outcome.startswith("Kafka 1.1.1, rolled to 2.0.1: ")
    assert plain.outcome.startswith("Kafka 1.1.1: ")
    assert "1.1.1, rolled to 2.0.1" in " ".join(table_text([rolled]).split())
    assert line_of(rolled).ran == "1.1.1, rolled to 2.0.1"


def test_a_report_s_head_says_nothing_of_rolls_where_there_was_none(tmp_path: Path):
    head = summary(load(clean_snapshot(clean_run(tmp_path / "run")).seal()))

    assert "on Kafka 1.1.1 with 2 brokers" in head
