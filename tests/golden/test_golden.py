"""Golden runs are judged again: a change of the model shows at once what it changes.

Each was played on real brokers by `python -m tests.golden.make`. To keep them small most of the
brokers' logs was left out, and judgements too; then the rest was sealed again
(`tests.golden.stored`). Of 73 runs the brokers' files were not kept. They were made from
scenario.json and ZooKeeper's log, and each says so in its first line.
"""

from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.releases.asked import watching_rules
from kchaos.checkers.model.releases.versions import RELEASED, line_of, parse_version
from kchaos.checkers.record import predict_run
from kchaos.harness.run.scenario import Scenario
from tests.golden.scenario import scenario_of
from tests.golden.stored import (
    BORDERS,
    HARD,
    OTHERS,
    QUICK,
    RELEASES,
    RUNS,
    SETTINGS,
    expected_of,
    judged_as_stored,
    said_of,
    store,
    unpacked,
    write_expected,
)
from tests.support.clean_runs import clean_run, clean_snapshot

"""Random runs; each takes more than 30,000 states if a search does not know one thing about it.

1.1.1: a fetcher's rounds after its broker has closed its session. 0.11.0.3: an unseen answer with a
new high watermark. 2.5.1: an unseen answer at once. 3.3.2: an append in another leader epoch than
that of the batch that was read. 3.9.1: a snapshot between the epochs that a follower has noted of
two batches and the batches themselves. 2.0.1-unanswered-writes: what nobody answered and no
snapshot has was most likely never read. 3.9.1-held-fetch: a fetch that the links would have
recorded cannot have come unseen. 1.1.1-truncating: a snapshot between a log's truncation and that
of its epoch cache. 1.1.1-deleted: an answer about a topic that is deleted while a fetch waits.
3.9.1-asked-early: a fetch in the old epoch is seen after a LeaderAndIsr, by a thread that had given
up another request before. 2.0.1-left-session: a Fetch that is not recorded names no partition that
has left the session. 2.5.1-unlikely-write: only a write that nobody answered, and that was cut off
again, explains what a follower asks later. 2.3.1-told-late: brokers refuse fetches of partitions
that they are told of right then. 3.9.1-session-without-ids: after a late LeaderAndIsr without topic
ids a fetch without them is refused in a session that was begun with ids. 0.11.0.3-left-leader, from
an upgrade: an answer is seen to a fetch that is not recorded, of a partition that its follower then
leaves; so it leaves after that. 2.8.2-killed-while-clients-write: a Java client sends several
requests without waiting, of which a broker reads one after the other; and a broker is killed before
it appends what it was answered, as its next fetch shows. 0.11.0.3-moved-away: a leader that a
reassignment leaves out deletes its replica while two fetches wait, and says that it does not know
it. 3.6.2-deleted-before: a topic is deleted whose name was another's before, and its leader refuses
a fetch. 3.3.2-epoch-not-known: a leader refuses fetches of a leader epoch that it has not come to.
2.8.2-refuses-to-stop: a broker refuses a StopReplica, and says so before it handles what it was
answered. 2.8.2-shut-down: a broker that shuts down fetches no partition that it is to follow.
0.11.0.3-sent-again: a new leader appends nothing but what was sent again, and asks for its epoch.
2.8.2-searched-anew: behind a place where the search began in another order, likely steps come
first again. 3.6.2-made-again-in-session: a topic is made again, and a fetch session forgets it by
its former id and names it by its new one.
"""


_QUICK = {(runs, name) for runs in (RUNS, OTHERS) for name in QUICK}
JUDGED = [
    pytest.param(runs, name, marks=() if (runs, name) in _QUICK else pytest.mark.slow)
    for runs in (RUNS, OTHERS, BORDERS, SETTINGS, HARD)
    for name in sorted(folder.name for folder in runs.iterdir())
]


@pytest.mark.parametrize(("runs", "name"), JUDGED, ids=lambda each: getattr(each, "name", each))
def test_a_stored_run_is_judged_as_when_it_was_stored(runs: Path, name: str, tmp_path: Path):
    judged_as_stored(name, tmp_path, runs=runs)


def test_every_release_that_was_compared_and_played_has_a_golden_run():
    assert sorted(folder.name for folder in RUNS.iterdir()) == sorted(RELEASES)


def test_every_release_line_has_a_golden_run():
    lines = {line_of(parse_version(release)) for release in RELEASED}
    assert {line_of(parse_version(release)) for release in RELEASES} == lines


def test_a_golden_run_is_followed_question_by_question():
    for release in RELEASES:
        expected = expected_of(release)
        assert expected["conforms"] is True, release
        assert expected["questions"] >= 5, release
        assert bool(expected["rounds"]) is (release != "0.10.2.2"), release
        assert expected["truncations"], release


@pytest.mark.slow
@pytest.mark.parametrize(
    ("release", "rules"),
    [
        ("1.1.1", {"KAFKA-6857", "KIP-101", "initial fetch offset"}),
        ("3.9.1", {"KIP-320", "KIP-841", "KAFKA-15583", "no fetch at an election"}),
    ],
)
def test_the_rules_that_decide_in_a_golden_run_are_known(
    release: str, rules: set[str], tmp_path: Path
):
    evidence = RunEvidence(unpacked(release, tmp_path))
    with watching_rules() as asked:
        predict_run(evidence)

    assert rules <= asked.rules <= asked.in_force
    assert asked.in_force - asked.rules >= {"KAFKA-5634", "KAFKA-6975"}


def test_golden_runs_are_small():
    assert sum(file.stat().st_size for file in RUNS.rglob("*") if file.is_file()) < 1_500_000


def test_the_golden_scenario_is_data():
    scenario = scenario_of("2.0.1")
    assert Scenario.from_json(scenario.to_json()) == scenario


@pytest.mark.slow
def test_a_stored_run_comes_back_whole_and_without_its_judgements_and_most_of_its_logs(
    tmp_path: Path,
):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.server_log(0, "INFO started\nINFO advertised.listeners = none\n")
    run = build.seal()
    (run.path / "judgements").mkdir()

    store(run, "1.1.1", runs=tmp_path / "runs")

    back = unpacked("1.1.1", tmp_path / "again", runs=tmp_path / "runs")
    assert back.verify() == ()
    log = (back.path / "brokers/0/server.log").read_text()
    assert log.startswith("INFO advertised.listeners = none\nINFO Kafka version: 1.1.1 (")
    assert not (back.path / "judgements").exists()
    assert said_of(back, judge(back)) == expected_of("1.1.1", runs=tmp_path / "runs")


@pytest.mark.slow
def test_a_stored_run_is_replaced_only_when_that_is_asked_for(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    store(run, "1.1.1", runs=tmp_path / "runs")
    write_expected("1.1.1", {}, runs=tmp_path / "runs")

    with pytest.raises(FileExistsError, match="--again"):
        store(run, "1.1.1", runs=tmp_path / "runs")
    assert expected_of("1.1.1", runs=tmp_path / "runs") == {}

    store(run, "1.1.1", runs=tmp_path / "runs", again=True)
    assert expected_of("1.1.1", runs=tmp_path / "runs")["conforms"] is True


def test_a_run_that_is_not_as_expected_is_not_stored(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run"), is_final=False).seal()

    with pytest.raises(ValueError, match="no snapshot of the end"):
        store(run, "1.1.1", runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
