"""The outcome of a run, in a sentence made of its findings."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.outcome import SENTENCES, facts_of
from kchaos.checkers.results import Results
from kchaos.checkers.verdict import NOT_PREDICTED

SAFE = "in-sync replicas agree and hold every promised record"

DIVERGENCE = Finding(
    kind="divergence",
    topic="t",
    partition=0,
    brokers=(0, 1),
    first_offset=11,
    last_offset=20,
    message="-",
)


def results(*findings: Finding, safe: bool | None, **more: object) -> Results:
    return Results(
        release="1.1.1",
        conforms=True,
        safe=safe,
        expected=True,
        findings=findings,
        path=Path("run"),
        prediction=None,
        **more,  # type: ignore[arg-type]
    )


def test_every_kind_about_safety_has_a_sentence():
    safety = {name for name, kind in KINDS.items() if kind.question is Question.SAFETY}
    assert set(SENTENCES) == safety


def test_a_sentence_reads_with_a_broker_with_two_and_with_none():
    for kind, sentence in SENTENCES.items():
        of_one = Finding(kind=kind, topic="t", partition=0, brokers=(1,), message="-")
        of_two = Finding(kind=kind, topic="t", partition=0, brokers=(0, 1), message="-")
        of_none = Finding(kind=kind, message="-")
        for finding in (of_one, of_two, of_none):
            (fact,) = facts_of([finding])
            assert "{" not in fact, kind
            assert not fact.startswith(" "), kind
        if "{brokers}" in sentence:
            assert "broker 1 " in facts_of([of_one])[0] + " ", kind
            assert "broker 1 hold " not in facts_of([of_one])[0], kind


def test_the_worst_is_told_first_and_the_rest_is_counted():
    stopped = Finding(kind="replication-stopped", topic="t", partition=0, brokers=(2,), message="-")
    hole = Finding(
        kind="hole",
        topic="u",
        partition=1,
        brokers=(1,),
        first_offset=3,
        last_offset=3,
        message="-",
    )
    assert results(stopped, hole, DIVERGENCE, safe=False).outcome == (
        "Kafka 1.1.1: brokers 0 and 1 hold different records of t-0 at offsets 11 to 20; "
        "the log of u-1 on broker 1 has a hole at offset 3; and 1 more finding"
    )


def test_findings_of_a_kind_and_partition_are_told_together():
    further = Finding(
        kind="divergence",
        topic="t",
        partition=0,
        brokers=(1, 2),
        first_offset=25,
        last_offset=25,
        message="-",
    )
    assert facts_of([DIVERGENCE, further]) == [
        "brokers 0, 1 and 2 hold different records of t-0 at offsets 11 to 20 and 25"
    ]


def test_unknown_and_safe_are_told_as_such():
    unknown = results(DIVERGENCE, safe=None, unknown="no snapshot was taken\nmore")
    assert unknown.outcome == "Kafka 1.1.1: unknown: no snapshot was taken"
    assert results(safe=True).outcome == f"Kafka 1.1.1: {SAFE}"


@pytest.mark.parametrize(
    ("unknown", "reason"),
    [
        ("the model gave up: 60000 states\nmore; and more", "the model gave up: 60000 states"),
        ("clients wrote what the model does not follow: transactions; another", "transactions"),
        (NOT_PREDICTED, "a KRaft cluster without links, or of combined nodes, is not predicted"),
        (None, "the judgement gives no reason"),
    ],
)
def test_a_safe_run_of_unknown_conformance_says_so_and_why(unknown: str | None, reason: str):
    outcome = replace(results(safe=True, unknown=unknown), conforms=None).outcome
    assert outcome.startswith(f"Kafka 1.1.1: {SAFE}; conformance unknown: ")
    assert outcome.endswith(reason)


def test_a_failed_assertion_reads_like_a_sentence():
    shown = repr(results(DIVERGENCE, safe=False))
    assert "brokers 0 and 1 hold different records of t-0 at offsets 11 to 20" in shown
    assert "run: run" in shown
    assert len(shown) < 200


def test_offsets_between_findings_are_not_told():
    def lost(first: int, last: int) -> Finding:
        return replace(DIVERGENCE, kind="committed-loss", first_offset=first, last_offset=last)

    (fact,) = facts_of([lost(8, 9), lost(3, 3), lost(4, 4)])
    assert fact == "promised records of t-0 are lost at offsets 3 to 4 and 8 to 9"
    (fact,) = facts_of([lost(7, 7), lost(3, 3)])
    assert fact == "promised records of t-0 are lost at offsets 3 and 7"
    (fact,) = facts_of([lost(number, number) for number in (1, 3, 5, 7)])
    assert fact == "promised records of t-0 are lost at offsets 1 to 7, with gaps"
