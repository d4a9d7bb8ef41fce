"""Requests to the controller of a cluster."""

from typing import Any

import pytest

from kchaos.clusters.metadata import controller_requests
from kchaos.clusters.metadata.controller_requests import ControllerRequests


def test_an_election_is_answered_before_nobody_waits_for_the_answer(
    monkeypatch: pytest.MonkeyPatch,
):
    """A broker may answer ELECT_LEADERS only when the time that the request names is over."""
    times: list[float] = []

    def send(_address: str, _api: object, values: Any, *, version: int, timeout_s: float) -> Any:
        times.extend((values["timeout_ms"] / 1000, timeout_s))
        return {"error_code": 0, "topics": []}

    monkeypatch.setattr(controller_requests, "send", send)
    requests = ControllerRequests(controller=lambda: 0, address_of=lambda _: "127.0.0.1:1")
    requests.elect("t", 0)
    named, awaited = times
    assert named <= awaited / 2
