"""The replicas that ZooKeeper has of a topic, beside what the scenario's steps gave it."""

from types import SimpleNamespace
from typing import cast

import pytest

from kchaos.checkers.cross_checks.acts import _assignments
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import TopicCreated

MADE = {"step": "CreateTopic", "topic": "t", "assignment": [[4, 2, 3]]}
REASSIGNED = {"step": "Reassign", "topic": "t", "partition": 0, "replicas": [4, 1, 3]}


def told(*written: tuple[int, ...]) -> list[str]:
    made = [
        TopicCreated(topic="t", assignment=(replicas,), zxid=10 + number)
        for number, replicas in enumerate(written)
    ]
    events = [SimpleNamespace(zxid=event.zxid, event=event) for event in made]
    scenario = SimpleNamespace(steps=(MADE, {"step": "IfPossible", "do": REASSIGNED}))
    evidence = SimpleNamespace(scenario=scenario, events=events)
    return list(_assignments(cast(RunEvidence, evidence)))


@pytest.mark.parametrize(
    "written",
    [((4, 2, 3),), ((4, 2, 3), (4, 1, 3, 2), (4, 1, 3)), ((4, 2, 3), (1, 4, 2, 3))],
    ids=["it was not possible", "both sets for a while", "it goes on"],
)
def test_what_a_step_gave_it_agrees(written: tuple[tuple[int, ...], ...]) -> None:
    assert told(*written) == []


@pytest.mark.parametrize(
    "written",
    [((4, 2),), ((4, 2, 3), (4, 5, 3)), ((4, 2, 3), (4, 1, 3), (4, 2, 1)), ((4, 1, 3, 2),)],
    ids=[
        "less",
        "a broker that nobody named",
        "another set afterwards",
        "both sets from the start",
    ],
)
def test_what_no_step_gave_it_is_told(written: tuple[tuple[int, ...], ...]) -> None:
    assert told(*written) == [f"zxid {9 + len(written)} gives t-0 {list(written[-1])}, as no step"]
