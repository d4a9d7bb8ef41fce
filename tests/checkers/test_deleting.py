"""Topics and records that somebody had deleted: a run in which that happened is unknown by name."""

from pathlib import Path

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of
from tests.support.run_builder import RunBuilder, create_body, string, values

_SAID = "[2026-11-22 22:09:13,742] INFO [{log} partition=t-0, dir=/data] {what} (kafka.log.Log)\n"


def with_another_topic(path: Path) -> RunBuilder:
    build = clean_run(path)
    build.topic("u", [0, 1]).state(0, 1, [0, 1], topic="u")
    return build.produce("gone", 0, ["gone"], acks=-1, base_offset=0, topic="u")


def test_a_deleted_topic_is_named_and_nothing_of_it_is_lost(tmp_path: Path):
    build = with_another_topic(tmp_path / "run")
    build.delete_topic("u")
    run = clean_snapshot(build).seal()

    results = judge(run)

    assert results.findings == ()
    assert "topic u was deleted (zxid" in unknown_of(results)
    assert {partition.topic for partition in RunEvidence(run).partitions} == {"t"}


def test_a_topic_that_is_there_has_lost_what_was_acknowledged(tmp_path: Path):
    build = with_another_topic(tmp_path / "run")

    results = judge(clean_snapshot(build).seal())

    assert "committed-loss" in {finding.kind for finding in results.findings}


def test_a_topic_that_was_made_again_has_had_no_unclean_election(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.delete_topic("t")
    build.topic("t", [1, 0]).state(1, 0, [1, 0])
    build.produce("again", 1, values("again", 3), acks=-1, base_offset=0)
    log = [(0, 0, values("again", 3))]
    run = build.snapshot("final", {0: log, 1: log}, high_watermarks={0: 3, 1: 3}).seal()

    results = judge(run)

    assert [finding.message for finding in results.findings] == [
        "the acknowledged records at offsets 0 to 10 are in no in-sync replica: the topic was "
        "deleted"
    ]
    assert "topic t was deleted and made again" in unknown_of(results)


def test_a_topic_that_was_made_again_smaller_has_no_more_partitions(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.topic("u", [0, 1], [1, 0]).state(0, 1, [0, 1], topic="u")
    build.delete_topic("u")
    build.topic("u", [1, 0]).state(1, 0, [1, 0], topic="u")

    evidence = RunEvidence(clean_snapshot(build).seal())

    assert [tuple(partition) for partition in evidence.partitions] == [("t", 0), ("u", 0)]


def test_a_topic_that_is_still_to_be_deleted_is_named(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.write(1, create_body("/admin/delete_topics/t", None))

    assert "topic t is to be deleted" in unknown_of(judge(clean_snapshot(build).seal()))


def test_a_wish_that_the_controller_refused_deletes_nothing(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.write(1, create_body("/admin/delete_topics/t", None))
    build.write(2, string("/admin/delete_topics/t"))

    assert judge(clean_snapshot(build).seal()).expected


def said(path: Path, log: str, what: str) -> RunBuilder:
    build = clean_snapshot(clean_run(path))
    return build.server_log(0, _SAID.format(log=log, what=what))


def test_records_that_a_client_had_deleted_are_named_with_their_offset(tmp_path: Path):
    lines = {
        "1.1.1": ("Log", "Incrementing log start offset to 7"),
        "2.8.2": ("Log", "Incremented log start offset to 7 due to client delete records request"),
        "3.9.1": (
            "UnifiedLog",
            "Incremented log start offset to 7 due to client delete records request",
        ),
    }
    for release, line in lines.items():
        results = judge(said(tmp_path / release, *line).seal())

        assert "records of t-0 below offset 7 deleted (DeleteRecords)" in unknown_of(results)
        assert results.findings == ()


def test_a_log_start_that_follows_the_leaders_says_of_no_client(tmp_path: Path):
    line = "Incremented log start offset to 7 due to leader offset increment"

    assert judge(said(tmp_path / "run", "Log", line).seal()).expected


def test_records_are_lost_that_lie_above_what_a_client_had_deleted(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.server_log(0, _SAID.format(log="Log", what="Incrementing log start offset to 7"))
    probe = (11, 1, ["settle-t-0"])
    build.snapshot("final", {0: [probe], 1: [probe]}, high_watermarks={0: 12})
    for broker in (0, 1):
        build.copied("final", broker, "log-start-offset-checkpoint", "0\n1\nt 0 9\n")

    results = judge(build.seal())

    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (results.safe, lost.first_offset, lost.last_offset) == (False, 7, 10)
