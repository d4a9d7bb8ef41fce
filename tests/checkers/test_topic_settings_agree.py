"""Settings of a topic in ZooKeeper, beside what the scenario's steps gave it."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.cross_checks.acts import _topic_settings
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.run import RunEvidence

FORMAT = "message.format.version"
MADE = {"step": "CreateTopic", "topic": "t", "configuration": [["retention.ms", "-1"]]}
CHANGED = {
    "step": "Inject",
    "fault": {"fault": "ConfigureTopic", "topic": "t", "configuration": [[FORMAT, "0.10.2"]]},
}
DOWNGRADED = {
    "step": "Inject",
    "fault": {"fault": "FormatDowngrade", "topic": "t", "message_format": "0.10.2"},
}
OTHER = {**CHANGED, "fault": {**CHANGED["fault"], "topic": "u"}}  # type: ignore[dict-item]


def told(settings: dict[str, str], *steps: dict[str, Any]) -> list[str]:
    evidence = SimpleNamespace(
        configurations={"t": settings}, scenario=SimpleNamespace(steps=(MADE, *steps))
    )
    return list(_topic_settings(cast(RunEvidence, evidence)))


BOTH = {"retention.ms": "-1", FORMAT: "0.10.2"}


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({"retention.ms": "-1"}, ()),
        (BOTH, (CHANGED,)),
        (BOTH, ({"step": "IfPossible", "do": CHANGED},)),
        ({"retention.ms": "-1"}, ({"step": "IfPossible", "do": CHANGED},)),
        (BOTH, (DOWNGRADED,)),
    ],
    ids=["as made", "changed", "changed where possible", "it was not possible", "downgraded"],
)
def test_what_a_step_gave_it_agrees(settings: dict[str, str], steps: tuple[Any, ...]) -> None:
    assert told(settings, *steps) == []


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        (BOTH, ()),
        (BOTH, (OTHER,)),
        ({**BOTH, FORMAT: "0.11.0"}, (CHANGED,)),
        ({FORMAT: "0.10.2"}, (CHANGED,)),
    ],
    ids=["nobody gave it", "another topic's", "another value", "one is gone"],
)
def test_what_no_step_gave_it_does_not(settings: dict[str, str], steps: tuple[Any, ...]) -> None:
    (said,) = told(settings, *steps)
    assert said.startswith("topic t has the settings")


def test_a_step_without_its_topic_is_named() -> None:
    with pytest.raises(ScenarioDataError, match="has a step CreateTopic without 'topic'"):
        told({}, {"step": "CreateTopic"})
