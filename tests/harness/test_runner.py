"""Runs on real clusters that end badly: sealed, unknown, and each says why."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from tests.support.drivers import play_options

pytestmark = pytest.mark.cluster

RELEASE = "1.1.1"
TOPIC = k.CreateTopic(topic="t", assignment=((0,),))
HOLD = k.HoldRequests(name="held", api="Fetch", source=1, target=0, topic="t", partition=0)
ONE_IS_HELD = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Inject(name="held", fault=HOLD),
    k.AwaitHeld(name="held"),
    k.Produce(operation="p", topic="t", partition=0, records=3, acks=1),
)
# The follower must not leave the ISR while it is held, or the high watermark would go on.
PATIENT = {"replica.lag.time.max.ms": "60000"}


def played(
    tmp_path: Path,
    *steps: k.Step,
    brokers: tuple[int, ...] = (0,),
    properties: Mapping[str, str] | None = None,
) -> k.RunDirectory:
    cluster = k.ClusterSpec(brokers=k.brokers_of(RELEASE, brokers), properties=properties or {})
    scenario = k.Scenario(entry="test", case="", release=RELEASE, cluster=cluster, steps=steps)
    return k.play(scenario, options=play_options(tmp_path), say=print)


def unknown_of(run: k.RunDirectory) -> tuple[str, k.Results]:
    """What outcome.json gives as the reason, of a run that is whole and has no verdict."""
    assert run.verify() == ()
    outcome = run.read("outcome.json")
    results = k.judge(run)
    assert not outcome["finished"]
    assert (results.conforms, results.safe, results.expected) == (None, None, False)
    why: str = outcome.get("ended_early") or outcome["unknown"]
    assert why in (results.unknown or "")
    return why, results


def lines_of(run: k.RunDirectory, file: str, /, **wanted: Any) -> list[dict[str, Any]]:
    return [line for line in run.read_lines(file) if wanted.items() <= line.items()]


def test_a_gate_that_times_out_is_unknown_and_says_what_was_awaited_and_seen(tmp_path: Path):
    acknowledged = k.Produce(operation="p", topic="t", partition=0, records=2, acks=-1)
    awaited = k.AwaitState(topic="t", partition=0, leader_epoch=7, timeout_s=2)
    reason, _ = unknown_of(run := played(tmp_path, TOPIC, acknowledged, awaited))
    assert reason.startswith("step 2: waited 2 s for t-0 to have leader epoch 7 or a later one; ")
    assert "last seen: leader 0, leader epoch 0, ISR [0]" in reason
    assert "server.log" in reason
    # What happened until then is kept, the end as well.
    acknowledged_at = lines_of(run, "history.jsonl", type="ok", probe=False)
    assert [line["base_offset"] for line in acknowledged_at] == [0]
    assert run.snapshots() == ("final",)
    assert run.read("outcome.json")["settle"]["state"] == "converged"
    assert (run.path / "snapshots/final/broker-0/t-0/00000000000000000000.log").stat().st_size > 0
    assert (run.path / "brokers/0/server.log").stat().st_size > 0


def test_a_scenario_that_writes_nothing_is_never_a_pass(tmp_path: Path):
    run = played(tmp_path, TOPIC)
    assert run.verify() == ()
    outcome = run.read("outcome.json")
    assert (outcome["finished"], outcome["settle"]["state"]) == (True, "converged")
    # Settling wrote and got its answer, and that is no evidence about the scenario.
    assert [line["probe"] for line in lines_of(run, "history.jsonl", type="ok")] == [True]
    results = k.judge(run)
    assert (results.safe, results.expected) == (None, False)
    assert "acknowledged" in (results.unknown or "")


def test_an_answer_that_a_hold_delays_comes_once_it_is_healed_and_what_is_read_then_is_promised(
    tmp_path: Path,
):
    run = played(
        tmp_path,
        k.CreateTopic(topic="t", assignment=((0, 1),)),
        k.Inject(name="held", fault=HOLD),
        k.AwaitHeld(name="held"),
        k.Produce(operation="p", topic="t", partition=0, records=3, acks=-1, await_answer=False),
        k.Heal(name="held"),
        k.AwaitAnswer(operation="p"),
        k.Produce(operation="q", topic="t", partition=0, records=3, acks=1),
        k.Read(operation="r", topic="t", partition=0, offset=4, records=2),
        brokers=(0, 1),
        properties=PATIENT,
    )
    healed = lines_of(run, "observations.jsonl", kind="healed")
    (answer,) = lines_of(run, "history.jsonl", operation="p", type="ok")
    (invoked,) = lines_of(run, "history.jsonl", operation="p", type="invoke")
    (released,) = lines_of(run, "observations.jsonl", kind="released")
    assert invoked["time"] < released["time"] <= answer["time"]
    assert (answer["base_offset"], answer["promised"], len(healed)) == (0, True, 1)
    (got,) = lines_of(run, "history.jsonl", operation="r", type="ok")
    assert (got["base_offset"], got["records"], got["promised"]) == (4, ["q-1", "q-2"], True)
    results = k.judge(run)
    assert (results.unknown, results.conforms, results.safe) == (None, True, True)


def test_a_question_that_is_asked_again_because_its_answer_came_too_late_counts_once(
    tmp_path: Path,
):
    answers = k.HoldRequests(
        name="answers", api="OffsetForLeaderEpoch", source=1, target=0, direction="response"
    )
    run = played(
        tmp_path,
        k.CreateTopic(topic="t", assignment=((0, 1),)),
        k.Produce(operation="p", topic="t", partition=0, records=3, acks=-1),
        k.Inject(name="down", fault=k.KillBroker(broker=1)),
        k.Inject(name="answers", fault=answers),
        k.Heal(name="down"),
        k.AwaitHeld(name="answers", count=2),
        k.Heal(name="answers"),
        brokers=(0, 1),
        properties={**PATIENT, "request.timeout.ms": "1000"},
    )
    late = lines_of(run, "links.jsonl", fate="held")[0]
    assert lines_of(run, "links.jsonl", fate="abandoned", connection=late["connection"])
    results = k.judge(run)
    assert (results.unknown, results.conforms, results.safe) == (None, True, True)


def test_a_consumer_gets_nothing_above_the_high_watermark(tmp_path: Path):
    read = k.Read(operation="r", topic="t", partition=0, records=1, timeout_s=2)
    run = played(tmp_path, *ONE_IS_HELD, read, brokers=(0, 1), properties=PATIENT)
    reason, _ = unknown_of(run)
    assert "waited 2 s for broker 0 to give a consumer 1 records of t-0 from offset 0" in reason
    assert "high_watermark=0, records=()" in reason
    (ended,) = lines_of(run, "history.jsonl", operation="r", type="fail")
    assert ended["error"] in reason


def test_a_cluster_that_never_comes_up_leaves_a_sealed_unknown_run_with_its_logs(tmp_path: Path):
    run = played(tmp_path, TOPIC, properties={"log.cleanup.policy": "nonsense"})
    reason, results = unknown_of(run)
    assert reason.startswith("the cluster never came up: broker 0 exited with code 1")
    assert "nonsense" in reason
    assert {finding.kind for finding in results.findings} == {"broker-error"}
    logs = [run.path / "brokers" / "0" / name for name in ("server.log", "console.log")]
    assert any("nonsense" in log.read_text() for log in logs)
    properties = (run.path / "brokers" / "0" / "server.properties").read_text()
    assert "log.cleanup.policy=nonsense" in properties
    assert [*(run.path / "zookeeper").iterdir()]


def test_a_hold_to_which_nothing_came_makes_the_run_unknown_and_its_hits_are_kept(tmp_path: Path):
    hold = k.HoldPoint(name="idle", broker=0, point="registered")
    run = played(tmp_path, k.Inject(name="idle", fault=hold), k.Heal(name="idle"))
    reason, _ = unknown_of(run)
    assert "idle: nothing came to registered of broker 0 while it was held" in reason
    assert run.read("scenario.json")["cluster"]["brokers"][0]["points"] == ["registered"]
    hits = list(run.read_lines("hits.jsonl"))
    assert [(hit["point"], hit["fate"]) for hit in hits] == [
        ("hello", "passed"),
        ("registered", "passed"),
    ]
