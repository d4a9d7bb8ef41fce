"""A fast part of `python -m tests.mutants`: each kind of change once, the releases in turn."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kchaos.checkers.judge import judge
from tests.golden.stored import OTHER_NAMES, RELEASES, RUNS, unpacked
from tests.mutants.kinds import KINDS
from tests.mutants.run_copy import RunCopy
from tests.mutants.suite import OF_KRAFT, OF_OTHERS, Judged, judge_path, judged_mutants, wrong
from tests.mutants.survivors import OF_TIERED, SURVIVORS

pytestmark = pytest.mark.slow

KRAFT, CLIENTS = RUNS.with_name("kraft"), RUNS.with_name("clients")
_SHARES = 10
_GOLDEN = tuple(RELEASES[place * (len(RELEASES) - 1) // (_SHARES - 1)] for place in range(_SHARES))
_RARE = ("compacted-2.8.2", "late-stop-replica-2.1.1", "whole-3.9.1", "tiered-3.9.1")
"""Runs that have the evidence which no golden run has, and a kind changes."""
_KRAFT = ("3.9.1-leader-killed", "4.1.2-moved", "4.4.0-linked", "4.0.2-zombie")


@pytest.mark.parametrize("share", range(_SHARES))
def test_no_change_of_evidence_is_believed_that_is_not_in_the_list(share: int, tmp_path: Path):
    """Each kind once; a run that has nothing of it leaves it to the next."""
    kinds = [kind for kind in KINDS.values() if kind.area not in (*OF_OTHERS, OF_KRAFT)]
    kinds = kinds[share::_SHARES]
    judged: list[Judged] = []
    for name in (*_GOLDEN[share:], *_GOLDEN[:share], *_RARE):
        left = [kind for kind in kinds if kind.name not in named(judged)]
        if left:
            judged += judged_mutants(unpacked(name, tmp_path), left, tmp_path)

    assert named(judged) == {kind.name for kind in kinds}
    assert wrong(judged) == []


def named(judged: Iterable[Judged]) -> set[str]:
    return {mutant.kind for mutant in judged}


@pytest.mark.parametrize("area", OF_OTHERS)
def test_no_change_of_what_only_some_runs_have_is_believed(area: str, tmp_path: Path):
    """Each kind once, the runs in turn; a run that has nothing of it leaves it to the next."""
    kinds = [kind for kind in KINDS.values() if kind.area == area]
    runs = [unpacked(name, tmp_path) for name in OTHER_NAMES if name.startswith(OF_OTHERS[area])]
    judged: list[Judged] = []
    for turn in range(len(runs)):
        done = named(judged)
        for place, run in enumerate(runs):
            due = kinds[(place - turn) % len(runs) :: len(runs)]
            judged += judged_mutants(run, [kind for kind in due if kind.name not in done], tmp_path)

    assert named(judged) == {kind.name for kind in kinds}
    assert wrong(judged) == []


@pytest.mark.parametrize(("area", "absent"), [(OF_KRAFT, 0), ("links", 18)])
def test_no_change_of_what_brokers_read_of_the_metadata_log_is_believed(
    area: str, absent: int, tmp_path: Path
):
    """Each kind once, the runs in turn. No control request is sent with KRaft: kinds are absent."""
    kinds = [kind for kind in KINDS.values() if kind.area == area]
    judged: list[Judged] = []
    for turn in range(2 * len(_KRAFT)):
        left = [kind for kind in kinds if kind.name not in named(judged)]
        share = left if turn >= len(_KRAFT) else left[turn :: len(_KRAFT)]
        run = unpacked(_KRAFT[turn % len(_KRAFT)], tmp_path / str(turn))
        judged += judged_mutants(run, share, tmp_path)

    assert len(kinds) - len(named(judged)) == absent
    assert wrong(judged) == []


def test_no_change_of_a_state_is_believed_of_a_partition_that_had_no_leader(tmp_path: Path):
    kinds = [kind for name, kind in KINDS.items() if name.startswith("zookeeper: a state, ")]

    judged = list(judged_mutants(unpacked("compacted-2.8.2", tmp_path), kinds, tmp_path))

    assert len(judged) > len(kinds) / 2
    assert wrong(judged) == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("snapshots: an ISR of the leader alone", "snapshot 'final'"),
        ("snapshots: a topic that nobody made", "not-as-predicted"),
        ("snapshots: an earlier snapshot is not there", "and has no snapshot.json"),
        ("links: another target", "connection"),
        ("alike: the control bit", "not-as-sent"),
        ("alike: a header", "not-as-sent"),
        ("alike: the log begins later at the end", "loss"),
        ("checkpoints: high watermarks, far too high", "not-as-predicted"),
    ],
)
def test_what_one_change_comes_to_is_said(name: str, said: str, tmp_path: Path):
    (judged_mutant,) = judged_mutants(unpacked("2.8.2", tmp_path), [KINDS[name]], tmp_path)

    assert not judged_mutant.is_believed
    assert said in judged_mutant.said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bytes: the segment has another name", "corrupt-batch"),
        ("checkpoints: log-start-offset-checkpoint, raised", "nothing may expire"),
        ("links: another question for an epoch", "local log begins"),
        ("links: another end of an epoch", "by its leader's epochs"),
        ("links: another answered epoch", "by its leader's epochs"),
        ("links: an error for an epoch", "goes on after"),
    ],
)
def test_what_a_follower_builds_upon_the_tier_is_checked(name: str, said: str, tmp_path: Path):
    (judged_mutant,) = judged_mutants(unpacked("tiered-3.9.1", tmp_path), [KINDS[name]], tmp_path)

    assert not judged_mutant.is_believed
    assert said in judged_mutant.said


@pytest.mark.parametrize(
    ("name", "seed", "said"),
    [
        ("points: a leader tells of another follower", 4, "not all of them replicas"),
        ("points: a follower caught up in the future", 1, "later on"),
        ("points: a follower fetched in the future", 4, "there was one, or there was none"),
        ("snapshots: an earlier zxid", 0, "snapshot 'final' has zxid"),
        ("zookeeper: a state by another broker", 0, "all ask the controller"),
    ],
)
def test_what_a_leader_says_before_any_fetch_and_who_writes_is_checked(
    name: str, seed: int, said: str, tmp_path: Path
):
    run = unpacked("points-2.8.2", tmp_path)

    (judged_mutant,) = judged_mutants(run, [KINDS[name]], tmp_path, seed=seed)

    assert not judged_mutant.is_believed
    assert said in judged_mutant.said


@pytest.mark.parametrize(
    "name",
    [
        "zookeeper: an ISR that nobody wrote",
        "zookeeper: an election that nobody made, the leader in a shrunk ISR",
    ],
)
@pytest.mark.parametrize("release", ["0.11.0.3", "1.1.1"])
def test_replicas_that_settling_saw_differ_are_not_hidden_by_another_isr(
    name: str, release: str, tmp_path: Path
):
    (judged_mutant,) = judged_mutants(unpacked(release, tmp_path), [KINDS[name]], tmp_path)

    assert judged_mutant.is_of_unsafe
    assert not judged_mutant.is_flipped
    assert "in the last snapshot the ISR is" in judged_mutant.said


@pytest.mark.parametrize(
    ("runs", "run", "name", "said"),
    [
        (KRAFT, "3.9.1-last-replica", "withdrawn: clean stops were kills", "ended with 143"),
        (
            KRAFT,
            "3.9.1-last-replica",
            "withdrawn: a follower in sync did not run at the end",
            "had a process",
        ),
        (RUNS, "1.1.1", "withdrawn: the leader's files on every in-sync replica at the end", "has"),
    ],
)
def test_a_change_that_withdraws_a_loss_or_a_divergence_leaves_the_run_unknown(
    runs: Path, run: str, name: str, said: str, tmp_path: Path
):
    unsafe = unpacked(run, tmp_path, runs=runs)
    copy = RunCopy.of(unsafe, tmp_path / "mutant", Random(1))
    KINDS[name].mutate(copy)

    results, _ = judge_path(copy.sealed().path)

    assert judge(unsafe).safe is False
    assert results is not None
    assert results.safe is None
    assert said in (results.unknown or "")


def test_without_links_nobody_says_that_no_transaction_hangs(tmp_path: Path):
    copy = RunCopy.of(unpacked("2.8.2-hanging", tmp_path, runs=CLIENTS), tmp_path / "m", Random(1))
    copy.remove("links.jsonl")

    results, _ = judge_path(copy.sealed().path)

    assert results is not None
    assert results.safe is None
    assert "which markers ended the transactions" in (results.unknown or "")


def test_no_reason_excuses_that_an_unsafe_run_becomes_safe(tmp_path: Path):
    kind = KINDS["zookeeper: garbage behind the log"]
    (believed,) = judged_mutants(unpacked("1.1.1", tmp_path), [kind], tmp_path)

    assert wrong([believed]) == []
    (said,) = wrong([replace(believed, is_flipped=True)])
    assert "the mutant safe" in said


def test_a_timestamp_that_every_replica_has_and_nobody_sent_is_found(tmp_path: Path):
    kind = KINDS["alike: both timestamps, a second later"]

    (judged_mutant,) = judged_mutants(unpacked("forged-2.0.1", tmp_path), [kind], tmp_path)

    assert "not-as-sent" in judged_mutant.said


def test_there_are_many_kinds_and_every_one_in_the_list_exists():
    assert len(KINDS) >= 150
    assert {*SURVIVORS, *OF_TIERED} <= set(KINDS)


def test_a_damaged_checkpoint_costs_none_of_the_other_findings(tmp_path: Path):
    copy = RunCopy.of(unpacked("2.8.2", tmp_path), tmp_path / "damaged", Random(1))
    KINDS["checkpoints: high watermarks, garbage"].mutate(copy)
    KINDS["alike: the control bit"].mutate(copy)

    results, _ = judge_path(copy.sealed().path)

    assert results is not None
    assert not results.crashes
    assert {"corrupt-checkpoint", "not-as-sent"} <= {finding.kind for finding in results.findings}
