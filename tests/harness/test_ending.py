"""Endings of runs on real brokers."""

import re
from pathlib import Path

import pytest

import kchaos as k
from kchaos.harness.play import collect
from kchaos.harness.play.collect import collect_decisions
from kchaos.harness.run import ending
from tests.support.drivers import play_options

pytestmark = pytest.mark.cluster


def written_once(name: str, *brokers: k.BrokerSpec, first_broker: int | None = None) -> k.Scenario:
    """A topic of one partition on both brokers, and two records with acks=all."""
    return k.Scenario(
        entry=name,
        case="",
        release="2.8.2",
        cluster=k.ClusterSpec(brokers=brokers, first_broker=first_broker, properties=dict(k.QUICK)),
        steps=(
            k.CreateTopic(topic="t", assignment=((0, 1),)),
            k.Produce(operation="p", topic="t", partition=0, records=2, acks=-1),
        ),
    )


def test_a_leader_that_moves_while_it_is_copied_makes_the_run_settle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copies = []

    def bounced(now: k.Play, root: Path) -> None:
        copies.append(root.name)
        if len(copies) == 1:
            before = now.cluster.metadata.state("t", 0)
            k.Inject(name="late", fault=k.FastBounce(broker=0)).perform(now)
            k.await_until(
                lambda: now.cluster.metadata.state("t", 0) != before,
                timeout_s=30,
                waiting_for="the controller to see the bounce",
                last_seen=lambda: now.cluster.metadata.state("t", 0),
            )

    monkeypatch.setattr(collect, "_copy_store", bounced)
    scenario = written_once("moves-late", *k.brokers_of("2.8.2", (0, 1)), first_broker=1)

    run = k.play(scenario, options=play_options(tmp_path), say=print)

    results = k.judge(run)
    shown = [str(results.unknown), *map(str, results.findings)]
    assert (results.conforms, results.safe) == (True, True), shown
    assert copies == ["final", "final"]
    kept = {
        each.name: run.read(f"snapshots/{each.name}/snapshot.json")
        for each in sorted((run.path / "snapshots").iterdir())
    }
    assert {name: each["is_final"] for name, each in kept.items()} == {
        "final": True,
        "moved-1": False,
    }


@pytest.mark.parametrize("place", ["settle", "take_snapshot", "collect_decisions", "Produce"])
def test_a_defect_of_kchaos_leaves_its_run_unknown_and_its_evidence_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
):
    def fails(*_: object, **__: object) -> None:
        raise KeyError(0)

    if place == "Produce":
        monkeypatch.setattr(k.Produce, "perform", fails)
    else:
        monkeypatch.setattr(ending, place, fails)
    scenario = written_once("fails", *k.brokers_of("2.8.2", (0, 1)))

    run = k.play(scenario, options=play_options(tmp_path), say=print)

    results = k.judge(run)
    assert (results.conforms, results.safe) == (None, None)
    assert results.unknown is not None
    assert re.match(
        r"kchaos itself failed at test_ending\.py:\d+: KeyError: 0; this is a defect of kchaos",
        results.unknown,
    )
    assert "KeyError: 0" in run.read("outcome.json")["traceback"]
    assert (run.path / "manifest.json").is_file()


def test_what_a_leader_tells_while_the_run_ends_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):

    def told_once_more(run: k.RunDirectory, cluster: k.Cluster) -> None:
        before = told(run)
        k.await_until(
            lambda: told(run) > before,
            timeout_s=30,
            waiting_for="the leader to count one more fetch",
            last_seen=lambda: told(run),
        )
        collect_decisions(run, cluster)

    monkeypatch.setattr(ending, "collect_decisions", told_once_more)
    leader = k.BrokerSpec(id=0, kafka="2.8.2", points=("fetch-counted",))
    scenario = written_once("tells-late", leader, k.BrokerSpec(id=1, kafka="2.8.2"))

    run = k.play(scenario, options=play_options(tmp_path), say=print)

    results = k.judge(run)
    shown = [str(results.unknown), results.reason, *map(str, results.findings)]
    assert (results.conforms, results.safe) == (True, True), shown


def test_what_is_decided_after_the_decisions_are_copied_is_not_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A controller tells of it over the links before they are closed."""
    seen = []

    def another_leads(run: k.RunDirectory, cluster: k.Cluster) -> None:
        collect_decisions(run, cluster)
        assert cluster.links is not None
        since = cluster.links.next_sequence
        cluster.brokers[0].kill()
        told = cluster.links.await_record(
            lambda record: record.api == "LeaderAndIsr", 30, "another leader", since=since
        )
        seen.append(told)

    monkeypatch.setattr(ending, "collect_decisions", another_leads)
    scenario = written_once("decides-late", *k.brokers_of("2.8.2", (0, 1)), first_broker=1)

    run = k.play(scenario, options=play_options(tmp_path), say=print)

    results = k.judge(run)
    shown = [str(results.unknown), results.reason, *map(str, results.findings)]
    assert len(seen) == 1
    assert (results.conforms, results.safe) == (True, True), shown


def told(run: k.RunDirectory) -> int:
    """How many hits leaders told so far."""
    return sum(hit["fate"] == "told" for hit in run.read_lines("hits.jsonl"))
