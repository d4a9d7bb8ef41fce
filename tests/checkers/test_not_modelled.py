"""Rules that are not followed, and when a run that is not as predicted is unknown for one."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.checkers.acts import LoseFile, StartBroker, TopicPartition
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.judge import judge, rules_of
from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.values.events import ReplicaMoved
from kchaos.checkers.not_modelled import MATTERS, Reach, not_modelled
from kchaos.checkers.observations import Act
from kchaos.checkers.rules import Judged
from tests.golden.stored import BORDERS, HARD, unpacked


def test_every_rule_says_how_it_is_predicted():
    assert [rule.name for rule in EVERY_RULE if rule.change is None and not rule.followed] == []


def test_every_rule_that_is_not_followed_says_when_it_matters():
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
):
    excuses = [*not_modelled(RunEvidence(unpacked(name, tmp_path, runs=BORDERS)))]
    assert [excuse.why.partition(" may be why")[0] for excuse in excuses] == rules


@pytest.mark.slow
def test_a_run_that_is_not_as_predicted_is_unknown_where_such_a_rule_may_be_why(tmp_path: Path):
    run = unpacked("diverging-2.8.0-at-2.6", tmp_path, runs=BORDERS)
    unlike = Finding(kind="not-as-predicted", message="the epoch cache differs")

    def rules(evidence: RunEvidence, prediction: object) -> Judged:
        return replace(rules_of(evidence, None), findings=(unlike,))

    assert judge(run).conforms is True
    results = judge(run, rules=rules)
    assert results.conforms is None
    assert "KAFKA-13207 may be why" in (results.unknown or "")


ABOUT_T = {"what": "observation", "kind": "RequestSeen", "reason": "_: fetched from _"}


@pytest.mark.parametrize(
    ("message", "fields", "is_covered"),
    [
        ("batches differ", {"topic": "t", "partition": 0}, True),
        ("batches differ", {"topic": "t", "partition": 1}, False),
        ("t-0: fetched from 2", {"evidence": ABOUT_T}, True),
        ("u-0: fetched from 2", {"evidence": ABOUT_T}, False),
        # Seen before the follower was told of an epoch that diverges.
        ("t-0: fetched from 2", {"evidence": ABOUT_T | {"source": "links.jsonl:1"}}, False),
        (
            "t-0: high watermark 2, possible was 1",
            {"evidence": ABOUT_T | {"reason": "_: high watermark _"}},
            False,
        ),
        (
            "t-0: the checkpoint of broker 1",
            {"evidence": ABOUT_T | {"kind": "HighWatermarkObserved"}},
            False,
        ),
        ("produce p1", {"topic": "t", "partition": 0, "evidence": {"what": "produce"}}, False),
    ],
)
def test_an_excuse_has_a_partition_a_time_and_kinds_of_findings(
    message: str, fields: dict[str, Any], is_covered: bool, tmp_path: Path
):
    finding = Finding(kind="not-as-predicted", message=message, **fields)
    evidence = RunEvidence(unpacked("diverging-2.8.0-at-2.6", tmp_path, runs=BORDERS))
    (place,) = {place for each in not_modelled(evidence) for place in each.places}
    assert place.partitions == {TopicPartition("t", 0)}
    others = {TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)}
    with_others = SimpleNamespace(partitions=others, links=evidence.links)

    (excuse,) = not_modelled(evidence)

    assert excuse.covers(finding, with_others) is is_covered  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "topics"),
    [("2.1.1-fetch-waits-over-a-deletion", 2), ("3.6.2-deleted-before", 0), ("1.1.1-deleted", 0)],
)
def test_a_topic_that_was_made_again_matters_where_appends_look_at_fetches_from_before(
    name: str, topics: int, tmp_path: Path
):
    why = [*not_modelled(RunEvidence(unpacked(name, tmp_path, runs=HARD)))]
    assert len([each for each in why if "KAFKA-9198 may be why" in each.why]) == topics


def test_a_lost_file_of_whose_loss_nothing_is_known_is_named_with_its_time():
    lost = Act(act=LoseFile(broker=1, file="t-0/partition.metadata"), zxid=7)
    observed = (Observed(time=5.0, what=lost),)
    evidence: Any = SimpleNamespace(events=(), links=(), observed=observed, moved_replicas=())
    (unfollowed,) = not_modelled(evidence)
    assert "what a broker makes of the loss of t-0/partition.metadata" in unfollowed.why
    assert [place.since for place in unfollowed.places] == [5.0]


@pytest.mark.parametrize(
    ("file", "stopped", "offline"),
    [
        ("data/t-0/leader-epoch-checkpoint", "u-1,__consumer_offsets-3", {TopicPartition("u", 1)}),
        ("data/t-0/leader-epoch-checkpoint", "__consumer_offsets-3", set()),
        ("data/t-0/leader-epoch-checkpoint", "", set()),
        ("data/t-1/leader-epoch-checkpoint", "u-1", set()),
    ],
)
def test_an_election_after_a_move_matters_to_other_replicas_in_the_directory_before(
    file: str, stopped: str, offline: set[TopicPartition]
):
    moved = ReplicaMoved(broker=2, partition=TopicPartition("t", 0))
    start = TimedEvent(time=1.0, zxid=1, event=StartBroker(broker=2, release="2.1.0"))
    log = (
        f"ERROR Error while writing to checkpoint file /{file} (kafka.server.LogDirFailureChannel)",
        f"INFO Broker 2 stopped fetcher for partitions {stopped} and stopped moving logs for",
    )
    evidence: Any = SimpleNamespace(
        events=(start,), links=(), observed=(), moved_replicas=((5.0, moved),), server_logs={2: log}
    )
    why = [each for each in not_modelled(evidence) if "a move between log directories" in each.why]
    assert [each.places for each in why] == (
        [(Reach(since=5.0, partitions=frozenset(offline)),)] if offline else []
    )
