"""Runs of KRaft clusters are judged for safety in full, and their conformance is unknown."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers import acts
from kchaos.checkers.metadata_log import read_node
from kchaos.checkers.observations import Act
from kchaos.checkers.run_line import is_unknown, line_of
from kchaos.checkers.verdict import NOT_PREDICTED
from kchaos.harness.exits import exit_code_for_lines
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of
from tests.support.kraft_runs import (
    CONTROLLER,
    TOPIC_IDS,
    KraftRunBuilder,
    config,
    fencing,
    kraft_run,
    kraft_snapshot,
)
from tests.support.metadata_logs import FIRST_SEGMENT
from tests.support.run_builder import values

ELEVEN = values("both", 11)


def kinds(results: k.Results) -> set[str]:
    return {finding.kind for finding in results.findings}


def judged(build: KraftRunBuilder, **fields: Any) -> k.Results:
    return k.judge(kraft_snapshot(build, **fields).seal())


def test_a_clean_run_is_safe_and_its_conformance_is_unknown_for_one_reason(tmp_path: Path):
    results = judged(kraft_run(tmp_path / "run"))

    assert (results.conforms, results.safe) == (None, True)
    assert results.unknown == NOT_PREDICTED
    assert (results.crashes, results.findings) == ((), ())
    assert (results.expected, results.reason) == (True, "")
    assert results.prediction is None


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.3.2", "3.9.1"])
def test_a_release_that_has_both_is_judged_by_the_mode_that_the_scenario_names(
    release: str, tmp_path: Path
):
    build = kraft_run(tmp_path / "run", release=release)
    scenario = build.run.read("scenario.json")
    scenario["cluster"]["mode"] = "kraft"
    build.run.write("scenario.json", scenario, replace=True)

    results = judged(build)

    assert (results.conforms, results.safe, results.unknown) == (None, True, NOT_PREDICTED)


def test_a_record_that_no_replica_has_any_more_is_a_loss(tmp_path: Path):
    results = judged(kraft_run(tmp_path / "run"), end=9)

    assert (results.conforms, results.safe, results.expected) == (None, False, False)
    assert "committed-loss" in kinds(results)
    assert results.reason == "safe was expected"


def test_replicas_that_differ_and_a_hole_are_found(tmp_path: Path):
    other = [*ELEVEN[:5], *values("other", 6)]
    divergent = judged(kraft_run(tmp_path / "1"), logs={0: [(0, 0, ELEVEN)], 1: [(0, 0, other)]})
    gap = [(0, 0, ELEVEN[:3]), (8, 0, ELEVEN[8:])]
    hole = judged(kraft_run(tmp_path / "2"), logs={0: [(0, 0, ELEVEN)], 1: gap})

    assert divergent.safe is hole.safe is False
    assert "divergence" in kinds(divergent)
    assert "hole" in kinds(hole)


def test_a_partition_that_stays_without_leader_is_offline(tmp_path: Path):
    build = kraft_run(tmp_path / "run").state(-1, 1, [0])

    assert "offline-partition" in kinds(judged(build))


def test_what_was_expected_is_expected_of_safety_alone(tmp_path: Path):
    results = judged(kraft_run(tmp_path / "run", expectation={"safe": True}))

    assert (results.conforms, results.expected) == (None, True)
    assert results.expectation_from == "scenario"


@pytest.mark.slow
def test_fewer_in_sync_than_the_controller_set_for_all_is_told(tmp_path: Path):
    results = {}
    for least in ("1", "2"):
        build = kraft_run(tmp_path / least).records(config("min.insync.replicas", least))
        build.fence(1).state(0, 0, [0]).fence(1, is_fenced=False)
        results[least] = "under-min-isr" in kinds(judged(build))

    assert results == {"1": False, "2": True}


# -- what the release promises ------------------------------------------------------------------


def _last_in_sync_lost_its_tail(path: Path, **elr: Any) -> k.Results:
    """Broker 1 leaves the ISR, broker 0 loses its tail and ends, broker 1 leads and has less."""
    build = kraft_run(path)
    build.fence(1).state(0, 0, [0], **elr)
    build.act(acts.LoseTail(broker=0, topic="t", partition=0, log_end_offset=5), zxid=build.zxid)
    build.fence(1, is_fenced=False)
    build.state(0, 0, [0, 1], EligibleLeaderReplicas=())
    return judged(build, end=5)


def test_without_eligible_leaders_the_last_in_sync_replica_may_lose_what_was_promised(
    tmp_path: Path,
):
    assert "permitted-loss" in kinds(_last_in_sync_lost_its_tail(tmp_path / "run"))


def test_with_eligible_leaders_a_promised_record_may_only_go_if_all_of_them_lost_it(tmp_path: Path):
    results = _last_in_sync_lost_its_tail(tmp_path / "run", EligibleLeaderReplicas=(1,))

    assert results.safe is False
    assert "committed-loss" in kinds(results)


def _elected_from_outside(path: Path, **elr: Any) -> k.Results:
    build = kraft_run(path)
    build.fence(1).state(0, 0, [0], **elr)
    build.fence(0).state(-1, 1, [])
    build.fence(1, is_fenced=False).state(1, 2, [1])
    build.fence(0, is_fenced=False).state(1, 2, [1, 0])
    return judged(build, end=5)


@pytest.mark.slow
def test_an_eligible_leader_is_elected_cleanly_and_anyone_else_is_not(tmp_path: Path):
    clean = _elected_from_outside(tmp_path / "1", EligibleLeaderReplicas=(1,))
    unclean = _elected_from_outside(tmp_path / "2", LastKnownElr=(1,))

    assert "committed-loss" in kinds(clean)
    assert clean.safe is False
    assert "permitted-loss" in kinds(unclean)
    assert "committed-loss" not in kinds(unclean)


# -- elections ----------------------------------------------------------------------------------


def test_a_broker_that_is_elected_while_it_is_fenced_is_told(tmp_path: Path):
    build = kraft_run(tmp_path / "run").fence(1)
    build.state(1, 1, [1]).fence(1, is_fenced=False)

    (seen,) = [finding for finding in judged(build).findings if finding.kind == "fenced-leader"]

    assert seen.brokers == (1,)
    assert "broker 1 was elected while it was fenced" in seen.message


def test_a_broker_may_be_elected_by_the_batch_that_takes_it_for_alive_or_for_away(tmp_path: Path):
    build = kraft_run(tmp_path / "run").fence(1)
    change = ("PartitionChangeRecord", 2, {"PartitionId": 0, "TopicId": "zj02F248SJuIp7M9eTZjQA"})
    build.records(
        (change[0], 2, change[2] | {"Leader": 1, "Isr": (1,)}), fencing(1, is_fenced=False)
    )
    build.records(
        (change[0], 2, change[2] | {"Leader": 0, "Isr": (0,)}), fencing(0, is_fenced=True)
    )
    build.fence(0, is_fenced=False)
    build.states["t-0"] |= {"leader": 0, "leader_epoch": 2, "isr": [0]}

    assert "fenced-leader" not in kinds(judged(build))


def test_what_no_event_explains_denies_conformance_and_names_what_was_possible(tmp_path: Path):
    place = {"PartitionId": 0, "TopicId": TOPIC_IDS["t"]}
    told = {}
    for leaving, isr in (("right", (0,)), ("wrong", (0, 1))):
        build = kraft_run(tmp_path / leaving)
        change = ("PartitionChangeRecord", 2, place | {"Isr": isr})
        build.records(change, fencing(1, is_fenced=True))
        told[leaving] = judged(build)

    assert told["right"].conforms is None
    assert told["wrong"].conforms is False
    finding = next(each for each in told["wrong"].findings if each.kind == "decision-not-allowed")
    assert (finding.topic, finding.partition) == ("t", 0)
    assert "the controller wrote Isr [0, 1]" in finding.message
    assert "possible was Isr [0], Leader 0 (fenced)" in finding.message


def test_a_preferred_replica_is_elected_where_somebody_asked_for_it(tmp_path: Path):
    place = {"PartitionId": 0, "TopicId": TOPIC_IDS["t"]}
    found = {}
    for is_asked in (False, True):
        build = kraft_run(tmp_path / str(is_asked))
        away = ("PartitionChangeRecord", 2, place | {"Isr": (1,), "Leader": 1})
        build.records(away, fencing(0, is_fenced=True)).fence(0, is_fenced=False)
        build.records(("PartitionChangeRecord", 2, place | {"Isr": (1, 0)}))
        if is_asked:
            build.observe(Act(act=acts.PreferredElection(topic="t", partition=0), zxid=0), 1)
        build.records(("PartitionChangeRecord", 2, place | {"Leader": 0}))
        found[is_asked] = "decision-not-allowed" in kinds(judged(build))
    assert found == {False: True, True: False}


def test_a_controller_decides_by_the_release_that_it_was_rolled_to(tmp_path: Path):
    """Up to 3.9 a process that registers changes nothing of the one before (KAFKA-18106)."""
    missing = {}
    for release in ("3.9.1", "4.1.2"):
        build = kraft_run(tmp_path / release)
        build.act(acts.StartBroker(broker=CONTROLLER, release=release))
        del build.started[CONTROLLER]  # It is none of the brokers that run.json names.
        said = {"BrokerId": 1, "BrokerEpoch": build.zxid + 2, "IncarnationId": TOPIC_IDS["t"]}
        endpoint = {"Name": "INTERNAL", "Host": "127.0.0.1", "Port": 1, "SecurityProtocol": 0}
        said |= {"EndPoints": [endpoint], "Fenced": True}
        build.begin().records(("RegisterBrokerRecord", 3, said)).fence(1, is_fenced=False)
        found = [each for each in judged(build).findings if each.kind == "decision-not-allowed"]
        missing[release] = [each.evidence["expected"][0]["event"] for each in found]
    assert missing == {"3.9.1": [], "4.1.2": ["registered"]}


def test_a_change_that_is_missing_is_told_of_the_partition(tmp_path: Path):
    findings = judged(kraft_run(tmp_path / "run").fence(1)).findings

    (missing,) = [each for each in findings if each.kind == "decision-not-allowed"]
    assert (missing.topic, missing.partition) == ("t", 0)
    assert "it should have been: Isr [0], Leader 0 (fenced)" in missing.message


def test_who_is_unfenced_without_having_asked_for_it_is_told(tmp_path: Path):
    said = {"broker_epoch": 1, "current_metadata_offset": 9, "want_shut_down": False}
    unasked = {}
    for wants_fence in (True, False):
        build = kraft_run(tmp_path / str(wants_fence))
        for broker in (0, 1):
            detail = said | {"broker_epoch": 1 + 2 * broker, "want_fence": wants_fence}
            build.link(
                source=broker, target=CONTROLLER, api="BrokerHeartbeat", api_key=63, detail=detail
            )
        found = [each.message for each in judged(build).findings]
        unasked[wants_fence] = [each for each in found if "had not asked for that" in each]

    assert len(unasked[True]) == 2
    assert unasked[False] == []


# -- who acknowledges ---------------------------------------------------------------------------


def _demoted(path: Path, *, told: Sequence[int], epoch: int = 1, **late: Any) -> list[k.Finding]:
    """Broker 1 leads from a decision on; broker 0 tells offsets beyond it, and then writes."""
    build = kraft_run(path).state(1, 1, [0, 1])
    for beyond in told:
        said = {"broker_epoch": epoch, "current_metadata_offset": build.zxid + beyond}
        said |= {"want_fence": False, "want_shut_down": False}
        build.link(source=0, target=CONTROLLER, api="BrokerHeartbeat", api_key=63, detail=said)
    build.produce("late", late.pop("broker", 0), ["l"], acks=1, **{"base_offset": 11} | late)
    return [
        finding
        for finding in judged(build).findings
        if finding.kind == "acknowledged-after-demotion"
    ]


def test_a_write_that_is_taken_after_the_broker_has_read_of_another_leader_is_told(tmp_path: Path):
    (finding,) = _demoted(tmp_path / "run", told=(0, 1, 2))

    assert (finding.brokers, finding.first_offset, finding.last_offset) == ((0,), 11, 11)
    assert "By that log broker 1 leads in leader epoch 1" in finding.message


@pytest.mark.slow
def test_a_write_is_not_told_where_the_broker_may_not_have_taken_it_up_or_did_not_take_it(
    tmp_path: Path,
):
    assert _demoted(tmp_path / "1", told=()) == []
    assert _demoted(tmp_path / "2", told=(0, 1)) == []
    assert _demoted(tmp_path / "3", told=(0, 1, 1, 0)) == []
    assert _demoted(tmp_path / "4", told=(-1, 1, 2)) == []
    assert _demoted(tmp_path / "5", told=(0, 1, 2), broker=1) == []
    refused: dict[str, Any] = {"base_offset": None, "error": "not leader", "error_code": 6}
    assert _demoted(tmp_path / "6", told=(0, 1, 2), **refused) == []


# -- evidence that cannot be --------------------------------------------------------------------


def _sealed(path: Path, damage: Callable[[Path], None]) -> k.Results:
    def before(run: k.RunDirectory) -> None:
        damage(run.path / "metadata")

    return k.judge(kraft_snapshot(kraft_run(path)).seal(before=before))


def _judged_with_snapshot(path: Path, end: int) -> k.Results:
    """All records before the offset are told by a snapshot alone; the write came at offset 6."""
    build = kraft_run(path)
    for _ in range(2):
        build.records(("NoOpRecord", 0, {}))

    def before(run: k.RunDirectory) -> None:
        for node in (run.path / "metadata").glob("node-*"):
            whole = (node / FIRST_SEGMENT).read_bytes()
            batches = read_node(0, [(FIRST_SEGMENT, whole)]).batches
            told = [batch.content for batch in batches if batch.base_offset < end]
            (node / FIRST_SEGMENT).unlink()
            (node / f"{end:020d}-{1:010d}.checkpoint").write_bytes(b"".join(told))
            (node / f"{end:020d}.log").write_bytes(whole[len(b"".join(told)) :])

    return k.judge(kraft_snapshot(build).seal(before=before))


@pytest.mark.slow
def test_a_log_that_begins_with_a_snapshot_is_judged_for_what_was_done_later(tmp_path: Path):
    results = _judged_with_snapshot(tmp_path / "before the write", 7)
    assert (results.safe, results.unknown) == (True, NOT_PREDICTED)

    assert "a snapshot of all before offset 8, and something was done before" in unknown_of(
        _judged_with_snapshot(tmp_path / "after it", 8)
    )


def _append(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(metadata: Path) -> None:
        with (metadata / name).open("ab") as file:
            file.write(content)

    return damage


def _cut(name: str, count: int) -> Callable[[Path], None]:
    def damage(metadata: Path) -> None:
        (metadata / name).write_bytes((metadata / name).read_bytes()[:-count])

    return damage


def _flip(name: str, at: int, bits: int) -> Callable[[Path], None]:
    def damage(metadata: Path) -> None:
        content = bytearray((metadata / name).read_bytes())
        content[at] ^= bits
        (metadata / name).write_bytes(content)

    return damage


def _replace(name: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    def damage(metadata: Path) -> None:
        content = (metadata / name).read_bytes()
        assert old in content
        (metadata / name).write_bytes(content.replace(old, new))

    return damage


def _remove(name: str) -> Callable[[Path], None]:
    def damage(metadata: Path) -> None:
        path = metadata / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    return damage


CONTROLLERS = f"node-{CONTROLLER}/{FIRST_SEGMENT}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_remove("definitions"), "metadata/definitions: there is no definition"),
        (_remove("definitions/PartitionRecord.json"), "no definition has kind 3"),
        (_replace("definitions/TopicRecord.json", b'"apiKey"', b'"apiKex"'), "TopicRecord.json"),
        (
            _replace("definitions/RegisterBrokerRecord.json", b"int64", b"float64"),
            "metadata/definitions: BrokerEpoch is no number",
        ),
        (_remove("node-1"), "metadata/node-1 is missing"),
        (_remove(f"node-{CONTROLLER}"), "no metadata log of a majority"),
        (_flip(CONTROLLERS, 100, 1), "no entry can be read at byte 91"),
        # The leader epoch of the first batch, which no checksum covers.
        (_flip(f"node-0/{FIRST_SEGMENT}", 15, 6), "the copy of node 0 differs at offset 0"),
        (_cut(CONTROLLERS, 200), "the metadata log ends at offset"),
        (
            _replace("node-1/meta.properties", b"cluster.id=e8eb", b"cluster.id=xxxx"),
            "node-1/meta.properties is of cluster xxxx",
        ),
        (_replace("node-1/meta.properties", b"node.id=1", b"node.id=0"), "is node 0's"),
        (_remove(f"node-{CONTROLLER}/meta.properties"), "meta.properties is missing"),
        (lambda metadata: shutil.copytree(metadata / "node-1", metadata / "node-7"), "node-7"),
    ],
)
def test_a_metadata_log_that_cannot_be_this_clusters_leaves_the_run_unknown(
    damage: Callable[[Path], None], message: str, tmp_path: Path
):
    assert message in unknown_of(_sealed(tmp_path / "run", damage))


@pytest.mark.parametrize(
    "harmless", [_append(CONTROLLERS, b"\0\0\0"), _cut(f"node-1/{FIRST_SEGMENT}", 3)]
)
def test_a_torn_tail_takes_nothing_away(harmless: Callable[[Path], None], tmp_path: Path):
    results = _sealed(tmp_path / "run", harmless)

    assert (results.safe, results.unknown) == (True, NOT_PREDICTED)


def test_the_log_of_another_cluster_names_what_this_one_never_made(tmp_path: Path):
    build = kraft_run(tmp_path / "run")
    other = {"PartitionId": 0, "TopicId": "cy5l6LDoSgGMV93ECA6Fkw", "Isr": (0,)}

    results = judged(build.records(("PartitionChangeRecord", 2, other)))

    assert "the log is of another cluster, or lacks some" in unknown_of(results)


def test_a_run_has_the_log_of_what_kept_its_metadata_and_no_other(tmp_path: Path):
    def with_zookeeper(run: k.RunDirectory) -> None:
        folder = run.path / "zookeeper" / "member-1"
        folder.mkdir(parents=True)
        (folder / "log.1").write_bytes(b"")

    def with_metadata(run: k.RunDirectory) -> None:
        (run.path / "metadata").mkdir()

    kraft = k.judge(kraft_snapshot(kraft_run(tmp_path / "1")).seal(before=with_zookeeper))
    zookeeper = k.judge(clean_snapshot(clean_run(tmp_path / "2")).seal(before=with_metadata))

    assert "a log of ZooKeeper, and by the scenario" in unknown_of(kraft)
    assert "metadata/ exists, and by the scenario" in unknown_of(zookeeper)


def test_a_broker_with_zookeeper_is_not_of_a_kraft_cluster(tmp_path: Path):
    def with_zookeeper(run: k.RunDirectory) -> None:
        file = run.path / "brokers" / "1" / "server.properties"
        file.write_text(file.read_text().replace("process.roles=broker\n", ""))

    results = k.judge(kraft_snapshot(kraft_run(tmp_path / "run")).seal(before=with_zookeeper))

    assert "brokers/1/server.properties is of a broker with ZooKeeper" in unknown_of(results)


@pytest.mark.slow
def test_a_run_with_kraft_is_unknown_only_where_its_safety_is(tmp_path: Path):
    safe = line_of(judged(kraft_run(tmp_path / "safe")))
    lost = line_of(judged(kraft_run(tmp_path / "lost"), end=9))
    broken = line_of(_sealed(tmp_path / "broken", _remove("definitions")))
    ours = line_of(k.judge(clean_snapshot(clean_run(tmp_path / "ours")).seal()))

    assert [is_unknown(each) for each in (safe, lost, broken, ours)] == [False, False, True, False]
    assert is_unknown(replace(ours, conforms=None, unknown="the model gave up"))
    assert [exit_code_for_lines([each]) for each in (safe, lost, broken)] == [0, 1, 2]
    assert [each.signs for each in (safe, lost)] == [(), ("committed-loss",)]
