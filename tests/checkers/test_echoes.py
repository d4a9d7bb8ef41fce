"""One observation that nothing explains is one finding, however much differs because of it."""

from dataclasses import replace
from pathlib import Path

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.judge import judge, rules_of
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow.observations import ClientAnswered
from kchaos.checkers.model.values.prediction import EmptiedBy, Prediction
from kchaos.checkers.record import record_of
from kchaos.checkers.results import read_judgement, write_judgement
from kchaos.checkers.rules.echoes import with_consequences
from tests.golden.stored import unpacked

OBSERVATION = Finding(
    kind="not-as-predicted", message="links.jsonl:9: no", evidence={"what": "observation"}
)


def with_another_acknowledgement(evidence: RunEvidence) -> Prediction:
    record = record_of(evidence)
    at, answered = next(
        (index, item.what)
        for index, item in enumerate(record.seen)
        if isinstance(item.what, ClientAnswered)
    )
    seen = list(record.seen)
    seen[at] = replace(seen[at], what=replace(answered, base_offset=answered.base_offset + 1))
    return follow(replace(record, seen=tuple(seen)))


def predicted(*explained: tuple[str, int]) -> Prediction:
    emptied = EmptiedBy(source="links.jsonl:9", what="ResponseSeen", why="no", explained=explained)
    return Prediction(snapshots={}, produces=(), rounds=(), truncations=(), emptied_by=emptied)


def difference(snapshot: str, what: str = "batches") -> Finding:
    return Finding(
        kind="not-as-predicted",
        topic="t",
        partition=0,
        brokers=(1,),
        snapshot=snapshot,
        message=f"broker 1: its {what} differ",
        evidence={"what": what},
    )


def test_an_answer_that_nothing_explains_is_one_finding_that_names_what_follows(tmp_path: Path):
    run = unpacked("2.8.2", tmp_path)
    prediction = with_another_acknowledgement(RunEvidence(run))

    every = rules_of(RunEvidence(run), prediction).findings
    results = judge(run, predict=lambda _: prediction)

    told = [finding for finding in results.findings if finding.question is Question.CONFORMANCE]
    assert results.conforms is False
    assert len([each for each in every if each.question is Question.CONFORMANCE]) > 20
    assert [each.evidence["what"] for each in told] == ["observation"]
    assert told[0].evidence["number"] > 20
    assert "before-healing: broker 1: its batches" in str(told[0].evidence["consequences"])
    write_judgement(run, results)
    assert read_judgement(run, run.judgements()[-1]).findings == results.findings


def test_what_a_snapshot_shows_that_was_explained_before_stays_a_finding():
    findings = (OBSERVATION, difference("level"), difference("final"))

    told = with_consequences(findings, predicted(("level", 0), ("level", 1), ("final", 0)))

    assert [each.snapshot for each in told] == ["", "level"]
    assert told[0].message == "links.jsonl:9: no; 1 difference later follows from it"
    assert told[0].evidence["consequences"] == ["final: broker 1: its batches differ"]


def test_what_no_prediction_of_the_rest_says_stays_a_finding():
    safety = Finding(kind="divergence", snapshot="final", brokers=(0, 1), message="they differ")
    independent = difference("final", "high-watermark-observed"), difference("final", "directory")
    findings = (OBSERVATION, safety, *independent)

    assert with_consequences(findings, predicted()) == findings


def test_without_such_an_observation_every_difference_is_a_finding():
    findings = (difference("level"), difference("final"))
    explained = replace(predicted(), emptied_by=None)

    assert with_consequences(findings, explained) == findings
    assert with_consequences(findings, None) == findings
