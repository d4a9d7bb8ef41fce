"""Causes of a finding, in sentences made from the evidence."""

import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.report import render, text_report
from kchaos.harness.report.cause.causes import NOT_KNOWN, cause_of_run
from kchaos.harness.report.cause.elections import uncleanly
from kchaos.harness.report.cause.story import Term
from kchaos.harness.report.cause.unavoidable import no_way_back
from kchaos.harness.report.cause.wording import acting_text
from kchaos.harness.report.leadership import decisions_of
from kchaos.harness.report.loading import load
from kchaos.harness.report.moments import FaultSpan
from tests.golden.stored import ENTRIES, OTHERS, unpacked
from tests.support.kraft_runs import kraft_run, kraft_snapshot
from tests.support.report_runs import (
    A_AGAIN,
    A_ONLY,
    BOTH,
    DIVERGENCE,
    Page,
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


def test_replication_that_stopped_is_told_by_leaders_answers_and_the_brokers_own_log(
    tmp_path: Path,
):
    stopped = DIVERGENCE | {
        "kind": "replication-stopped",
        "brokers": [1],
        "first_offset": -1,
        "last_offset": -1,
        "message": "broker 1 has not caught up",
    }
    ended = stopped | {"kind": "fetcher-ended", "message": "an error ended a fetcher thread"}
    ended |= {"evidence": {"place": "brokers/1/server.log:1"}}
    build = diverged(tmp_path / "run")
    at = build.tick() - 3
    stamp = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S},000"
    build.server_log(1, f"[{stamp}] ERROR Error due to (kafka.server.ReplicaFetcherThread)\n")
    run = judge_as(build.seal(), findings=[ended, stopped])

    *elected, question, logged, finding = told(run)
    # An answer with the start of another epoch decides; the thread's end has its log line's time.
    steps = cause_of_run(load(run))
    assert [step.text for step in steps if step.is_fatal] == [question]
    assert [step.time for step in steps if step.text == logged] == [int(at)]
    assert (
        elected[-1]
        == "Broker 0 was elected leader in leader epoch 3, with ISR [0], while CutLink acted."
    )
    assert question.startswith("Broker 1 asked where leader epoch 2 ends; broker 0 answered")
    assert logged == "An error ended a fetcher thread."
    assert finding == "Broker 1 has not caught up."

    alone = judge_as(diverged(tmp_path / "alone").seal(), findings=[ended])
    assert told(alone) == [*elected, question, logged]


def test_replication_that_stopped_since_nobody_informed_a_broker_names_that_broker(tmp_path: Path):
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1], "message": "it stands"}
    uninformed = stopped | {"kind": "generation-not-initialised", "message": "no LeaderAndIsr"}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[stopped, uninformed])

    steps = cause_of_run(load(run))
    (decisive,) = [step.text for step in steps if step.is_fatal]
    assert decisive == "Broker 1 registered as generation 8, while CutLink acted."
    stays = "Broker 1 fetches nothing, so it does not come into the ISR [0]."
    assert [step.text for step in steps][-3:] == ["No LeaderAndIsr.", stays, "It stands."]


def test_a_leader_that_appends_after_the_next_epoch_had_begun_is_said_to(tmp_path: Path):
    build = RunBuilder(tmp_path / "run", release="0.10.2.2")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 1, [0, 1])
    build.observe(injected("away", "CutZooKeeper"), -1)
    build.state(-1, 2, [1]).produce("late", 0, ["a"], acks=1, base_offset=0)
    build.state(1, 3, [1]).produce("next", 1, ["b"], acks=1, base_offset=0)
    logs = {broker: [(0, -1, [value])] for broker, value in ((0, "a"), (1, "b"))}
    build.snapshot("final", logs, probed=False)

    assert told(judge_as(build.seal(), findings=[AT_0]))[:2] == [
        "Broker 0 led in leader epoch 1, and appended what a client sent at offset 0, while "
        "CutZooKeeper acted. Leader epoch 2 had begun without a leader.",
        "Broker 1 led in leader epoch 3, and appended what a client sent at offset 0, while "
        "CutZooKeeper acted.",
    ]


def test_a_controller_that_stands_still_comes_before_faults_on_other_brokers():
    spans = [
        FaultSpan(name=name, what=f"{name}(broker={broker})", injected=0.0, ended=None, healed=None)
        for name, broker in (("KillBroker", 4), ("PauseBroker", 5), ("HoldController", 3))
    ]
    story = SimpleNamespace(finding=SimpleNamespace(brokers=[1]), faults=spans)
    assert acting_text(cast(Any, story), 1.0) == (
        ", while broker 3 stood still as controller, broker 4 was down and broker 5 was paused"
    )


@pytest.mark.parametrize(
    ("isr", "waits"),
    [
        ([0, 1], " and is in the ISR [0, 1], so writes with acks=all wait for it."),
        ([0], ", so it does not come into the ISR [0]."),
    ],
)
def test_what_waits_for_a_broker_that_nobody_informed(isr: list[int], waits: str, tmp_path: Path):
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, isr).register(1, 0x12)
    build.snapshot("final", {0: [BOTH], 1: [BOTH]}, probed=False)
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [0], "message": "it stands"}
    uninformed = stopped | {"kind": "generation-not-initialised", "brokers": [1]}

    steps = told(judge_as(build.seal(), findings=[stopped, uninformed]))
    assert steps[-2:] == [f"Broker 1 fetches nothing{waits}", "It stands."]


def test_an_answer_above_what_was_cut_off_is_not_told(tmp_path: Path):
    cut = DIVERGENCE | {"kind": "truncated-below-high-watermark", "brokers": [1]}
    run = judge_as(diverged(tmp_path / "run").seal(), findings=[cut])

    assert not [text for text in told(run) if "asked" in text]


def test_the_election_with_which_a_partition_begins_is_no_cause(tmp_path: Path):
    stopped = DIVERGENCE | {"kind": "replication-stopped", "brokers": [1], "message": "it stands"}
    build = RunBuilder(tmp_path / "run", release="1.1.1")
    build.register(0, 0x10).register(1, 0x11)
    build.topic("t", [0, 1]).state(0, 0, [0, 1])
    log = [(0, 0, ["a"])]
    build.produce("both", 0, ["a"], acks=-1, base_offset=0)
    build.snapshot("final", {0: log, 1: log}, probed=False)

    run = judge_as(build.seal(), findings=[stopped])
    assert told(run) == [NOT_KNOWN, "What is known: it stands."]


def test_what_the_evidence_does_not_show_is_not_guessed(tmp_path: Path):
    corrupt = DIVERGENCE | {"kind": "corrupt-batch"}
    other = judge_as(diverged(tmp_path / "kind").seal(), findings=[corrupt])
    lost = judge_as(diverged(tmp_path / "thin").seal(), findings=[LOSS | {"first_offset": 90}])

    assert told(other) == [NOT_KNOWN, f"What is known: {corrupt['message']}."]
    assert told(lost) == [NOT_KNOWN, f"What is known: {LOSS['message']}."]


@pytest.mark.slow
def test_the_page_tells_the_cause_before_the_findings_with_links_to_what_shows_it(tmp_path: Path):
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


def test_a_former_leader_that_acknowledges_is_told_from_the_unclean_election_on(tmp_path: Path):
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
        "Broker 1 was elected leader in leader epoch 1, with ISR [1]. It was not in the ISR [0] "
        "before: the election was unclean.",
        "Broker 0 acknowledged offset 0 with acks=all, as leader of leader epoch 0. Leader epoch 1 "
        "had begun with leader 1; the ISR was [1].",
        "In the end no in-sync replica has these records; brokers 0 and 1 hold other records at "
        "offset 0.",
    ]


@pytest.mark.parametrize(
    "evidence",
    [
        {"operations": None, "held_instead": None},
        {"operations": ["x", {}, {"operation": 1}], "held_instead": {"x": []}},
        {"operations": 7, "held_instead": [1]},
    ],
)
def test_evidence_of_another_form_is_passed_over(tmp_path: Path, evidence: dict[str, Any]):
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


def test_a_truncation_that_cut_off_what_differs_is_not_told_as_one_that_left_it(tmp_path: Path):
    run = unclean(tmp_path / "run", first=-1, second=-1).seal()
    cut = {"broker": 0, "topic": "t", "partition": 0, "target_offset": 0}
    cut |= {"log_end_offset_before": 3, "high_watermark": 0}
    judge_as(run, findings=[AT_0], prediction=prediction_of(run) | {"truncations": [cut]})

    assert not [text for text in told(run) if "truncated" in text]


def test_a_follower_whose_epoch_nobody_knows_keeps_what_lies_below_its_truncation(tmp_path: Path):
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


def test_a_cause_has_at_most_six_sentences(tmp_path: Path):
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


@pytest.mark.parametrize(
    ("api", "is_told"), [("UPDATE_METADATA", True), ("LEADER_AND_ISR", True), ("FETCH", False)]
)
def test_a_broker_that_cannot_read_its_controller_is_told(api: str, is_told: bool, tmp_path: Path):
    build = diverged(tmp_path / "run")
    line = f"InvalidRequestException: Error getting request for apiKey: {api}, apiVersion: 5, more"
    build.server_log(0, f"{line}\n{line}\n")
    steps = told(judge_as(build.seal(), findings=[STOPPED | {"brokers": [0]}]))

    said = (
        f"Broker 0 could not read {api} of version 5, by its own log: its controller speaks a "
        "protocol that it does not know. So the broker learned nothing from it."
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
):
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
):
    said = contradicted(tmp_path / "run", *log, wrote=wrote)
    assert not any(missing in text for text in said)
    assert (said[0] == NOT_KNOWN) == ("the place" in missing)


UNREADABLE: dict[str, Any] = STOPPED | {"kind": "tier-unreadable", "message": "nobody gets them"}


def tiered(folder: Path, name: str, runs: Path = OTHERS, **finding: Any) -> list[str]:
    """The cause of a finding in a stored run."""
    return told(judge_as(unpacked(name, folder, runs=runs), findings=[UNREADABLE | finding]))


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
):
    run = unpacked("built-upon-the-tier-3.6.2", tmp_path)
    finding = UNREADABLE | {"brokers": [2], "first_offset": 0, "last_offset": 2}
    assert untold in " ".join(told(judge_as(run, findings=[finding])))
    for path in run.path.glob(file):
        path.write_text(re.sub(pattern, other, path.read_text()))

    assert untold not in " ".join(told(RunDirectory.open(run.path)))


@pytest.mark.slow
def test_a_follower_that_finds_no_remote_segment_and_a_leader_that_takes_anothers_are_told(
    tmp_path: Path,
):
    run = unpacked("misled-by-the-tier-3.6.2", tmp_path)
    judge_as(run, findings=[STOPPED | {"brokers": [0]}])
    assert (
        'Broker 0 could not rebuild its log from the remote tier: its own log says "previous '
        'remote log segment metadata was not found".'
    ) in told(run)

    other = UNREADABLE | {"kind": "tier-other-lineage", "first_offset": 1, "last_offset": 2}
    assert told(judge_as(run, findings=[other])) == [
        "Broker 1 was elected leader in leader epoch 1, with ISR [1], while brokers 0 and 1 "
        "could not reach each other and broker 0 was down. It was not in the ISR [0] before: the "
        "election was unclean.",
        "The remote tier has offsets 0 to 2 from broker 0 in leader epoch 0.",
        "At the end a reader asked broker 1, the leader, for offsets 1 to 2, and got other records "
        "than its log has there.",
    ]


@pytest.mark.slow
def test_offsets_that_no_remote_segment_has_are_said_to_be_missing(tmp_path: Path):
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
):
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
        ("1.1.1", None, "the damage was permanent: broker 0 appended offset 7 in leader epoch 4."),
        ("KIP-279-3", ENTRIES, "is not known: in the model's explanation of this run more than"),
        ("KAFKA-6119", ENTRIES, "is not known: the model computes it only where replicas differ"),
        ("2.0.1", None, ""),
    ],
)
def test_the_step_after_which_healing_does_not_help_is_told_or_is_not_known(
    name: str, runs: Path | None, said: str, tmp_path: Path
):
    run = unpacked(name, tmp_path, runs=runs)
    write_judgement(run, judge(run))

    since = no_way_back(load(run))

    assert said in ("" if since is None else since.text)
    assert (since is None) == (not said)
    assert said in unescape(render(run))


def test_it_is_not_known_of_a_run_that_the_model_did_not_follow(tmp_path: Path):
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
):
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
):
    build = RunBuilder(tmp_path / "run", release="0.10.2.2")
    build.register(0, 0x10).register(1, 0x11).topic("t", [0, 1]).state(0, 1, [0, 1])
    build.produce("a", 0, A_ONLY[2], acks=1, base_offset=2)
    build.snapshot("final", logs={0: [BOTH, A_ONLY], 1: [BOTH, A_AGAIN]})
    run = build.seal()
    prediction = {**prediction_of(run), "states": 5, "truncations": [], **changed}
    steps = told(judge_as(run, findings=[DIVERGENCE], prediction=prediction))

    said = "Broker 1 followed again, by the model, and truncated nothing; offsets 2 to 3 stayed."
    assert (said in steps) == is_told
