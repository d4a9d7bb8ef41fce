"""Endings of runs on real brokers."""

from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.api import Cluster
from kchaos.clusters.spec import BrokerSpec, ClusterSpec, brokers_of
from kchaos.clusters.waiting import await_until
from kchaos.faults import FastBounce
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.play import collect
from kchaos.harness.play.collect import collect_decisions
from kchaos.harness.play.play import Play
from kchaos.harness.run import ending
from kchaos.harness.run.runner import play
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import CreateTopic, Inject
from tests.support.drivers import play_options

pytestmark = pytest.mark.cluster


def written_once(name: str, *brokers: BrokerSpec, first_broker: int | None = None) -> Scenario:
    """A topic of one partition on both brokers, and two records with acks=all."""
    return Scenario(
        entry=name,
        case="",
        release="2.8.2",
        cluster=ClusterSpec(brokers=brokers, first_broker=first_broker, properties=dict(QUICK)),
        steps=(
            CreateTopic(topic="t", assignment=((0, 1),)),
            Produce(operation="p", topic="t", partition=0, records=2, acks=-1),
        ),
    )


def test_a_leader_that_moves_while_it_is_copied_makes_the_run_settle_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies = []

    def bounced(now: Play, root: Path) -> None:
        copies.append(root.name)
        if len(copies) == 1:
            before = now.cluster.metadata.state("t", 0)
            Inject(name="late", fault=FastBounce(broker=0)).perform(now)
            await_until(
                lambda: now.cluster.metadata.state("t", 0) != before,
                timeout_s=30,
                waiting_for="the controller to see the bounce",
                last_seen=lambda: now.cluster.metadata.state("t", 0),
            )

    monkeypatch.setattr(collect, "_copy_store", bounced)
    scenario = written_once("moves-late", *brokers_of("2.8.2", (0, 1)), first_broker=1)

    run = play(scenario, options=play_options(tmp_path), say=print)

    results = judge(run)
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


def test_what_a_leader_tells_while_the_run_ends_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def told_once_more(run: RunDirectory, cluster: Cluster) -> None:
        before = told(run)
        await_until(
            lambda: told(run) > before,
            timeout_s=30,
            waiting_for="the leader to count one more fetch",
            last_seen=lambda: told(run),
        )
        collect_decisions(run, cluster)

    monkeypatch.setattr(ending, "collect_decisions", told_once_more)
    leader = BrokerSpec(id=0, kafka="2.8.2", points=("fetch-counted",))
    scenario = written_once("tells-late", leader, BrokerSpec(id=1, kafka="2.8.2"))

    run = play(scenario, options=play_options(tmp_path), say=print)

    results = judge(run)
    shown = [str(results.unknown), results.reason, *map(str, results.findings)]
    assert (results.conforms, results.safe) == (True, True), shown


def test_what_is_decided_after_the_decisions_are_copied_is_not_in_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller tells of it over the links before they are closed."""
    seen = []

    def another_leads(run: RunDirectory, cluster: Cluster) -> None:
        collect_decisions(run, cluster)
        assert cluster.links is not None
        since = cluster.links.next_sequence
        cluster.brokers[0].kill()
        told = cluster.links.await_record(
            lambda record: record.api == "LeaderAndIsr", 30, "another leader", since=since
        )
        seen.append(told)

    monkeypatch.setattr(ending, "collect_decisions", another_leads)
    scenario = written_once("decides-late", *brokers_of("2.8.2", (0, 1)), first_broker=1)

    run = play(scenario, options=play_options(tmp_path), say=print)

    results = judge(run)
    shown = [str(results.unknown), results.reason, *map(str, results.findings)]
    assert len(seen) == 1
    assert (results.conforms, results.safe) == (True, True), shown


def told(run: RunDirectory) -> int:
    """How many hits leaders told so far."""
    return sum(hit["fate"] == "told" for hit in run.read_lines("hits.jsonl"))
