"""Rules that are not followed, and when a run that is not as predicted is unknown for one."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.judge import judge, rules_of
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.not_modelled import MATTERS, not_modelled
from kchaos.checkers.rules import Judged
from tests.golden.stored import BORDERS, HARD, unpacked


def test_every_rule_says_how_it_is_predicted() -> None:
    assert [rule.name for rule in EVERY_RULE if rule.change is None and not rule.followed] == []


def test_every_rule_that_is_not_followed_says_when_it_matters() -> None:
    not_followed = {rule.name for rule in EVERY_RULE if rule.followed in ("always", "never")}
    assert not_followed == {*MATTERS}


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("diverging-2.8.0-at-2.6", ["KAFKA-13207"]),
        ("diverging-2.8.1-at-2.6", []),
        ("records-deleted-1.1.1", []),
    ],
)
def test_a_rule_matters_on_the_releases_that_are_predicted_otherwise(
    name: str, rules: list[str], tmp_path: Path
) -> None:
    findings = [*not_modelled(RunEvidence(unpacked(name, tmp_path, runs=BORDERS)))]
    assert [
        next(rule for rule in rules if f"{rule} may be why" in each) for each in findings
    ] == rules


@pytest.mark.slow
def test_a_run_that_is_not_as_predicted_is_unknown_where_such_a_rule_may_be_why(
    tmp_path: Path,
) -> None:
    run = unpacked("diverging-2.8.0-at-2.6", tmp_path, runs=BORDERS)
    unlike = Finding(kind="not-as-predicted", message="the epoch cache differs")

    def rules(evidence: RunEvidence, prediction: object) -> Judged:
        return replace(rules_of(evidence, None), findings=(unlike,))

    assert judge(run).conforms is True
    results = judge(run, rules=rules)
    assert results.conforms is None
    assert "KAFKA-13207 may be why" in (results.unknown or "")


@pytest.mark.parametrize(
    ("name", "topics"),
    [("2.1.1-fetch-waits-over-a-deletion", 2), ("3.6.2-deleted-before", 0), ("1.1.1-deleted", 0)],
)
def test_a_topic_that_was_made_again_matters_where_appends_look_at_fetches_from_before(
    name: str, topics: int, tmp_path: Path
) -> None:
    why = [*not_modelled(RunEvidence(unpacked(name, tmp_path, runs=HARD)))]
    assert len([each for each in why if "KAFKA-9198 may be why" in each]) == topics
