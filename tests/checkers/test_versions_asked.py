"""Requests in versions in which a broker does not ask, and those that kchaos delivers late."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.acts import LATE_CLIENT_ID, StaleRequest
from kchaos.checkers.cross_checks.brokers import _versions_asked
from kchaos.checkers.evidence.run import RunEvidence
from tests.golden.stored import unpacked


@pytest.fixture
def evidence(tmp_path: Path) -> RunEvidence:
    evidence = RunEvidence(unpacked("2.8.2", tmp_path))
    assert list(_versions_asked(evidence)) == []
    control = next(
        message
        for message in evidence.links or ()
        if message.api == "LeaderAndIsr" and message.direction == "request"
    )
    assert control.api_version != 2
    late = replace(control, api_version=2, client_id=LATE_CLIENT_ID)
    evidence.__dict__["links"] = (*(evidence.links or ()), late)
    return evidence


def test_a_request_in_a_version_that_nobody_asks_in_is_told(evidence: RunEvidence) -> None:
    """Also one with the client id of late requests, if no act made it."""
    (told,) = _versions_asked(evidence)
    assert "LeaderAndIsr of version 2, in which broker" in told


def test_a_late_request_has_the_version_that_its_act_says(evidence: RunEvidence) -> None:
    timed, before = evidence.actions[0], evidence.actions
    made = StaleRequest(api="LeaderAndIsr", broker=0, target=0, version=2, generation=1)
    evidence.__dict__["actions"] = (*before, replace(timed, event=made))
    assert list(_versions_asked(evidence)) == []
    other = replace(made, version=3)
    evidence.__dict__["actions"] = (*before, replace(timed, event=other))
    assert len(list(_versions_asked(evidence))) == 1
