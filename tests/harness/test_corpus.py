"""Corpus of a night: what it keeps, which parents it chooses, and mutants that are legal."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign.corpus import (
    FIRST_RUNS,
    MUTANTS,
    Corpus,
    Kept,
    add_run,
    coverage_of,
    name_of,
    read_corpus,
)
from kchaos.harness.campaign.schedules import DrawnSchedules, Due
from kchaos.harness.player import mutating
from kchaos.harness.player.drawing import view_of
from kchaos.harness.player.legal import illegal_steps
from kchaos.harness.player.mutating import acts_of, mutated
from kchaos.harness.summary.rates import mix_of

PLAN = DrawnSchedules(kafkas=("2.8.2",), seed=7, mixes={"mixed": 1.0}, steps=6, gated=True)
KEYS = ("2.8.2", "zookeeper")


def drawn(seed: int, kafka: str = "2.8.2", mix: str = "mixed") -> k.Scenario:
    return k.draw(seed, kafka=kafka, steps=10, mix=mix)


def a_run(*points: str, seed: int = 1, **more: Any) -> Kept:
    given = {"kafka": KEYS[0], "mode": KEYS[1], "mix": "mixed", **more}
    return Kept(points=points, scenario=json.loads(json.dumps(drawn(seed).to_json())), **given)


def after_runs(*runs: Kept) -> Corpus:
    corpus = Corpus()
    for run in runs:
        corpus = corpus.with_run(run)
    return corpus


def mutant(seed: int, first: k.Scenario, other: k.Scenario, mix: str = "mixed") -> k.Scenario:
    release = first.release
    return mutated(seed, first, other, mix=mix, steps=10, gated=True, release=release)


def test_a_schedule_is_kept_for_a_point_that_is_new_or_rare():
    corpus = after_runs(a_run("a"), a_run("a", seed=2), a_run("a", seed=3), a_run("a", "b", seed=4))
    assert [kept.scenario["seed"] for kept in corpus.kept] == [1, 2, 4]
    assert corpus.counts(*KEYS).points == {"a": 4, "b": 1}
    assert corpus.counts(*KEYS).runs == 4


def test_each_kafka_and_mode_has_points_of_its_own():
    many = [a_run("a", seed=seed) for seed in range(3)]
    corpus = after_runs(*many, a_run("a", mode="kraft"), a_run("a", kafka="3.9.1"))
    assert [kept.is_of for kept in corpus.kept[2:]] == [("2.8.2", "kraft"), ("3.9.1", "zookeeper")]


def test_a_full_corpus_drops_what_only_came_to_common_points(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kchaos.harness.campaign.corpus._MOST_KEPT", 2)
    corpus = after_runs(a_run("a"), a_run("a", "b", seed=2), a_run("a", "b", "c", seed=3))
    assert [kept.scenario["seed"] for kept in corpus.kept] == [2, 3]


def test_the_same_seed_and_corpus_give_the_same_parents_and_rare_points_come_first():
    common = [a_run("a", seed=seed) for seed in range(2)]
    corpus = after_runs(*common, *[a_run("a")] * (FIRST_RUNS - 3))
    assert {corpus.parents(seed, *KEYS, ["mixed"]) for seed in range(20)} == {None}
    corpus = corpus.with_run(a_run("a", "rare", seed=9))
    chosen = [corpus.parents(seed, *KEYS, ["mixed"]) for seed in range(200)]
    assert chosen == [corpus.parents(seed, *KEYS, ["mixed"]) for seed in range(200)]
    firsts = Counter(found[1].seed for found in chosen if found is not None)
    assert firsts[9] > 2 * (firsts[0] + firsts[1]) > 0
    assert 200 * MUTANTS - 30 < firsts.total() < 200 * MUTANTS + 30


def test_nothing_of_another_kafka_mode_or_mix_is_mutated():
    corpus = after_runs(*[a_run("a")] * FIRST_RUNS)
    assert any(corpus.parents(seed, *KEYS, ["mixed"]) for seed in range(20))
    for given in (
        ("3.9.1", "zookeeper", ["mixed"]),
        ("2.8.2", "kraft", ["mixed"]),
        (*KEYS, ["cuts"]),
    ):
        assert {corpus.parents(seed, *given) for seed in range(20)} == {None}


def test_a_file_keeps_the_corpus_and_nights_add_to_the_same(tmp_path: Path):
    file = tmp_path / "made" / "corpus.json"
    assert read_corpus(file) == Corpus()
    one = add_run(file, a_run("a"))
    assert read_corpus(file) == one
    assert add_run(file, a_run("b", seed=2)).kept == (*one.kept, a_run("b", seed=2))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ('{"version": 2, "covered": [], "kept": []}', "of version 2, and this kchaos reads 1"),
        ("{}", "it has no version"),
        ("[]", "it has no version"),
        ("not JSON", "cannot be read as a corpus"),
        ('{"version": 1, "covered": 5}', "covered"),
    ],
)
def test_another_file_is_refused_by_a_line_that_says_why(content: str, why: str, tmp_path: Path):
    file = tmp_path / "corpus.json"
    file.write_text(content)
    with pytest.raises(k.UsageError, match=why) as refused:
        read_corpus(file)
    assert str(file) in str(refused.value)
    assert "--corpus" in str(refused.value)


def test_a_schedule_that_cannot_be_read_is_refused_by_name():
    broken = replace(a_run("a"), scenario={"format": 1, "steps": 7})
    with pytest.raises(k.UsageError, match=r"a schedule for 2\.8\.2 .*--corpus"):
        [after_runs(*[broken] * FIRST_RUNS).parents(seed, *KEYS, ["mixed"]) for seed in range(9)]


def test_coverage_is_of_points_occasions_and_rules_that_decided():
    line = RunLine(
        points=("p",), occasions={"o": 3}, rules={"asked": ("r",), "in_force": ("r", "s")}
    )
    assert coverage_of(line) == ("p", "occasion: o", "rule: r")


@pytest.mark.slow
@pytest.mark.parametrize("kafka", ["1.1.1", "2.8.2", "4.1.2"])
@pytest.mark.parametrize("mix", ["mixed", "rare", "admin", "logs", "topics"])
def test_a_mutant_is_legal_the_same_again_and_readable(kafka: str, mix: str):
    parents = [drawn(seed, kafka, mix) for seed in range(3)]
    made = [mutant(seed, parents[seed % 3], parents[seed % 2], mix) for seed in range(9)]
    for seed, scenario in enumerate(made):
        assert illegal_steps(view_of(scenario, kafka), scenario.steps) == []
        read = k.Scenario.from_json(json.loads(json.dumps(scenario.to_json())))
        assert read == scenario
        assert scenario == mutant(seed, parents[seed % 3], parents[seed % 2], mix)
        assert mutant(1, read, parents[0], mix) == mutant(1, scenario, parents[0], mix)
        assert len(acts_of(scenario)) >= 9
    assert len({str(acts_of(scenario)) for scenario in (*made, *parents)}) > 9


def test_a_fault_that_a_mutant_doubles_has_two_names_and_both_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mutating, "_CHANGES", (mutating._doubled,))
    for seed in range(20):
        acts = acts_of(mutant(seed, drawn(3), drawn(4)))
        names = [act.name for act in acts if isinstance(act, k.Inject)]
        assert len(names) == len(set(names))
        assert {act.name for act in acts if isinstance(act, k.Heal)} <= set(names)


def test_each_change_is_of_the_parents_acts():
    acts, others = acts_of(drawn(3)), acts_of(drawn(4))
    lengths = {
        change.__name__: len(change(Random(2), acts, others)) - len(acts)
        for change in mutating._CHANGES
    }
    assert lengths["_moved"] == 0
    assert lengths["_renewed"] == 1
    assert lengths["_doubled"] > 0 > lengths["_left_out"]
    spliced = [act for seed in range(9) for act in mutating._spliced(Random(seed), acts, others)]
    assert any(act in others for act in spliced)
    assert any(act in acts for act in spliced)


def test_the_case_of_a_mutant_tells_its_parents_and_counts_as_one_kind():
    due = Due(seed=5, kafka="2.8.2", release="2.8.2", mix="mixed", parents=(drawn(1), drawn(2)))
    planted = replace(PLAN, planted="acknowledged-early")
    for plan in (PLAN, planted):
        scenario = plan.draw(due)
        assert scenario.case.endswith(f"-mutated-{name_of(due.parents)}")
        assert scenario == plan.draw(due)
        line = plan.line_of(due)
        assert mix_of(line) == line.case.rpartition("-")[0]
    assert planted.plain(due) == PLAN.plain(due)
    other = replace(due, parents=(drawn(2), drawn(1)))
    assert PLAN.line_of(other).case != PLAN.line_of(due).case
