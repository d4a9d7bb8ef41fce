"""`kchaos upgrade`: what it refuses before a cluster starts, what it plans, and one upgrade."""

import json
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign import children
from kchaos.harness.campaign import upgrade as command
from kchaos.harness.campaign.upgrade import (
    command_of,
    exit_code_of_upgrade,
    plan_json,
    plan_lines,
    play_upgrade,
    upgrade_of,
)
from kchaos.harness.commands.cli import cli
from kchaos.harness.run.settings import check_settings
from kchaos.harness.run.steps_checked import check_modes
from kchaos.harness.seeds import seed_text
from kchaos.harness.upgrades.procedure import Upgrade, draw_upgrade, phases
from kchaos.harness.upgrades.rendering import not_covered
from kchaos.harness.upgrades.sign_off import SignOff
from tests.golden.stored import unpacked

OPTIONS = k.RunOptions(offline=True)


class Found:
    """A distribution as it was found."""

    build = ""

    def __init__(self, release: str) -> None:
        self.release = release
        self.digests = {"slf4j.jar": "0", f"kafka_2.12-{release}.jar": "12"}


def meant(
    older: tuple[str, ...],
    newer: tuple[str, ...],
    build: Path | None = None,
    workload: str | None = None,
    unsupported: bool = False,
    properties: Path | None = None,
    topics: Path | None = None,
    brokers: int = 3,
    **more: Any,
) -> Upgrade:
    return upgrade_of(
        older,
        newer,
        build,
        back=more.pop("back", False),
        one_roll=False,
        mix="",
        stepped=False,
        workload=workload,
        unsupported=unsupported,
        options=OPTIONS,
        say=print,
        properties=properties,
        topics=topics,
        brokers=brokers,
        **more,
    )


def test_one_command_plays_one_pair():
    for older, newer in ((("2.1.1", "2.2.2"), ("2.3.1",)), (("2.1.1",), ("2.2.2", "2.3.1"))):
        with pytest.raises(k.UsageError, match="one command runs one pair"):
            meant(older, newer)
    with pytest.raises(k.UsageError, match="--to RELEASE or --to-build PATH"):
        meant(("2.1.1",), ())


def test_a_release_that_does_not_exist_is_refused():
    with pytest.raises(k.ReleaseError, match="is no known Kafka release"):
        meant(("2.1.1",), ("9.9.9",))


@pytest.mark.parametrize(
    ("release", "said"),
    [("3.8.1", "which is older than 3.9.1: .* --to 3.8.1"), ("3.9.2", "which is newer than 3.9.1")],
)
def test_a_build_that_is_not_what_it_is_to_be_is_refused(
    release: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(command, "fetch", lambda *_args, **_more: Found(release))
    with pytest.raises(k.UsageError, match=said):
        meant(("2.8.2",), ("3.9.1",), tmp_path)


def test_a_build_that_is_older_than_what_it_comes_after_is_no_upgrade(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(command, "fetch", lambda *_args, **_more: Found("2.8.2"))
    with pytest.raises(k.UsageError, match=r"Kafka does not support this: .*3\.9\.1"):
        meant(("3.9.1",), (), tmp_path)


def test_a_build_stands_for_the_release_before_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(command, "fetch", lambda *_args, **_more: Found("3.9.2-SNAPSHOT"))
    upgrade = meant(("2.8.2",), (), tmp_path)
    assert (upgrade.newer, upgrade.newer_release) == (str(tmp_path), "3.9.1")
    assert upgrade.case == "2.8.2-to-3.9.1-build"
    assert f"--to-build {tmp_path}" in command_of(upgrade, runs=2, seed=3)


def test_the_plan_tells_the_rolls_and_what_differs():
    upgrade = meant(("2.8.2",), ("3.9.1",))
    lines = plan_lines(upgrade, 1)
    assert lines[0] == "upgrade from 2.8.2 to 3.9.1"
    assert "1. binaries: the binaries become 3.9.1, at protocol 2.8; brokers 2, 0, 1" in lines
    assert any(line.strip().startswith("KAFKA-18723") for line in lines)
    assert any(line.strip().startswith("3.0.0 (KIP-724): At protocol 3.0") for line in lines)
    assert max(map(len, lines)) <= 80
    data = json.loads(plan_json(upgrade, 1))
    assert [phase["name"] for phase in data["phases"]] == ["binaries", "protocol"]
    assert data["scenario"]["seed"] == 1
    assert [note.split(" ")[0] for note in data["notes"]] == [
        *("3.0.0", "3.0.0", "3.5.2", "3.6.0", "3.6.0")
    ]
    assert json.loads(plan_json(upgrade, None))["scenario"] is None


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        ("./no-such-test --fast", r"there is no program \./no-such-test"),
        ("a 'b", "No closing quotation.* each quotation mark is closed"),
        ("a \\", "No escaped character.* no backslash comes last"),
        ("", "the workload is empty: .* leave --workload out"),
        (" ", "the workload is empty"),
        ("''", "the workload is empty"),
    ],
)
def test_a_workload_that_cannot_run_is_refused_before_a_cluster_starts(workload: str, said: str):
    with pytest.raises(k.UsageError, match=said):
        meant(("2.1.1",), ("2.2.2",), workload=workload)
    assert meant(("2.1.1",), ("2.2.2",)).workload == ()


def test_what_is_unsupported_is_played_again_as_such():
    upgrade = meant(("3.9.1",), ("2.8.2",), unsupported=True)
    assert command_of(upgrade, runs=1, seed=4) == (
        f"kchaos upgrade --from 3.9.1 --to 2.8.2 --unsupported --seed {seed_text(4)} --runs 1"
    )


class PlaysTheStoredRun(AbstractContextManager[Any]):
    """In place of child processes."""

    def __init__(self, **_options: Any) -> None: ...

    def play(self, scenario: k.Scenario) -> RunLine:
        assert (scenario.entry, scenario.case) == ("upgrade", "2.1.1-to-2.2.2")
        return RunLine(run=str(stored[0]))

    def stop(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


stored: list[Path] = []


@pytest.mark.slow
def test_runs_are_signed_off_together_and_the_page_is_written_after_each(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    run = unpacked("upgrade-2.1.1", tmp_path)
    write_judgement(run, k.judge(run))
    stored[:] = [run.path]
    monkeypatch.setattr(children, "Children", PlaysTheStoredRun)
    monkeypatch.setattr(command, "fetch", lambda kafka, **_more: Found(kafka))
    said: list[str] = []

    told, page = play_upgrade(
        meant(("2.1.1",), ("2.2.2",)),
        runs=2,
        seed=1,
        side_by_side=1,
        folder=tmp_path / "page",
        options=OPTIONS,
        say=said.append,
        done=lambda _line: None,
    )

    code = exit_code_of_upgrade(told)
    assert (code, told.answer, len(told.runs)) == (0, "green", 2)
    assert page.is_file()
    assert told.digests == {"2.1.1": "sha256:12", "2.2.2": "sha256:12"}
    assert said[-1] == "2 of 2: seed 2 is green"


def test_the_mode_is_kept_in_the_command_that_plays_it_again():
    of = meant(("3.9.1",), ("4.1.2",))
    assert (of.mode, of.case) == ("kraft", "3.9.1-to-4.1.2-kraft")
    assert "--to 4.1.2 --mode kraft --seed" in command_of(of, runs=1, seed=1)
    lines = plan_lines(of, 1)
    assert any(line.endswith("; controllers 100") for line in lines)
    assert "     metadata.version=27" in lines
    with pytest.raises(k.UsageError, match=r"goes to 3\.9 first"):
        meant(("2.8.2",), ("4.1.2",), mode="kraft")


@pytest.mark.parametrize(
    ("older", "migrates", "hops"),
    [
        ("2.8.2", False, ["2.8.2 to 3.9.1", "3.9.1 with ZooKeeper to KRaft", "3.9.1 to 4.1.2"]),
        ("3.6.2", True, ["3.6.2 to 3.9.1", "3.9.1 with ZooKeeper to KRaft", "3.9.1 to 4.1.2"]),
        ("3.9.1", True, ["3.9.1 with ZooKeeper to KRaft", "3.9.1 to 4.1.2"]),
    ],
)
def test_a_cluster_with_zookeeper_goes_to_4_hop_by_hop(older: str, migrates: bool, hops: list[str]):
    of = meant((older,), ("4.1.2",), migrates=migrates, controllers=3, dynamic_quorum=True)
    assert [hop.pair for hop in of.hops] == hops
    lines = plan_lines(of, 1)
    assert [line for line in lines if line.startswith("  Hop 3")] or len(hops) == 2
    assert "zookeeper-to-kraft" in of.case
    assert "--migrate" in command_of(of, runs=1, seed=1)
    scenario = draw_upgrade(1, of)
    names = [phase.name for phase in phases(of)]
    assert names[-5] == "finalize"
    assert names[-4:] == [
        f"{name}-4.1.2" for name in ("controllers", "binaries", "features", "quorum")
    ]
    assert len({*names}) == len(names)
    kafkas = {older: older, "3.9.1": "3.9.1", "4.1.2": "4.1.2"}
    check_settings(scenario, kafkas)
    check_modes(scenario, kafkas)
    with pytest.raises(k.UsageError, match="--back, --back-from, --finalize"):
        meant((older,), ("4.1.2",), migrates=migrates, back=True)


def test_each_hop_is_one_that_kafka_supports():
    with pytest.raises(k.UsageError, match=r"From below 2\.4 a cluster goes to a release"):
        meant(("2.0.1",), ("4.1.2",))


def test_brokers_get_the_settings_of_a_file_and_the_plan_names_the_others(tmp_path: Path):
    file = tmp_path / "server.properties"
    file.write_text(
        "broker.id=4\nnum.io.threads=16\nleader.imbalance.check.interval.seconds=300\n"
        "unclean.leader.election.enable=true\n"
    )
    of = meant(("2.8.2",), ("3.9.1",), properties=file)
    assert of.case.startswith("2.8.2-to-3.9.1-properties-")
    properties = draw_upgrade(1, of).cluster.properties
    assert properties["num.io.threads"] == "16"
    assert properties["leader.imbalance.check.interval.seconds"] == "300"
    assert "broker.id" not in properties
    assert "  Left out (kchaos sets it): broker.id." in plan_lines(of, None)
    assert f"--properties {file} --seed" in command_of(of, runs=1, seed=1)


def test_clients_write_to_the_topics_of_a_file_on_as_many_brokers_as_are_wanted(tmp_path: Path):
    file = tmp_path / "topics.txt"
    row = "Topic: {}\tTopicId: x\tPartitionCount: {}\tReplicationFactor: 3\tConfigs: \n"
    file.write_text(
        row.format("orders", 2) + row.format("__consumer_offsets", 50) + row.format("u", 1)
    )
    of = meant(("4.0.2",), ("4.1.2",), topics=file, brokers=5)
    assert of.case.startswith("4.0.2-to-4.1.2-kraft-5-brokers-topics-")
    scenario = draw_upgrade(1, of)
    assert len(scenario.cluster.brokers) == 5
    made = [step.topic for step in scenario.steps if isinstance(step, k.CreateTopic)]
    clients = [
        (step.name, step.topic, step.partitions)
        for step in scenario.steps
        if isinstance(step, k.StartClients)
    ]
    assert made == ["orders", "u"]
    assert clients == [("clients-orders", "orders", 2), ("clients-u", "u", 1)]
    assert "  Left out: __consumer_offsets (Kafka makes it itself)." in plan_lines(of, None)
    assert f"--topics {file} --brokers 5 --seed" in command_of(of, runs=1, seed=1)


def test_brokers_have_racks_and_log_directories_where_their_release_takes_them():
    of = meant(("4.0.2",), ("4.1.2",), brokers=4, racks=3, log_directories=2)
    brokers = draw_upgrade(1, of).cluster.brokers
    racks = [broker.properties["broker.rack"] for broker in brokers]
    assert racks == ["rack-0", "rack-1", "rack-2", "rack-0"]
    assert {broker.log_directories for broker in brokers} == {2}
    assert "--racks 3 --log-directories 2 --seed" in command_of(of, runs=1, seed=1)
    left_out = not_covered(SignOff(upgrade=of, runs=[], wanted=0))
    assert not [text for text in left_out if "--racks" in text or "--log-directories" in text]
    with pytest.raises(k.UsageError, match=r"3\.6\.2 have one log directory with KRaft.*KIP-858"):
        meant(("3.6.2",), ("3.9.1",), mode="kraft", log_directories=2)


@pytest.mark.cluster
def test_a_migration_on_real_brokers_is_signed_off_as_safe(tmp_path: Path):
    """The way back is run by hand: seldom a leader sends no AlterPartition after it (kafka.md)."""
    words = f"upgrade --from 3.9.1 --migrate --seed 1 --runs-dir {tmp_path}"
    code = cli.main(words.split(), standalone_mode=False)
    (file,) = tmp_path.glob("sign-off-*/sign-off.json")
    page = json.loads(file.read_text())
    assert (code, page["answer"]) == (0, "safe"), page["runs"]
    rolled = [roll for phase in page["runs"][0]["phases"] for roll in phase["rolls"]]
    last = {roll["broker"]: roll["brokers"][str(roll["broker"])]["stage"] for roll in rolled}
    assert {last[broker] for broker in (0, 1, 2)} == {"kraft"}
    decided = RunEvidence(k.RunDirectory.open(Path(page["runs"][0]["replay"].split()[-1]))).offices
    assert (bool(decided.claimed), decided.is_back) == (True, False)


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("words", "case", "levels"),
    [
        ("--from 2.0.0 --to 2.0.1", "2.0.0-to-2.0.1", [[], [], []]),
        (
            "--from 4.0.2 --to 4.1.2 --back --finalize",
            "4.0.2-to-4.1.2-finalize-back-kraft",
            [[], [25], [25], [27], [27, 25], [25], [25], []],
        ),
    ],
)
def test_an_upgrade_on_real_brokers_is_signed_off(
    words: str, case: str, levels: list[list[int]], tmp_path: Path
):
    words = f"upgrade {words} --seed 1 --runs-dir {tmp_path}"
    code = cli.main(words.split(), standalone_mode=False)
    page = json.loads((tmp_path / f"sign-off-{case}-1" / "sign-off.json").read_text())
    assert (code, page["answer"], page["reason"][:7]) == (0, "green", "In the "), page["runs"]
    seen = [
        [*dict.fromkeys(roll["levels"].get("metadata.version") for roll in phase["rolls"])]
        for phase in page["runs"][0]["phases"]
    ]
    assert [[level for level in each if level] for each in seen] == levels
