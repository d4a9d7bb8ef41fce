"""Warnings of a live run about the cluster that a test has made."""

from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.harness.campaign import live
from kchaos.harness.run.runner import RunOptions

PROTOCOL = "inter.broker.protocol.version"


class FakeCluster:
    """Two brokers that become what a roll makes of them, as running ones do."""

    def __init__(self, **properties: str) -> None:
        self.spec = k.ClusterSpec(
            brokers=tuple(k.BrokerSpec(id=broker, kafka="1.1.1") for broker in (0, 1))
        )
        self.brokers = {
            broker: SimpleNamespace(id=broker, release="1.1.1", properties=dict(properties))
            for broker in (0, 1)
        }

    def inject(self, fault: k.Fault) -> None:
        if isinstance(fault, k.RollBroker):
            broker = self.brokers[fault.broker]
            broker.release = fault.kafka or broker.release
            broker.properties |= dict(fault.properties)


def said_of(
    faults: tuple[k.Fault, ...], monkeypatch: pytest.MonkeyPatch, **properties: str
) -> list[str]:
    cluster = FakeCluster(**properties)
    said: list[str] = []
    run = SimpleNamespace(write=lambda *_given, **_options: None)
    injections = {f"{number}": None for number in range(len(faults))}
    play = SimpleNamespace(run=run, say=said.append, faults=SimpleNamespace(injections=injections))
    monkeypatch.setattr(live, "begin", lambda *_given, **_options: play)
    monkeypatch.setattr(live, "perform", lambda _play, _index, step: cluster.inject(step.fault))
    scenario = k.Scenario(
        entry="test_roll", case="", release="1.1.1", cluster=cluster.spec, steps=()
    )
    running: Any = cluster
    chaos = live.Chaos(running, scenario, options=RunOptions(), started=0, say=said.append)
    for number, fault in enumerate(faults):
        chaos.perform(k.Inject(name=f"{number}", fault=fault))
    return said


ROLLS = (k.RollBroker(broker=1, kafka="2.0.1"), k.RollBroker(broker=0, kafka="2.0.1"))


def test_a_roll_without_a_pinned_protocol_is_told_once(monkeypatch: pytest.MonkeyPatch):
    (told,) = said_of((ROLLS[0], k.FastBounce(broker=1), ROLLS[1]), monkeypatch)
    assert told.startswith(f"broker 1 (2.0.1) speaks {PROTOCOL} 2.0, its own, since none is set, ")
    assert "which broker 0 (1.1.1) cannot read" in told


def test_a_roll_at_the_older_protocol_is_not_told_of(monkeypatch: pytest.MonkeyPatch):
    raised = k.RollBroker(broker=1, properties=((PROTOCOL, "2.0"),))
    assert said_of((*ROLLS, raised), monkeypatch, **{PROTOCOL: "1.1"}) == []
    (told,) = said_of((ROLLS[0], raised), monkeypatch, **{PROTOCOL: "1.1"})
    assert f"broker 1 (2.0.1) speaks {PROTOCOL} 2.0, which broker 0" in told
