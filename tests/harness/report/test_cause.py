"""Causes of a finding, in sentences made from the evidence."""

import re
from dataclasses import asdict
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.observations import Broker, Healed
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report import render, text_report
from kchaos.harness.report.cause.causes import NOT_KNOWN, cause_of_run
from kchaos.harness.report.cause.elections import uncleanly
from kchaos.harness.report.cause.story import Term
from kchaos.harness.report.cause.unavoidable import no_way_back
from kchaos.harness.report.leadership import decisions_of
from kchaos.harness.report.loading import load
from tests.golden.stored import BORDERS, CASES, ENTRIES, OTHERS, unpacked
from tests.support.kraft_runs import kraft_run, kraft_snapshot
from tests.support.planted_runs import late_request_obeyed
from tests.support.report_runs import (
    A_AGAIN,
    A_ONLY,
    BOTH,
    DIVERGENCE,
    Page,
    answered,
    asked,
    diverged,
    injected,
    judge_as,
    judged,
    prediction_of,
)
from tests.support.run_builder import RunBuilder

LOSS: dict[str, Any] = DIVERGENCE | {
    "kind": "committed-loss",
    "brokers": [1],
    "first_offset": 2,
    "last_offset": 3,
    "message": "the acknowledged records at offsets 2 to 3 are in no in-sync replica",
}


def told(run: RunDirectory) -> list[str]:
    return [step.text for step in cause_of_run(load(run))]


@pytest.mark.slow
def test_a_recorded_divergence_is_told_from_its_leaders_to_the_isr(tmp_path: Path) -> None:
    run = unpacked("1.1.1", tmp_path)
    write_judgement(run, judge(run))

    assert told(run) == [
        "Broker 0 led in leader epoch 2; its records at offsets 5 to 6 are on broker 0 alone.",
        "Broker 1 led in leader epoch 3, while CutLink on brokers 0 and 1 acted; its records at "
        "offsets 5 to 6 are on broker 1 alone.",
        "Broker 1 asked where leader epoch 3 ends; broker 0 answered 7, where its leader epoch 4 "
        "begins, since it has no record of leader epoch 3.",
        "Broker 1 truncated its log from 8 to 7; offsets 5 to 6 stayed.",
        "The ISR became [0, 1]: brokers 0 and 1 count as in sync.",
    ]


@pytest.mark.slow
def test_a_recorded_run_that_is_safe_has_no_cause(tmp_path: Path) -> None:
    run = unpacked("2.0.1", tmp_path)
    write_judgement(run, judge(run))

    assert told(run) == []
    assert "What led to it" not in Page(render(run)).text


def test_a_loss_is_told_from_its_acknowledgement_to_the_end(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 1, [0, 1])
    build.produce("both", 0, ["a", "b"], acks=-1, base_offset=0)
    build.produce("lost", 0, ["c", "d"], acks=-1, base_offset=2)
    build.state(1, 2, [1])
    build.produce("later", 1, ["e"], acks=1, base_offset=2)
    kept = (0, 1, ["a", "b"])
    build.snapshot("final", {0: [kept, (2, 2, ["e"])], 1: [kept, (2, 2, ["e"])]}, probed=False)
    run = judge_as(build.seal(), findings=[LOSS])

    acknowledged, elected, end = told(run)
    assert acknowledged.startswith("Broker 0 acknowledged offsets 2 to 3 with acks=all; the ISR")
    assert elected == "Broker 1 was elected in leader epoch 2, with ISR [1]."
    assert end == (
        "In the end no in-sync replica has these records; batches at offsets 2 to 3 are on brokers "
        "0 and 1."
    )


def test_replication_that_stopped_is_told_by_leaders_answers_and_the_brokers_own_log(
    tmp_path: Path,
) -> None:
    stopped = DIVERGENCE | {
        "kind": "replication-stopped",
        "brokers": [1],
        "first_offset": -1,
        "last_offset": -1,
        "message": "broker 1 has not caught up",
    }
    ended = stopped | {"kind": "fetcher-ended", "message": "an error ended a fetcher thread"}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[ended, stopped])

    *elected, question, logged, finding = told(run)
    assert (
        elected[-1] == "Broker 0 was elected in leader epoch 3, with ISR [0], while CutLink acted."
    )
    assert question.startswith("Broker 1 asked where leader epoch 2 ends; broker 0 answered")
    assert logged == "An error ended a fetcher thread."
    assert finding == "Broker 1 has not caught up."

    alone = judge_as(diverged(tmp_path / "alone").seal(), findings=[ended])
    assert told(alone) == [*elected, question, logged]


@pytest.mark.slow
def test_a_hole_is_told_with_the_batch_that_comes_after_it(tmp_path: Path) -> None:
    hole = DIVERGENCE | {"kind": "hole", "brokers": [1]}
    logs = {0: [BOTH, A_ONLY, A_AGAIN], 1: [BOTH, A_AGAIN]}
    run = judge_as(diverged(tmp_path / "run", logs=logs).seal(), findings=[hole])

    assert "Broker 1 has no batch at 2 to 3; its next batch begins at 4, in leader epoch 3." in (
        told(run)
    )
    assert "This decided it." in Page(render(run)).text


def test_a_request_that_came_late_is_told_by_both_generations(tmp_path: Path) -> None:
    stale = DIVERGENCE | {"kind": "stale-request-accepted", "brokers": [1], "first_offset": -1}
    run = judge_as(late_request_obeyed(tmp_path / "run"), findings=[stale])

    made_for, registered, arrived = told(run)
    assert made_for == "Broker 1 registered as generation 4; the StopReplica was made for that one."
    assert re.fullmatch(r"Broker 1 registered anew, as generation \d+\.", registered)
    assert arrived == (
        "The StopReplica reached broker 1 only then. It carried no broker epoch, which version 0 "
        "does not have, and the broker accepted it."
    )


def test_a_broker_that_nobody_told_is_told_by_its_registrations(tmp_path: Path) -> None:
    untold = DIVERGENCE | {
        "kind": "generation-not-initialised",
        "brokers": [1],
        "first_offset": -1,
        "message": "broker 1 is registered, and nobody told it of t-0",
    }
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[untold])

    first, again, finding = told(run)
    assert first.startswith("Broker 1 registered as generation")
    assert again.endswith("while CutLink acted.")
    assert finding == "Broker 1 is registered, and nobody told it of t-0."


def test_records_that_were_cut_off_are_told_by_the_answer_that_asked_for_it(tmp_path: Path) -> None:
    cut = DIVERGENCE | {
        "kind": "truncated-below-high-watermark",
        "brokers": [1],
        "first_offset": 4,
        "last_offset": 4,
        "message": "broker 1 had 4 below the high watermark 5, and no longer has it",
    }
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[cut])

    *elected, question, finding = told(run)
    assert [text.partition(" was")[0] for text in elected] == ["Broker 1", "Broker 0"]
    assert question.startswith("Broker 1 asked where leader epoch 2 ends; broker 0 answered 4")
    assert finding == "Broker 1 had 4 below the high watermark 5, and no longer has it."


def test_an_answer_above_what_was_cut_off_is_not_told(tmp_path: Path) -> None:
    cut = DIVERGENCE | {"kind": "truncated-below-high-watermark", "brokers": [1]}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[cut])

    assert not [text for text in told(run) if "asked" in text]


def test_the_sentences_stand_in_the_order_of_time_and_what_findings_say_comes_last(
    tmp_path: Path,
) -> None:
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1], "message": "it stands"}
    build = diverged(tmp_path / "run")
    build.state(1, 4, [0, 1])
    run = judge_as(build.seal(), findings=[stopped])

    before, question, after, finding = told(run)
    assert before.startswith("Broker 0 was elected in leader epoch 3")
    assert question.startswith("Broker 1 asked where leader epoch 2 ends")
    assert after.startswith("Broker 1 was elected in leader epoch 4")
    assert finding == "It stands."


def test_the_election_with_which_a_partition_begins_is_no_cause(tmp_path: Path) -> None:
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1], "message": "it stands"}
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, [0, 1])
    log = [(0, 0, ["a"])]
    build.produce("both", 0, ["a"], acks=-1, base_offset=0)
    build.snapshot("final", {0: log, 1: log}, probed=False)

    run = judge_as(build.seal(), findings=[stopped])
    assert told(run) == [NOT_KNOWN, "What is known: it stands."]


def test_a_follower_that_never_asked_is_told_where_another_one_did(tmp_path: Path) -> None:
    differs = DIVERGENCE | {"brokers": [0, 2]}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[differs])

    sentence = "After that broker 2 asked nobody where a leader epoch ends, and so truncated "
    assert sentence + "nothing by an answer." in told(run)
    assert not [text for text in told(judged(tmp_path / "asked")) if "asked nobody" in text]


def test_a_leader_that_does_not_know_an_epoch_says_so(tmp_path: Path) -> None:
    build = diverged(tmp_path / "run")
    build.link(wall_time_s=build.tick(), correlation_id=2, detail=asked(7))
    build.link(
        wall_time_s=build.tick(), correlation_id=2, direction="response", detail=answered(-1)
    )
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1]}
    sentence = "Broker 1 asked where leader epoch 7 ends; broker 0 answered that it does not know "

    assert sentence + "that epoch." in told(judge_as(build.seal(), findings=[stopped]))


def test_what_the_evidence_does_not_show_is_not_guessed(tmp_path: Path) -> None:
    corrupt = DIVERGENCE | {"kind": "corrupt-batch"}
    other = judge_as(diverged(tmp_path / "kind").seal(), findings=[corrupt])
    lost = judge_as(diverged(tmp_path / "thin").seal(), findings=[LOSS | {"first_offset": 90}])

    assert told(other) == [NOT_KNOWN, f"What is known: {corrupt['message']}."]
    assert told(lost) == [NOT_KNOWN, f"What is known: {LOSS['message']}."]


@pytest.mark.slow
def test_the_page_tells_the_cause_before_the_findings_with_links_to_what_shows_it(
    tmp_path: Path,
) -> None:
    run = judged(tmp_path / "run")
    page = Page(render(run))

    assert page.problems == []
    assert page.text.index("What led to it") < page.text.index("Findings")
    text = " ".join(text_report(run).split())
    for sentence in told(run):
        assert sentence in page.text
        assert sentence in text
    assert re.search(r"\d\.\d{3} s: [^:]* This decided it\.", text)
    assert ("a", {"href": "#replicas"}) in page.tags


def test_a_former_leader_that_acknowledges_is_told_from_the_unclean_election_on(
    tmp_path: Path,
) -> None:
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, [0])
    build.state(1, 1, [1])
    build.produce("lost", 0, ["a"], acks=-1, base_offset=0)
    build.produce("kept", 1, ["b"], acks=-1, base_offset=0)
    other = [(0, 1, ["b"])]
    build.snapshot("final", {0: other, 1: other}, probed=False)
    loss = LOSS | {
        "first_offset": 0,
        "last_offset": 0,
        "evidence": {"operations": [{"operation": "lost"}], "held_instead": {"0": [], "1": []}},
    }

    assert told(judge_as(build.seal(), findings=[loss])) == [
        "Broker 1 was elected in leader epoch 1, with ISR [1]. It was not in the ISR [0] before: "
        "the election was unclean.",
        "Broker 0 acknowledged offset 0 with acks=all, as leader of leader epoch 0. Leader epoch 1 "
        "had begun with leader 1; the ISR was [1].",
        "In the end no in-sync replica has these records; brokers 0 and 1 hold other records at "
        "offset 0.",
    ]


def test_a_record_of_settlings_own_is_called_so_where_others_were_lost(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, [0]).state(1, 1, [1]).state(1, 1, [0, 1])
    build.produce("lost", 0, ["a"], acks=-1, base_offset=0)
    build.produce("settle-t-0", 1, ["~1"], acks=-1, base_offset=0)
    probe = [(0, 1, ["~1"])]
    build.snapshot("final", {0: probe, 1: probe}, probed=False)
    run = build.seal()
    (loss,) = [each for each in judge(run).findings if each.kind == "committed-loss"]

    assert told(judge_as(run, findings=[asdict(loss)]))[-1].endswith(
        "brokers 0 and 1 hold probe records at offset 0."
    )
    held = loss.evidence["held_instead"]["0"]
    assert [each["is_probe"] for each in held] == [True]


@pytest.mark.parametrize(
    "evidence",
    [
        {"operations": None, "held_instead": None},
        {"operations": ["x", {}, {"operation": 1}], "held_instead": {"x": []}},
        {"operations": 7, "held_instead": [1]},
    ],
)
def test_evidence_of_another_form_is_passed_over(tmp_path: Path, evidence: dict[str, Any]) -> None:
    loss = LOSS | {"evidence": evidence}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[loss])

    assert told(run)


def unclean(path: Path, *, first: int, second: int) -> RunBuilder:
    """Both brokers append at offset 0, the second one after an unclean election."""
    build = RunBuilder(path, release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 1, [0])
    build.produce("a", 0, ["a"], acks=1, base_offset=0)
    build.state(1, 2, [1])
    build.produce("b", 1, ["b"], acks=1, base_offset=0)
    build.state(1, 2, [1, 0])
    logs = {0: [(0, first, ["a"])], 1: [(0, second, ["b"])]}
    build.snapshot("final", logs, probed=False)
    return build


AT_0: dict[str, Any] = DIVERGENCE | {"first_offset": 0, "last_offset": 0}


def test_a_leader_from_outside_the_isr_is_told_of_a_divergence(tmp_path: Path) -> None:
    run = judge_as(unclean(tmp_path / "run", first=1, second=2).seal(), findings=[AT_0])

    assert told(run) == [
        "Broker 0 led in leader epoch 1; its records at offset 0 are on broker 0 alone.",
        "Broker 1 led in leader epoch 2; its records at offset 0 are on broker 1 alone. It was not "
        "in the ISR [0] before: the election was unclean.",
        "The ISR became [1, 0]: brokers 0 and 1 count as in sync.",
    ]


def test_batches_without_leader_epochs_are_told_by_what_clients_were_answered(
    tmp_path: Path,
) -> None:
    run = unclean(tmp_path / "run", first=-1, second=-1).seal()
    cut = {"broker": 0, "topic": "t", "partition": 0, "target_offset": 1}
    cut |= {"log_end_offset_before": 3, "high_watermark": 1}
    judge_as(run, findings=[AT_0], prediction=prediction_of(run) | {"truncations": [cut]})

    assert told(run) == [
        "Broker 0 led in leader epoch 1, and appended what a client sent at offset 0.",
        "Broker 1 led in leader epoch 2, and appended what a client sent at offset 0. It was not "
        "in the ISR [0] before: the election was unclean.",
        "Broker 0 truncated its log from 3 to 1, its high watermark; offset 0 stayed.",
        "The ISR became [1, 0]: brokers 0 and 1 count as in sync.",
    ]


def test_a_truncation_that_cut_off_what_differs_is_not_told_as_one_that_left_it(
    tmp_path: Path,
) -> None:
    run = unclean(tmp_path / "run", first=-1, second=-1).seal()
    cut = {"broker": 0, "topic": "t", "partition": 0, "target_offset": 0}
    cut |= {"log_end_offset_before": 3, "high_watermark": 0}
    judge_as(run, findings=[AT_0], prediction=prediction_of(run) | {"truncations": [cut]})

    assert not [text for text in told(run) if "truncated" in text]


def test_a_follower_whose_epoch_nobody_knows_keeps_what_lies_below_its_truncation(
    tmp_path: Path,
) -> None:
    build = unclean(tmp_path / "run", first=1, second=2)
    build.epoch_round(0, 1, 7, None, -1)
    run = build.seal()
    cut = {"broker": 0, "topic": "t", "partition": 0, "target_offset": 1}
    cut |= {"log_end_offset_before": 3, "high_watermark": 3}
    judge_as(run, findings=[AT_0], prediction=prediction_of(run) | {"truncations": [cut]})

    question, kept = told(run)[-2:]
    assert question == (
        "Broker 0 asked where leader epoch 7 ends; broker 1 answered that it does not know that "
        "epoch."
    )
    assert kept == "Broker 0 truncated its log from 3 to 1; offset 0 stayed."


STOPPED: dict[str, Any] = DIVERGENCE | {
    "kind": "replication-stopped",
    "brokers": [1],
    "first_offset": -1,
    "last_offset": -1,
    "message": "it stands",
}


def test_an_answer_that_comes_again_is_told_once_with_why_nothing_comes_of_it(
    tmp_path: Path,
) -> None:
    build = diverged(tmp_path / "run")
    for correlation_id in (2, 3, 4):
        build.link(wall_time_s=build.tick(), correlation_id=correlation_id, detail=asked(2))
        answer = {"partitions": [answered(10)["partitions"][0] | {"leader_epoch": 9}]}
        build.link(
            wall_time_s=build.tick(),
            correlation_id=correlation_id,
            direction="response",
            detail=answer,
        )
    run = judge_as(build.seal(), findings=[STOPPED])

    again, why = told(run)[-3:-1]
    assert again == (
        "Broker 1 asked where leader epoch 2 ends; broker 0 answered that leader epoch 9 ends at "
        "10. This came 3 times."
    )
    assert why == (
        "The log of broker 1 ends at 5 and has no record of leader epoch 9, so it could truncate "
        "nothing by that answer."
    )


@pytest.mark.parametrize("pid", [77, None])
def test_a_broker_that_runs_and_registers_no_more_is_told_so(
    tmp_path: Path, pid: int | None
) -> None:
    build = diverged(tmp_path / "run")
    build.elect_controller(1, 0x12).close_session(0x12)
    looked = Broker(why="look", broker=1, pid=pid, czxid=None, session_id=None, znode=None)
    build.observe(looked, -1)
    run = judge_as(build.seal(), findings=[STOPPED])

    sentence = "The registration of controller 1 ended. Its process ran on, and it never "
    assert (f"{sentence}registered again." in told(run)) == (pid is not None)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            11,
            "Broker 0 refused the LeaderAndIsr of leader epoch 3 from controller 7 "
            "(STALE_CONTROLLER_EPOCH); the last that it accepted was of leader epoch 1, with ISR "
            "[0, 1].",
        ),
        (
            None,
            "No LeaderAndIsr of leader epoch 3 was answered by broker 0; the last that it accepted "
            "was of leader epoch 1, with ISR [0, 1].",
        ),
        (0, ""),
    ],
)
def test_a_leader_that_does_not_know_that_it_leads_is_told_by_what_it_answered(
    tmp_path: Path, error: int | None, sentence: str
) -> None:
    build = diverged(tmp_path / "run")
    told_it(build, 1, [0, 1], error=0, correlation_id=50)
    told_it(build, 3, [0], error=error, correlation_id=51)
    run = judge_as(build.seal(), findings=[STOPPED])

    chosen = [text for text in told(run) if "LeaderAndIsr" in text]
    assert chosen == ([sentence] if sentence else [])


def told_it(
    build: RunBuilder, leader_epoch: int, isr: list[int], *, error: int | None, correlation_id: int
) -> None:
    """A LeaderAndIsr to broker 0 and its answer; None for no answer."""
    fields = {"topic": "t", "partition": 0}
    state = fields | {"controller_epoch": 1, "leader": 0, "leader_epoch": leader_epoch, "isr": isr}
    state |= {"partition_epoch": 1, "replicas": [0, 1], "is_new": None}
    number = {"source": 7, "target": 0, "correlation_id": correlation_id, "connection": 9}
    sent = {"controller_id": 7, "controller_epoch": 1, "partitions": [state]}
    to_it = {"api": "LeaderAndIsr", "api_key": 4, **number}
    build.link(**to_it, detail=sent)
    if error is not None:
        answer = {"error_code": error, "partitions": [fields | {"error_code": error}]}
        build.link(**to_it, direction="response", detail=answer)


def test_a_cause_has_at_most_six_sentences(tmp_path: Path) -> None:
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, [0])
    build.produce("x", 0, ["x"], acks=-1, base_offset=0)
    build.produce("y", 0, ["y"], acks=-1, base_offset=1)
    build.state(0, 1, [0]).state(0, 2, [0]).state(1, 3, [1])
    build.snapshot("final", {0: [(0, 3, ["b"])], 1: [(0, 3, ["b"])]}, probed=False)
    run = build.seal()
    loss = LOSS | {"first_offset": 0, "last_offset": 1}
    cut = {"broker": 0, "topic": "t", "partition": 0, "target_offset": 0}
    cut |= {"log_end_offset_before": 2, "high_watermark": 2}
    judge_as(run, findings=[loss], prediction=prediction_of(run) | {"truncations": [cut]})

    sentences = told(run)
    assert len(sentences) == 6
    # Of three elections two have room; the unclean one has decided it.
    assert sum("was elected" in text for text in sentences) == 2
    assert any("the election was unclean" in text for text in sentences)


def test_faults_on_the_brokers_of_the_finding_are_named_first(tmp_path: Path) -> None:
    steps = [
        {"step": "Inject", "name": name, "fault": {"fault": "PauseBroker", "broker": broker}}
        for name, broker in (("a", 5), ("b", 6), ("c", 7), ("d", 0))
    ]
    build = diverged(tmp_path / "run")
    first = len(build.steps)
    build.steps += steps
    for number, name in enumerate("abcd"):
        build.observe(injected(name, "PauseBroker"), first + number)
    build.state(1, 4, [0, 1])
    for name in "abcd":
        build.observe(Healed(name=name), -1)
    run = judge_as(build.seal(), findings=[STOPPED | {"brokers": [0]}])

    assert "while PauseBroker on broker 0, PauseBroker on broker 5 and 2 other faults acted" in (
        " ".join(told(run))
    )


@pytest.mark.parametrize(
    ("api", "is_told"), [("UPDATE_METADATA", True), ("LEADER_AND_ISR", True), ("FETCH", False)]
)
def test_a_broker_that_cannot_read_its_controller_is_told(
    api: str, is_told: bool, tmp_path: Path
) -> None:
    build = diverged(tmp_path / "run")
    line = f"InvalidRequestException: Error getting request for apiKey: {api}, apiVersion: 5, more"
    build.server_log(0, f"{line}\n{line}\n")
    steps = told(judge_as(build.seal(), findings=[STOPPED | {"brokers": [0]}]))

    said = (
        f"Broker 0 could not read {api} of version 5, by its own log: its controller speaks a "
        "protocol that it does not know. So that told it nothing."
    )
    assert steps.count(said) == is_told


CUT_NOTHING = (
    "INFO [Log partition=t-0, dir=/d] Truncating to 4 has no effect as the largest offset in the "
    "log is 3 (kafka.log.Log)"
)
REPLACED = (
    "WARN [LeaderEpochCache t-0] New epoch entry EpochEntry(epoch=1, startOffset=4) caused "
    "truncation of conflicting entries ListBuffer(EpochEntry(epoch=1, startOffset=2), "
    "EpochEntry(epoch=2, startOffset=4)). Cache now contains 2 entries. (LeaderEpochFileCache)"
)


def contradicted(path: Path, *log: str, wrote: bool = False) -> list[str]:
    """Broker 0 led in epoch 2 and wrote nothing, or did; its cache has lost epoch 1 at offset 2."""
    build = RunBuilder(path, release="2.0.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [1, 0]).state(1, 0, [0, 1]).state(1, 1, [0, 1]).state(0, 2, [0, 1])
    build.state(1, 3, [0, 1]).epoch_round(0, 1, 2, answered=1, end_offset=6)
    batches = [(0, 0, ["a", "b"]), (2, 1, ["c", "d"]), (4, 2 if wrote else 1, ["e", "f"])]
    whole = [(0, 0), (1, 2), (3, 6)]
    batches += [(6, 3, ["g"])]
    build.snapshot(
        "final",
        {0: batches, 1: batches},
        epochs={0: [(0, 0), (1, 4), (3, 6)], 1: whole},
        probed=False,
    )
    build.server_log(0, "".join(f"{line}\n" for line in log))
    finding = DIVERGENCE | {
        "kind": "epoch-cache-mismatch",
        "brokers": [0],
        "message": "broker 0: x",
    }
    return told(judge_as(build.seal(), findings=[finding]))


def test_an_epoch_without_records_is_told_to_have_taken_the_place_of_one_that_has_some(
    tmp_path: Path,
) -> None:
    assert contradicted(tmp_path / "run", CUT_NOTHING, REPLACED) == [
        "Broker 0 was elected in leader epoch 2. Its cache has the epoch from offset 4 on, and no "
        "replica has a record of it.",
        "Broker 0 asked where leader epoch 2 ends; broker 1 answered that leader epoch 1 ends at "
        "6.",
        "Its log ended at 4, so it truncated nothing, and the entry of leader epoch 2 stayed. From "
        "2.6.1 on Kafka drops it (KAFKA-10706).",
        "The next batch of its log is of leader epoch 1, at offset 4. Its entry took the place of "
        "leader epoch 1 at 2 and leader epoch 2 at 4.",
        "Broker 0: x. Where leader epoch 0 ends, that broker would answer 4, and not 2.",
    ]


@pytest.mark.parametrize(
    ("log", "wrote", "missing"),
    [
        ([REPLACED], False, "KAFKA-10706"),
        ([CUT_NOTHING.replace("to 4", "to 3"), REPLACED], False, "KAFKA-10706"),
        ([CUT_NOTHING.replace("t-0", "t-1"), REPLACED], False, "KAFKA-10706"),
        ([CUT_NOTHING, REPLACED], True, "was elected"),
        ([CUT_NOTHING, REPLACED.replace("t-0", "t-1")], False, "took the place"),
        ([CUT_NOTHING, REPLACED.replace("startOffset=2", "startOffset=0")], False, "the place"),
    ],
)
def test_of_a_cache_only_what_the_log_says_is_told(
    tmp_path: Path, log: list[str], wrote: bool, missing: str
) -> None:
    said = contradicted(tmp_path / "run", *log, wrote=wrote)
    assert not any(missing in text for text in said)
    assert (said[0] == NOT_KNOWN) == ("the place" in missing)


UNREADABLE: dict[str, Any] = STOPPED | {"kind": "tier-unreadable", "message": "nobody gets them"}


def tiered(folder: Path, name: str, runs: Path = OTHERS, **finding: Any) -> list[str]:
    """The cause of a finding in a stored run."""
    return told(judge_as(unpacked(name, folder, runs=runs), findings=[UNREADABLE | finding]))


@pytest.mark.slow
def test_a_follower_that_built_on_the_remote_tier_is_told_by_what_it_takes_for_local(
    tmp_path: Path,
) -> None:
    sentences = tiered(
        tmp_path, "built-upon-the-tier-3.6.2", brokers=[2], first_offset=0, last_offset=2
    )
    assert sentences == [
        "Broker 2 fetched from broker 1, which answered that the offset is in the remote tier "
        "(OFFSET_MOVED_TO_TIERED_STORAGE). This came 2 times.",
        "Broker 2 then took its leader epochs from the remote tier, up to offset 3, and fetched "
        "from there on.",
        "Broker 2 was elected in leader epoch 6, with ISR [1, 0, 2].",
        "The remote tier has offsets 0 to 2 from broker 1.",
        "Broker 2 says that its local log begins at 0, but its first local batch is at 3. What "
        "lies between it seeks locally, and not in the remote tier.",
        "At the end a reader asked broker 2, the leader, for offsets 0 to 2, and got "
        "OFFSET_OUT_OF_RANGE.",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "pattern", "other", "untold"),
    [
        # What lies before the local log is remote, though a batch of it may still be there.
        ("tier.jsonl", r'"local_start_offset":\d+', '"local_start_offset":5', "local log begins"),
        ("tier.jsonl", r'"local_start_offset":\d+,', "", "local log begins"),
        (
            "brokers/2/server.log",
            "Partition: 0; Leader",
            "Partition: 1; Leader",
            "took its leader epochs",
        ),
    ],
)
def test_what_is_said_of_a_local_log_and_of_another_partition_is_not_told_of_it(
    file: str, pattern: str, other: str, untold: str, tmp_path: Path
) -> None:
    run = unpacked("built-upon-the-tier-3.6.2", tmp_path)
    finding = UNREADABLE | {"brokers": [2], "first_offset": 0, "last_offset": 2}
    assert untold in " ".join(told(judge_as(run, findings=[finding])))
    for path in run.path.glob(file):
        path.write_text(re.sub(pattern, other, path.read_text()))

    assert untold not in " ".join(told(RunDirectory.open(run.path)))


@pytest.mark.slow
def test_a_copy_that_did_not_end_and_an_earlier_election_are_told_for_what_they_are(
    tmp_path: Path,
) -> None:
    sentences = tiered(
        tmp_path, "KIP-405-half-uploaded", ENTRIES, brokers=[0], first_offset=0, last_offset=3
    )

    assert sentences[0].startswith("Broker 0 fetched from broker 1, which answered that the offset")
    assert not [text for text in sentences if "was elected" in text]
    assert (
        "The remote tier has offsets 0 to 1 from broker 0, a copy that did not end, offsets 0 to 1 "
        "from broker 1 and offsets 2 to 3 from broker 1."
    ) in sentences


@pytest.mark.slow
def test_a_follower_that_finds_no_remote_segment_and_a_leader_that_takes_anothers_are_told(
    tmp_path: Path,
) -> None:
    run = unpacked("misled-by-the-tier-3.6.2", tmp_path)
    judge_as(run, findings=[STOPPED | {"brokers": [0]}])
    assert (
        'Broker 0 could not rebuild its log from the remote tier: its own log says "previous '
        'remote log segment metadata was not found".'
    ) in told(run)

    other = UNREADABLE | {"kind": "tier-other-lineage", "first_offset": 1, "last_offset": 2}
    assert told(judge_as(run, findings=[other])) == [
        "Broker 1 was elected in leader epoch 1, with ISR [1], while CutLink on brokers 0 and 1 "
        "and KillBroker on broker 0 acted. It was not in the ISR [0] before: the election was "
        "unclean.",
        "The remote tier has offsets 0 to 2 from broker 0 in leader epoch 0.",
        "At the end a reader asked broker 1, the leader, for offsets 1 to 2, and got other records "
        "than its log has there.",
    ]


@pytest.mark.slow
def test_offsets_that_no_remote_segment_has_are_said_to_be_missing(tmp_path: Path) -> None:
    sentences = tiered(
        tmp_path, "misled-by-the-tier-3.6.2", brokers=[1], first_offset=3, last_offset=3
    )
    assert "The remote tier has no segment with offset 3." in sentences


@pytest.mark.parametrize(
    ("isr", "eligible", "said"),
    [
        ([0], (1,), ""),
        ([0], (), "It was not in the ISR [0] before: the election was unclean"),
        ([], (1,), ""),
        ([], (0,), "It was not in the ISR [], nor eligible as [0] were, before"),
        ([], (), "It was not in the ISR [] before: the election was unclean"),
    ],
)
def test_an_eligible_leader_replica_is_elected_cleanly(
    isr: list[int], eligible: tuple[int, ...], said: str, tmp_path: Path
) -> None:
    build = kraft_run(tmp_path / "run")
    build.state(0 if isr else -1, 1, isr, EligibleLeaderReplicas=eligible)
    build.state(1, 2, [1], EligibleLeaderReplicas=())
    run = judge_as(kraft_snapshot(build).seal(), findings=[AT_0])
    decisions = decisions_of(load(run))
    states = tuple((timed.time, state) for timed, state in decisions.states)

    told_of = uncleanly(
        cast(Any, SimpleNamespace(states=states, decisions=decisions)),
        Term(time=states[-1][0], leader=1, leader_epoch=2, isr=(1,)),
    )

    assert (said in told_of) if said else not told_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "runs", "said"),
    [
        (
            "1.1.1",
            None,
            "From here on healing every fault would not have helped: broker 0 appended offset 7 "
            "in leader epoch 4.",
        ),
        ("KIP-279-3", ENTRIES, "is not known: in the model's explanation of this run more than"),
        ("KAFKA-6119", ENTRIES, "is not known: the model computes it only where replicas differ"),
        ("2.0.1", None, ""),
    ],
)
def test_the_step_after_which_healing_does_not_help_is_told_or_is_not_known(
    name: str, runs: Path | None, said: str, tmp_path: Path
) -> None:
    run = unpacked(name, tmp_path, runs=runs)
    write_judgement(run, judge(run))

    since = no_way_back(load(run))

    assert said in ("" if since is None else since.text)
    assert (since is None) == (not said)
    assert said in unescape(render(run))


def test_it_is_not_known_of_a_run_that_the_model_did_not_follow(tmp_path: Path) -> None:
    run = judge_as(unclean(tmp_path / "run", first=1, second=2).seal(), findings=[AT_0])

    since = no_way_back(load(run))

    assert since is not None
    assert "is not known: the model did not follow this run to its end" in since.text


@pytest.mark.parametrize(
    ("never_rests", "why"),
    [
        (True, "the model's cluster does not come to rest in a state before, once it is healed."),
        (False, "in the model's explanation of this run more than one step may have decided it."),
    ],
)
def test_why_the_step_is_not_known_is_what_the_model_says(
    never_rests: bool, why: str, tmp_path: Path
) -> None:
    run = diverged(tmp_path / "run").seal()
    prediction = {**prediction_of(run), "states": 5, "never_rests": never_rests}
    since = no_way_back(load(judge_as(run, findings=[DIVERGENCE], prediction=prediction)))

    assert since is not None
    assert since.text.endswith(f"is not known: {why}")


@pytest.mark.parametrize(
    ("changed", "is_told"),
    [
        ({}, True),
        ({"states": 0}, False),
        ({"limit": "too many"}, False),
        (
            {
                "truncations": [
                    {
                        "broker": 1,
                        "topic": "t",
                        "partition": 0,
                        "target_offset": 1,
                        "log_end_offset_before": 2,
                        "high_watermark": 1,
                    }
                ]
            },
            False,
        ),
    ],
)
def test_a_follower_that_truncated_nothing_is_told_where_the_whole_run_is_explained(
    changed: dict[str, Any], is_told: bool, tmp_path: Path
) -> None:
    build = RunBuilder(tmp_path / "run", release="0.10.2.2")
    build.register(0, 0x10).register(1, 0x11).topic("t", [0, 1]).state(0, 1, [0, 1])
    build.produce("a", 0, A_ONLY[2], acks=1, base_offset=2)
    build.snapshot("final", logs={0: [BOTH, A_ONLY], 1: [BOTH, A_AGAIN]})
    run = build.seal()
    prediction = {**prediction_of(run), "states": 5, "truncations": [], **changed}
    steps = told(judge_as(run, findings=[DIVERGENCE], prediction=prediction))

    said = "As the model explains the run, broker 1 truncated nothing; offsets 2 to 3 stayed."
    assert (said in steps) == is_told


CLIENTS = Path(__file__).parents[2] / "golden/clients"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "name", "sentences"),
    [
        # The first answer, not what a repetition of the request was answered.
        (
            BORDERS,
            "kafka-9491-2.4.0",
            ["Broker 1 refused the LeaderAndIsr of leader epoch 2 from controller 2 "
             "(OFFSET_OUT_OF_RANGE); the last that it accepted was of leader epoch 1, with ISR "
             "[0]."],
        ),
        # The leader's writes fail since another broker of the ISR asks for ever.
        (
            ENTRIES,
            "KAFKA-10706",
            ["The log of broker 0 ends at 1 and has no record of leader epoch 2, so it could "
             "truncate nothing by that answer."],
        ),
        (
            ENTRIES,
            "KAFKA-14616",
            ["Topic t was deleted, while StopBroker on broker 1 acted. It was made again later.",
             'Broker 1 says in its own log: "Unable to start fetching t-0 with topic ID '
             'iGd5ZoyeSZKgKcuL17T4gg due to InconsistentTopicIdException".'],
        ),
        (
            CASES,
            "shorter_leader_ends_its_follower",
            ['Broker 0 says in its own log: "Exiting because log truncation is not allowed for '
             "partition t-0, current leader's latest offset 1 is less than replica's latest "
             'offset 3".'],
        ),
        (
            ENTRIES,
            "KIP-380-upgrade-window",
            ["Broker 1 registered as generation 60; the StopReplica was made for that one.",
             "Broker 1 registered anew, as generation 83.",
             "The StopReplica reached broker 1 only then. It carried no broker epoch, which "
             "version 0 does not have, and the broker accepted it."],
        ),
        (
            ENTRIES,
            "KIP-380-controller-lost",
            ["The registration of controller 0 ended, while HoldPoint on broker 0, StopBroker on "
             "broker 1 and ExpireSession on broker 0 acted. Its process ran on, and it never "
             "registered again."],
        ),
        (
            ENTRIES,
            "KIP-380-missed-bounce",
            ["Broker 1 is the leader by the last decision, in leader epoch 0, with ISR [1, 2].",
             "Broker 1 registered as generation 93, while PauseBroker on broker 0 acted."],
        ),
        (
            OTHERS,
            "points-2.8.2",
            ["Broker 2 had waited 3.8 s for leader 1 to read its fetch, while SlowFetchReads on "
             "broker 1 acted. It left the ISR, and was out for 0.1 s."],
        ),
        (
            CLIENTS,
            "0.10.2.2-lost",
            ["Broker 0 acknowledged offset 1 with acks=all; the ISR was [0, 1, 2]."],
        ),
        (
            ENTRIES,
            "KAFKA-7128",
            ["Broker 2 came into the ISR only after that: it became [0, 1, 2], while HoldRequests "
             "on brokers 0 and 1, CutLink on brokers 0 and 1 and HoldRequests on brokers 1 and 2 "
             "acted."],
        ),
        (
            ENTRIES,
            "KIP-101-2",
            ["The fault LoseTail took the end of broker 0's log, from offset 1 on."],
        ),
        (
            ENTRIES,
            "KAFKA-7601-jira",
            ["Broker 2 led in leader epoch 1, and appended what a client sent at offsets 5 to 7. "
             "Its batch names no leader epoch."],
        ),
        (
            CLIENTS,
            "2.8.2-hanging",
            ["The client asked its coordinator, broker 0, to abort the transaction, and was told "
             "that it would be so.",
             "The coordinator had broker 0 write a marker that aborts the transaction of producer "
             "0.",
             "Only after that broker 0 got offset 2 in a transaction of producer 0, and appended "
             "that."],
        ),
        (
            ENTRIES,
            "KAFKA-6119",
            ["The coordinator had broker 0 write a marker that aborts the transaction of producer "
             "0. No client had asked for that.",
             "The client asked its coordinator, broker 1, to commit the transaction, and was told "
             "that it would be so."],
        ),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_the_cause_of_a_recorded_run_has_what_decided_it(
    tmp_path: Path, runs: Path, name: str, sentences: list[str]
) -> None:
    run = unpacked(name, tmp_path, runs=runs)
    write_judgement(run, judge(run))

    steps = told(run)
    assert [step for step in steps if step in sentences] == sentences
    assert len(steps) <= 6


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ({"error_code": 0, "partitions": [{"topic": "t", "partition": 0, "error_code": 74}]},
         "answered FENCED_LEADER_EPOCH"),
        ({"error_code": -1, "partitions": []}, "answered UNKNOWN_SERVER_ERROR"),
        (None, "gave no answer that a link saw"),
    ],
)  # fmt: skip
def test_a_leader_that_asks_no_more_for_its_isr_is_told_with_the_last_answer(
    tmp_path: Path, answer: dict[str, Any] | None, sentence: str
) -> None:
    build = diverged(tmp_path / "run")
    numbers: dict[str, Any] = {"source": 0, "target": 1, "correlation_id": 60, "connection": 12}
    numbers |= {"api": "AlterPartition", "api_key": 56}
    wanted = {
        "topic": "t",
        "partition": 0,
        "leader_epoch": 3,
        "new_isr": [0, 1],
        "partition_epoch": 3,
    }
    build.link(**numbers, wall_time_s=build.tick(), detail={"partitions": [wanted]})
    if answer is not None:
        build.link(**numbers, wall_time_s=build.tick(), direction="response", detail=answer)
    run = judge_as(build.seal(), findings=[STOPPED])

    assert (
        "Leader 0 asked its controller for ISR [0, 1] in leader epoch 3; the controller "
        f"{sentence}. It has not asked again." in told(run)
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "sentences", "decisive"),
    [
        (
            "recreated-2.8.2",
            [
                "Topic t was deleted, while StopBroker on broker 1 acted. It was made again later. "
                "Broker 1 was away then, and kept the folder of the deleted topic.",
                "Broker 0 led in leader epoch 0, while StopBroker on broker 1 acted; its records "
                "at offsets 0 to 9 are on broker 0 alone.",
                "As the model explains the run, broker 1 truncated nothing; offsets 0 to 9 stayed.",
                "The ISR became [0, 2, 1]: brokers 0 and 1 count as in sync.",
            ],
            0,
        ),
        (
            "recreated-3.9.1",
            [
                "Topic t was deleted, while StopBroker on broker 1 acted. It was made again later. "
                "Broker 1 was away then, and kept the folder of the deleted topic.",
                "Broker 0 was elected in leader epoch 1, with ISR [0, 2].",
                "Broker 1 refused the LeaderAndIsr of leader epoch 1 from controller 2 "
                "(INCONSISTENT_TOPIC_ID: the request names topic id sP2VCDUhQ0KdTDVWZNHDpA, and "
                "its partition.metadata kzGqa_JZRI6abiCvOZ6rNw); it accepted none of this topic.",
                "Everything is healed, and replication does not recover: broker 1 was not in the "
                "ISR [0, 2] for 20 s, and nothing changed.",
            ],
            2,
        ),
        (
            "topic-id-forgotten-3.9.1",
            [
                "Broker 0 was elected in leader epoch 1, with ISR [0], while KillBroker on broker "
                "1 acted.",
                "Broker 0 refused the LeaderAndIsr of leader epoch 1 from controller 2 "
                "(INCONSISTENT_TOPIC_ID: the request names topic id trzRklOAR4-6-hKHdU4aXg, and "
                "its partition.metadata YojV6y2FR-mcR6TNm4RisQ); the last that it accepted was of "
                "leader epoch 0, with ISR [0, 1].",
                "Everything is healed, and replication does not recover: 2 probe writes with "
                "acks=all are on every in-sync disk, and for 20 s none was acknowledged: the high "
                "watermark stands still.",
            ],
            1,
        ),
    ],
)
def test_a_topic_that_was_made_again_is_told_apart_from_the_one_before(
    name: str, sentences: list[str], decisive: int, tmp_path: Path
) -> None:
    """What was decided about the deleted one is not the new one's, nor are its records."""
    run = unpacked(name, tmp_path, runs=BORDERS)
    write_judgement(run, judge(run))

    steps = cause_of_run(load(run))

    assert [step.text for step in steps] == sentences
    assert [step.is_fatal for step in steps].index(True) == decisive
    assert sum(step.is_fatal for step in steps) == 1


@pytest.mark.slow
def test_a_move_between_folders_is_told_of_a_fetch_loop(tmp_path: Path) -> None:
    run = unpacked("moved-between-folders-3.9.1", tmp_path, runs=OTHERS)
    write_judgement(run, judge(run))

    steps = cause_of_run(load(run))

    (moved,) = [step for step in steps if step.is_fatal]
    assert moved.text == (
        "Leader 0 replaced its replica with the copy in another log directory, while CutLink on "
        "brokers 0 and 1 acted, by its own log. The copy has no leader epoch in which nothing was "
        "written."
    )
    assert steps[-1].text.endswith("25 a second, until a record was written.")
    # The step of somebody's own, and what it noted.
    page = text_report(run, width=400)
    assert "step 12: MoveToOtherDirectory t-0 broker=0" in page
    assert "moved (done=True)" in page
