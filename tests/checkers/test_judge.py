import gc
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers import judge as judging
from kchaos.checkers import rules
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.partition import PartitionEvidence, Side
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.garbage import no_garbage_collection
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import Results, results_text, results_to_json, write_judgement
from kchaos.checkers.rules.as_sent import NOT_COMPARED
from kchaos.checkers.run_line import WITHOUT_SERVICE, line_of
from kchaos.harness.exits import FINDING, UNKNOWN, exit_code_for_lines
from tests.support.clean_runs import clean_run, clean_snapshot, cluster_of_two, unknown_of
from tests.support.kafka_6361_runs import BOTH, kafka_6361
from tests.support.run_builder import RunBuilder, values


def of_kind(results: Results, kind: str) -> list[Finding]:
    return [finding for finding in results.findings if finding.kind == kind]


def test_stopped_replication_shows_where_the_logs_part(tmp_path: Path):
    results = judge(kafka_6361(tmp_path / "run", "n15", "1.1.1"))

    (stopped,) = of_kind(results, "replication-stopped")
    assert stopped.evidence["difference"]["different"] == [[11, 15]]
    assert stopped.evidence["ends"] == {"0": 32, "1": 16}


def test_a_divergence_shows_both_headers_and_where_they_are(tmp_path: Path):
    results = judge(kafka_6361(tmp_path / "run", "n20", "1.1.1"))

    (divergence,) = of_kind(results, "divergence")
    assert [divergence.evidence[broker][0]["leader_epoch"] for broker in "01"] == [1, 2]
    assert all(divergence.evidence[broker][0]["position"] > 0 for broker in "01")


def with_an_epoch_round_that_nobody_predicts(path: Path, release: str) -> Results:
    build = clean_run(path, is_linked=True, release=release)
    build.epoch_round(1, 0, 5, None, 7)
    return judge(clean_snapshot(build).seal())


def test_not_as_predicted_is_red_only_on_a_release_that_was_compared(tmp_path: Path):
    compared = with_an_epoch_round_that_nobody_predicts(tmp_path / "1.1.1", "1.1.1")
    not_compared = with_an_epoch_round_that_nobody_predicts(tmp_path / "1.1.2", "1.1.2")

    assert (compared.conforms, compared.unknown) == (False, None)
    assert (not_compared.conforms, not_compared.safe, not_compared.expected) == (None, True, False)
    assert not_compared.unknown is not None
    assert "nobody compared the source of 1.1.2" in not_compared.unknown
    assert of_kind(not_compared, "not-as-predicted")


def test_a_run_that_is_as_predicted_conforms_on_any_release(tmp_path: Path):
    results = judge(clean_snapshot(clean_run(tmp_path / "run", release="1.1.2")).seal())

    assert (results.conforms, results.safe, results.expected) == (True, True, True)


def test_replicas_that_diverge_are_unsafe_also_on_a_release_that_was_not_compared(tmp_path: Path):
    build = clean_run(tmp_path / "run", release="1.1.2")
    build.snapshot("final", {0: [BOTH], 1: [(0, 0, values("other", 11))]}, high_watermarks={0: 11})

    results = judge(build.seal())

    assert (results.conforms, results.safe, results.expected) == (None, False, False)
    assert of_kind(results, "divergence")[0].last_offset == 10


def test_a_clean_run_conforms_is_safe_and_has_no_finding(tmp_path: Path):
    results = judge(clean_snapshot(clean_run(tmp_path / "run")).seal())

    assert results.findings == ()
    assert (results.conforms, results.safe, results.expected) == (True, True, True)
    assert results.not_checked == (
        "questions for leader epochs: the run has no links.jsonl",
        *NOT_COMPARED,
    )


def test_an_unsealed_run_is_unknown(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.write_zookeeper()

    told = unknown_of(judge(build.run))

    assert "not sealed" in told
    assert "did not finish" in told


def test_that_a_run_did_not_end_is_told_before_what_it_lacks(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.write_zookeeper()
    (build.run.path / "observations.jsonl").unlink()

    told = unknown_of(judge(build.run))

    assert told.index("did not finish") < told.index("observations.jsonl is missing")


def test_a_run_that_was_changed_after_its_seal_is_unknown(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    with (run.path / "history.jsonl").open("a") as file:
        file.write("\n")

    assert "history.jsonl has" in unknown_of(judge(run))


NOT_HELD = "step 3: t-0 never had leader 1"


def test_a_step_that_did_not_hold_leaves_a_run_without_findings_unknown(tmp_path: Path):
    results = judge(
        clean_snapshot(clean_run(tmp_path / "run")).seal(finished=False, ended_early=NOT_HELD)
    )

    assert unknown_of(results) == NOT_HELD


def diverged(path: Path) -> RunBuilder:
    other = [*values("both", 5), *values("other", 6)]
    return clean_snapshot(clean_run(path), logs={0: [BOTH], 1: [(0, 1, other)]})


def test_a_healed_and_settled_run_is_unsafe_although_a_step_did_not_hold(tmp_path: Path):
    results = judge(diverged(tmp_path / "run").seal(finished=False, ended_early=NOT_HELD))

    assert of_kind(results, "divergence")
    assert (results.conforms, results.safe, results.unknown) == (None, False, NOT_HELD)
    assert results.reason == "safe was expected"
    assert exit_code_for_lines([line_of(results)]) == FINDING


def test_without_a_settled_end_replicas_that_differ_may_still_become_equal(tmp_path: Path):
    results = judge(
        diverged(tmp_path / "run").seal(finished=False, ended_early=NOT_HELD, settle=None)
    )

    assert of_kind(results, "divergence")
    assert results.safe is None
    assert exit_code_for_lines([line_of(results)]) == UNKNOWN


def test_an_error_that_ends_a_fetcher_makes_a_run_unsafe_without_a_settled_end(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.server_log(
        1,
        "[2026-11-27 10:00:00,000] ERROR [ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0] "
        "Error due to (kafka.server.ReplicaFetcherThread)\n",
    )

    results = judge(build.seal(finished=False, ended_early=NOT_HELD, settle=None))

    (found,) = (each for each in results.findings if each.question is Question.SAFETY)
    assert found.kind == "fetcher-ended"
    assert results.safe is False


def test_what_nobody_can_rely_upon_leaves_an_unsafe_run_unknown(tmp_path: Path):
    results = judge(diverged(tmp_path / "run").seal(finished=False, unknown="broker 0 was killed"))

    assert unknown_of(results) == "broker 0 was killed"


def test_a_cluster_in_which_nobody_decides_is_unsafe_without_any_partition(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    reason = {"kind": "nobody-decides", "broker": -1, "detail": "there was no controller for 20 s"}

    results = judge(build.seal(settle="stalled", reasons=[reason]))

    (found,) = of_kind(results, "nobody-decides")
    assert (found.topic, found.brokers) == ("", ())
    assert "there was no controller for 20 s" in found.message
    assert results.safe is False


def test_a_deletion_that_does_not_end_is_found_and_nobody_misses_its_leader(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(-1, 1, [0, 1])
    reason = {"kind": "deletion-does-not-end", "broker": -1, "topic": "t", "partition": 0}

    results = judge(clean_snapshot(build).seal(settle="stalled", reasons=[reason]))

    assert of_kind(results, "deletion-does-not-end")
    assert not of_kind(results, "offline-partition")


def test_a_run_that_acknowledged_nothing_is_unknown(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    build.snapshot("final", {})

    assert "no write of the scenario was acknowledged" in unknown_of(judge(build.seal()))


def probed(path: Path, operation: str, **fields: Any) -> RunBuilder:
    """A run in which settling alone wrote something."""
    build = cluster_of_two(path)
    build.produce(operation, 0, values("both", 11), acks=-1, base_offset=0, **fields)
    return clean_snapshot(build)


def test_a_run_in_which_settling_alone_wrote_is_unknown(tmp_path: Path):
    marked = judge(probed(tmp_path / "marked", "any", probe=True).seal())
    old = judge(probed(tmp_path / "old", "settle-t-0").seal())

    for results in (marked, old):
        assert "no write of the scenario was acknowledged" in unknown_of(results)


def test_a_write_that_is_marked_as_no_probe_counts_whatever_its_name(tmp_path: Path):
    assert judge(probed(tmp_path / "run", "settle-in", probe=False).seal()).expected


def test_what_settling_wrote_may_not_be_lost_either(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.produce("settle-t-0", 0, ["probe"], acks=-1, base_offset=11)

    results = judge(clean_snapshot(build).seal())

    (lost,) = of_kind(results, "committed-loss")
    assert (lost.first_offset, lost.last_offset) == (11, 11)
    assert "records at offset 11 are" in lost.message


@pytest.mark.parametrize(
    ("code", "name", "safe"),
    [
        (ErrorCode.RECORD_LIST_TOO_LARGE, "RECORD_LIST_TOO_LARGE", None),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "TOPIC_AUTHORIZATION_FAILED", None),
        (ErrorCode.NOT_ENOUGH_REPLICAS, "NOT_ENOUGH_REPLICAS", False),
    ],
)
def test_an_error_that_only_settlings_record_meets_is_no_finding(
    code: int, name: str, safe: bool | None, tmp_path: Path
):
    build = clean_run(tmp_path / "run")
    build.produce("settle-t-0", 0, ["~1"], acks=-1, error=name, error_code=code)

    results = judge(clean_snapshot(build).seal())

    assert results.safe is safe
    if safe is None:
        assert results.findings == ()
        assert f"t-0 takes no probe record ({name})" in str(results.unknown)
        assert results.conforms is True


def test_a_write_that_a_segment_has_no_room_for_leaves_conformance_unknown(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    error = ErrorCode.RECORD_LIST_TOO_LARGE
    build.produce("large", 0, ["large-0"], acks=-1, error=error.name, error_code=error)

    results = judge(clean_snapshot(build).seal())

    assert (results.conforms, results.safe) == (None, True)
    assert "produce large is larger than a segment of t may be" in str(results.unknown)


def test_a_finished_run_without_a_settle_record_leaves_safety_unknown(tmp_path: Path):
    results = judge(clean_snapshot(clean_run(tmp_path / "run")).seal(settle=None))

    assert (results.conforms, results.safe, results.expected) == (True, None, False)
    assert results.unknown == (
        "outcome.json has no settle record: whether replication goes on is unknown"
    )


def test_a_linked_cluster_without_its_links_leaves_conformance_unknown(tmp_path: Path):
    results = judge(clean_snapshot(clean_run(tmp_path / "run", is_linked=True)).seal())

    assert (results.conforms, results.safe, results.expected) == (None, True, False)
    assert results.unknown is not None
    assert "links.jsonl is missing although the cluster was linked" in results.unknown


def test_a_cluster_that_could_not_be_linked_is_judged_without_what_links_tell(tmp_path: Path):
    why = "the network's gateway is no address of this machine"
    build = clean_snapshot(clean_run(tmp_path / "run", is_linked=True, unlinked=why))

    results = judge(build.seal())

    assert (results.conforms, results.safe, results.expected) == (True, True, True)
    assert results.not_checked == (
        "questions for leader epochs: the run has no links.jsonl",
        *NOT_COMPARED,
    )


def test_a_linked_cluster_with_its_links_is_judged(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run", is_linked=True))
    build.epoch_round(1, 0, -1, None, -1)

    results = judge(build.seal())

    assert (results.conforms, results.safe, results.expected) == (True, True, True)
    assert results.not_checked == NOT_COMPARED


def test_files_that_never_stood_still_are_unknown(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"), stable=False)

    assert "broker 0's files never stood still" in unknown_of(judge(build.seal()))


def test_a_run_without_a_last_snapshot_is_unknown(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"), is_final=False)

    assert "no snapshot of the end" in unknown_of(judge(build.seal()))


def test_a_damaged_transaction_log_is_unknown_and_says_where(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.transactions[0] = build.transactions[0][:-3] + b"??\x42"

    results = judge(build.seal())

    assert "log.1, position 16: the checksum" in unknown_of(results)
    assert results.crashes == ()


def test_a_model_that_fails_leaves_only_conformance_unknown(tmp_path: Path):
    def broken(evidence: RunEvidence) -> Prediction:
        raise ModelError("event 3 cannot happen")

    results = judge(clean_snapshot(clean_run(tmp_path / "run")).seal(), predict=broken)

    assert (results.conforms, results.safe, results.expected) == (None, True, False)
    assert results.unknown is not None
    assert "event 3 cannot happen" in results.unknown
    assert "Traceback" in results.crashes[0]


def test_a_snapshot_that_the_model_was_not_told_of_leaves_conformance_unknown(tmp_path: Path):
    def forgetful(evidence: RunEvidence) -> Prediction:
        told = predict_run(evidence)
        return Prediction(snapshots={}, produces=told.produces, rounds=(), truncations=())

    results = judge(clean_snapshot(clean_run(tmp_path / "run")).seal(), predict=forgetful)

    assert (results.conforms, results.safe) == (None, True)
    assert results.unknown is not None
    assert "does not have snapshot 'final'" in results.unknown


def test_a_rule_that_fails_is_unknown_and_what_the_others_found_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(evidence: PartitionEvidence, side: Side) -> list[Finding]:
        raise ZeroDivisionError("planted")

    def apply(evidence: PartitionEvidence) -> rules.Judged:
        return rules.apply_rules(evidence, safety_rules=(broken, *rules.SAFETY_RULES))

    monkeypatch.setattr(judging, "apply_rules", apply)

    results = judge(kafka_6361(tmp_path / "run", "n20", "1.1.1"))

    assert "a rule failed: ZeroDivisionError: planted" in unknown_of(results)
    assert any("Traceback" in crash for crash in results.crashes)
    assert of_kind(results, "divergence")


def test_a_witness_that_cannot_be_read_is_unknown(tmp_path: Path):
    build = clean_run(tmp_path / "run", expectation={"safe": True, "witness": [{"what": {}}]})

    results = judge(clean_snapshot(build).seal())

    assert "witness {'what': {}}" in unknown_of(results)


def test_an_expectation_without_safe_is_unknown(tmp_path: Path):
    build = clean_run(tmp_path / "run", expectation={"findings": []})

    assert "expectation: it does not say safe or not" in unknown_of(
        judge(clean_snapshot(build).seal())
    )


def test_a_judgement_is_written_beside_the_evidence_and_never_over_another(tmp_path: Path):
    run = kafka_6361(tmp_path / "run", "n20", "1.1.1")
    results = judge(run)

    first = write_judgement(run, results)
    second = write_judgement(run, results)

    assert (first.name, second.name) == ("0001", "0002")
    assert sorted(file.name for file in first.iterdir()) == [
        "findings.jsonl",
        "prediction.json",
        "results.json",
    ]
    lines = (first / "findings.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [
        finding.kind for finding in results.findings
    ]
    assert json.loads((first / "results.json").read_text()) == json.loads(
        json.dumps(results_to_json(results))
    )
    assert json.loads((first / "prediction.json").read_text())["rounds"]
    assert run.verify() == ()


def test_judging_reads_and_changes_nothing(tmp_path: Path):
    run = kafka_6361(tmp_path / "run", "n20", "1.1.1")
    before = sorted(file.relative_to(run.path) for file in run.path.rglob("*"))

    judge(run)

    assert sorted(file.relative_to(run.path) for file in run.path.rglob("*")) == before
    assert run.verify() == ()


def test_results_name_the_run_and_who_judged(tmp_path: Path):
    results = judge(kafka_6361(tmp_path / "a-run", "n20", "1.1.1"))
    told = results_to_json(results)
    assert results_text(results) == json.dumps(told)

    assert {name: told[name] for name in ("entry", "case", "release", "driver", "seed", "run")} == {
        "entry": "KAFKA-6361",
        "case": "n20",
        "release": "1.1.1",
        "driver": "local",
        "seed": 7,
        "run": "a-run",
    }
    assert told["judged_by"]
    assert told["unknown"] is None


def test_the_line_of_a_run_has_exactly_the_documented_fields(tmp_path: Path):
    run = kafka_6361(tmp_path / "run", "n20", "1.1.1")

    results = judge(run)
    assert line_of(results, report=Path("here.html")).to_json() == {
        "entry": "KAFKA-6361",
        "case": "n20",
        "release": "1.1.1",
        "build": "",
        "ran": "",
        "driver": "local",
        "seed": 7,
        "started_at": 1_600_000_000.0,
        "played_by": "0.1.0",
        "judged_by": version("kchaos"),
        "conforms": True,
        "safe": False,
        "expected": True,
        "reason": "",
        "unknown": None,
        "witness": [],
        "not_checked": list(NOT_COMPARED),
        "crashes": [],
        "findings": [
            {
                "kind": "divergence",
                "question": "safety",
                "message": results.findings[0].message,
                "partition": "t-0",
                "brokers": [0, 1],
                "first_offset": 11,
                "last_offset": 20,
                "fingerprint": results.findings[0].fingerprint,
            }
        ],
        "signs": ["divergence"],
        "seconds": results.seconds,
        "service": dict.fromkeys(WITHOUT_SERVICE) | {"without_leader_s": 1.0},
        "occasions": results.occasions,
        "points": [*results.points],
        # The run's folder tells these.
        "mode": None,
        "waited_s": None,
        "steps": 0,
        "not_possible": 0,
        "gates": [],
        "faults": [],
        # A campaign tells these.
        "kafka": "",
        "acts": 0,
        "drawn_s": None,
        "wall_s": None,
        "rules": None,
        "processor_s": None,
        "seen_by_clients": None,
        "run": str(run.path),
        "report": "here.html",
    }


@pytest.mark.parametrize(("acted", "unknown"), [("planted:one", ""), ("hello", "planted:one ")])
def test_a_planted_bug_that_never_acted_leaves_all_unknown(
    acted: str, unknown: str, tmp_path: Path
):
    build = probed(tmp_path / "run", "any", probe=False)
    described = build.run.read("run.json")
    brokers = {
        str(broker): {"release": release, "judged_as": release, "build": "planted:one"}
        for broker, release in build.started.items()
    }
    build.run.write("run.json", {**described, "brokers": brokers}, replace=True)
    hit = {"number": 1, "broker": 0, "life": 1, "point": acted, "thread": "handler-0"}
    rest = {"reader": "", "seen": "", "fate": "passed", "hold": ""}
    build.run.append("hits.jsonl", {"time": build.tick(), **hit, **rest})

    results = judge(build.seal())

    assert (results.conforms, results.safe) == ((None, None) if unknown else (True, True))
    assert f"{unknown}never acted" in (results.unknown or "") if unknown else not results.unknown


# -- Python's garbage collector while a run is judged --


def test_the_collector_is_off_meanwhile_and_then_as_before():
    was_enabled: list[bool] = []

    @no_garbage_collection()
    def fail() -> None:
        was_enabled.append(gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    was_enabled.append(gc.isenabled())

    gc.disable()
    with no_garbage_collection():
        pass
    was_enabled.append(gc.isenabled())
    gc.enable()
    assert was_enabled == [False, True, False]
