"""Requests in versions in which a broker does not ask, and those that kchaos delivers late."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.acts import STALE_CLIENT_ID, StaleRequest
from kchaos.checkers.cross_checks.brokers import _versions_asked
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.run_directory import RunDirectory
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
    late = replace(control, api_version=2, client_id=STALE_CLIENT_ID)
    evidence.__dict__["links"] = (*(evidence.links or ()), late)
    return evidence


def test_a_request_in_a_version_that_nobody_asks_in_is_told(evidence: RunEvidence):
    """Also one with the client id of late requests, if no act made it."""
    (told,) = _versions_asked(evidence)
    assert "LeaderAndIsr of version 2, in which broker" in told


def test_a_late_request_has_the_version_that_its_act_says(evidence: RunEvidence):
    timed, before = evidence.actions[0], evidence.actions
    made = StaleRequest(api="LeaderAndIsr", broker=0, target=0, version=2, generation=1)
    evidence.__dict__["actions"] = (*before, replace(timed, event=made))
    assert list(_versions_asked(evidence)) == []
    other = replace(made, version=3)
    evidence.__dict__["actions"] = (*before, replace(timed, event=other))
    assert len(list(_versions_asked(evidence))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("removed", "is_told"),
    [((), False), (("actions.jsonl",), False), (("actions.jsonl", "observations.jsonl"), True)],
    ids=["delivered", "cut off by a link", "made by nobody"],
)
def test_a_late_request_that_a_link_cut_off_has_an_act_and_is_no_action(
    removed: tuple[str, ...], is_told: bool, tmp_path: Path
):
    run = RunDirectory(tmp_path / "copy")
    shutil.copytree(unpacked("late-update-metadata-2.1.1", tmp_path).path, run.path)
    links = run.path / "links.jsonl"
    messages = [json.loads(line) for line in links.read_text().splitlines()]
    for message in messages:
        if message["client_id"] == "kchaos-stale":
            message["api_version"] = 1
    links.write_text("".join(json.dumps(message) + "\n" for message in messages))
    for name in ("actions.jsonl", "observations.jsonl"):
        file = run.path / name
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            said = line.get("action", line)
            if "StaleRequest" in (said.get("event"), said.get("act")):
                said["version"] = 1
        kept = [
            line for line in lines if name not in removed or "StaleRequest" not in json.dumps(line)
        ]
        assert (len(kept) < len(lines)) is (name in removed)
        file.write_text("".join(json.dumps(line) + "\n" for line in kept))
    told = [said for said in _versions_asked(RunEvidence(run))]
    assert bool(told) is is_told
