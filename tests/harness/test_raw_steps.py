"""Answers to an old client, written down whole, version by version."""

import base64
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.clusters.system.exchange import NoAnswer
from kchaos.harness.gates import gates
from kchaos.harness.steps import raw_requests
from tests.support.stand_ins import StandInCluster

STEP = k.FetchAs(
    operation="client", topic="t", partition=0, broker=0, high_watermark=2, timeout_s=0.2
)
Answer = tuple[int, int, bytes]


def message(offset: int, magic: int) -> bytes:
    """One entry of a message set: offset, size, checksum, magic, and the rest of it."""
    rest = b"\x00" * 50
    return struct.pack(">qiIb", offset, 5 + len(rest), 0, magic) + rest


def performed(monkeypatch: pytest.MonkeyPatch, answers: dict[int, Answer]) -> list[dict[str, Any]]:
    """The history after the step, where a broker answers so, by version."""
    told: list[dict[str, Any]] = []

    def fetch_raw(address: str, *, version: int, **_: Any) -> Answer:
        if version not in answers:
            raise NoAnswer(f"{address} gave none")
        return answers[version]

    def history(operation: str, outcome: str, **detail: Any) -> None:
        told.append({"operation": operation, "outcome": outcome, **detail})

    play = SimpleNamespace(
        cluster=StandInCluster(brokers=(0,)),
        recorder=SimpleNamespace(history=history),
        interrupts=SimpleNamespace(check=lambda: None),
    )
    monkeypatch.setattr(raw_requests, "fetch_raw", fetch_raw)
    monkeypatch.setattr(gates, "no_exit", lambda _play: lambda: None)
    STEP.perform(cast(k.Play, play))
    return told


def test_each_version_is_asked_and_its_answer_kept_with_its_formats(monkeypatch):
    old, new = message(0, 1), message(1, 2)
    answers = dict.fromkeys((0, 1, 3), (0, 2, old)) | {2: (0, 2, old + new), 4: (0, 2, new)}
    told = performed(monkeypatch, answers)
    assert [(each["operation"], each["outcome"]) for each in told] == [
        (f"client-v{version}", outcome) for version in range(4) for outcome in ("invoke", "ok")
    ]
    kept = {each["fetch_version"]: each for each in told if each["outcome"] == "ok"}
    assert {version: each["magics"] for version, each in kept.items()} == {
        0: [1],
        1: [1],
        2: [1, 2],
        3: [1],
    }
    assert base64.b64decode(kept[2]["answer"]) == old + new
    assert {each["readable"] for each in kept.values()} == {2}


def test_an_error_is_kept_too_and_is_no_answer_in_a_wrong_format(monkeypatch):
    told = performed(monkeypatch, {**dict.fromkeys(range(4), (35, -1, b"")), 4: (0, 2, b"")})
    last = [each for each in told if each["outcome"] == "fail"]
    assert [(each["error_code"], each["readable"], each["magics"]) for each in last] == [
        (35, 0, [])
    ] * 4


def test_a_version_without_any_answer_ends_the_run(monkeypatch):
    with pytest.raises(NoAnswer, match=r"127\.0\.0\.1:0 gave none"):
        performed(monkeypatch, {0: (0, 2, b""), 4: (0, 2, b"")})


@pytest.mark.slow
def test_nothing_is_asked_before_consumers_are_given_enough(monkeypatch):
    with pytest.raises(k.AwaitTimeout, match="the high watermark 2 on broker 0"):
        performed(monkeypatch, {4: (0, 1, b"")})
