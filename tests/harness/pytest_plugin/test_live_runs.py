"""Live runs on real clusters: in this project's own tests, and in an outside user's folder."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kchaos as k
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.clusters.system.leftovers import find_leftovers
from kchaos.harness.catalogue import entry_named

if TYPE_CHECKING:
    from kchaos.harness.campaign.live import Chaos

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("machine_cache")]


@pytest.mark.kafka_cluster(release="2.8.2", brokers=2)
def test_what_a_test_reads_is_written_down_as_promised(chaos: "Chaos"):
    chaos.create_topic("t", replicas=[0, 1])
    chaos.produce("t", records=2, acks=1)
    operation = chaos.read("t", records=2)
    assert chaos.controller in (0, 1)
    assert str(chaos).splitlines()[1:] == [
        "brokers: 0, 1 run, 0, 1 are registered",
        f"controller: {chaos.controller}",
        "faults: none act",
        "t-0: leader 0, leader epoch 0, ISR [0, 1], logs end: 0 at 2, 1 at 2",
    ]
    assert (chaos.leader("nowhere"), chaos.isr("nowhere")) == (None, ())
    assert chaos.verdict().safe
    with pytest.raises(k.ScenarioError, match="its cluster was stopped"):
        chaos.leader("t")
    assert (str(chaos), chaos.acting) == (f"run {chaos.path}, which has ended", ())
    (read,) = [
        done for done in RunEvidence(chaos.run).client_operations if done.operation == operation
    ]
    assert (read.function, read.promised, read.base_offset, read.last_offset) == (
        "read",
        True,
        0,
        1,
    )


@pytest.mark.kafka_cluster(release="1.1.1")
@pytest.mark.chaos_seed(6361)
def test_a_bug_played_step_by_step_conforms_and_is_unsafe(chaos: "Chaos"):
    steps = entry_named("KAFKA-6361").steps("n20")
    chaos.perform(*steps)
    verdict = chaos.verdict()
    assert (verdict.conforms, verdict.safe) == (True, False)
    assert [
        (finding.kind, finding.brokers, finding.first_offset, finding.last_offset)
        for finding in verdict.findings
        if finding.question.value == "safety"
    ] == [("divergence", (0, 1), 11, 20)]
    scenario = k.read_scenario(chaos.path / "scenario.json")
    assert (scenario.steps, scenario.seed, scenario.release) == (steps, 6361, "1.1.1")
    assert chaos.run.is_sealed
    with pytest.raises(k.ScenarioError, match="the run has ended"):
        chaos.produce("t")


_SHARED = """
import pytest

topics, pids = [], []

@pytest.mark.kafka_cluster(release="2.8.2", brokers=1, linked=False)
@pytest.mark.parametrize("number", [1, 2])
def test_shared(shared_kafka_cluster, zookeeper, number):
    topic = shared_kafka_cluster.topic("orders")
    assert topic.startswith("orders-")
    assert topic not in topics
    assert zookeeper.get_children("/brokers/ids") == ["0"]
    topics.append(topic)
    pids.append(shared_kafka_cluster.cluster.brokers[0].pid)
    assert len(set(pids)) == 1
    assert len(topics) == number
"""


def test_tests_of_one_shape_get_one_cluster_and_topics_of_their_own(pytester: pytest.Pytester):
    pytester.makepyfile(test_shared=_SHARED)
    pytester.runpytest_subprocess("-q", "-W", "error").assert_outcomes(passed=2)


_REFUSED = """
import pytest

@pytest.mark.kafka_cluster(release="1.1.1", brokers=1, properties={
    "log.message.format.version": "2.0",
})
def test_newer_than_the_binary(kafka_cluster):
    pass

@pytest.mark.kafka_cluster(release="1.1.1", brokers=1, properties={
    "log.message.format.version": "0.11.0", "inter.broker.protocol.version": "0.10.2",
})
def test_forbidden_by_the_protocol(chaos):
    pass
"""


def test_a_format_that_no_broker_starts_with_is_refused_before_anything_starts(
    pytester: pytest.Pytester,
):
    pytester.makepyfile(test_refused=_REFUSED)
    done = pytester.runpytest_inprocess("-q")
    done.assert_outcomes(errors=2)
    done.stdout.fnmatch_lines(
        [
            "kchaos: broker 0: *is 2.0, which 1.1.1 does not know: it is older",
            "kchaos: broker 0: *is 0.11.0, which *0.10.2 forbids: raise that first",
        ]
    )
    done.stdout.no_fnmatch_line("kchaos: starting*")


_OUTSIDE = """
import pytest
from kchaos import ExpireSession

@pytest.mark.kafka_cluster(release="1.1.1", brokers=3)
def test_expiry_loses_nothing(chaos):
    chaos.create_topic("t", replicas=[0, 1])
    chaos.produce("t", records=10, acks="all")
    with chaos.inject(ExpireSession(broker=0)):
        chaos.produce("t", records=10, acks="all")
    assert chaos.verdict().safe
"""

_FAILING = """
import pytest
from kchaos import CATALOGUE

@pytest.mark.kafka_cluster(release="1.1.1", brokers=3)
def test_replication_goes_on(chaos):
    chaos.perform(*CATALOGUE["KAFKA-6361"].steps("n15"))
    assert chaos.verdict().safe

@pytest.mark.kafka_cluster(release="1.1.1", brokers=1, linked=False)
def test_produces_to_nothing(chaos):
    with pytest.raises(Exception, match="has no leader"):
        chaos.produce("missing")
    chaos.verdict()
"""


def _properties(junit: Path) -> dict[str, dict[str, str]]:
    cases = ElementTree.parse(junit).iter("testcase")
    return {
        case.attrib["name"]: {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}
        for case in cases
    }


def test_ten_lines_of_an_outside_user_get_a_cluster_a_fault_and_a_verdict(
    pytester: pytest.Pytester,
):
    pytester.makepyfile(test_outside=_OUTSIDE)
    arguments = ("-q", "--strict-markers", "-W", "error", "--junitxml=junit.xml")
    result = pytester.runpytest_subprocess(*arguments, "--kchaos-seed=11", "--kchaos-keep=always")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kchaos: 1 test uses Kafka *", "kchaos: 1 run kept in *"])
    seen = _properties(pytester.path / "junit.xml")["test_expiry_loses_nothing"]
    run = k.RunDirectory.open(Path(seen.pop("kchaos_run")))
    assert run.path.parent == pytester.path / "kchaos-runs"
    assert seen == {
        "kchaos_seed": "11",
        "kchaos_release": "1.1.1",
        "kchaos_verdict": "conforms=true safe=true",
        "kchaos_kept": "yes",
    }
    scenario = k.read_scenario(run.path / "scenario.json")
    assert [type(step).__name__ for step in scenario.steps] == [
        "CreateTopic",
        "Produce",
        "Inject",
        "Produce",
        "Heal",
    ]
    sessions = [
        json.loads(line)
        for line in (run.path / "observations.jsonl").read_text().splitlines()
        if '"ExpireSession"' in line
    ]
    assert sessions, "the fault left no trace in the evidence"


def test_a_failed_test_says_what_was_found_and_how_to_play_it_again(pytester: pytest.Pytester):
    pytester.makepyfile(test_failing=_FAILING)
    result = pytester.runpytest_subprocess("-q", "--strict-markers", "--junitxml=junit.xml")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*- kchaos run -*",
            "verdict: conforms true, safe false",
            "finding: replication-stopped t-0 brokers [[]1[]]: *",
            "seed: *",
            "run: *kchaos-runs*",
            "replay: kchaos replay *",
            "report: *report.html",
            "*- brokers' last ERROR lines (at most 10 each) -*",
            "broker 1: *ERROR *ReplicaFetcher*",
            "*RunUnknown*",
            "*- kchaos run -*",
            "verdict: conforms unknown, safe unknown",
            "unknown because: *has no leader*",
            "kchaos: 2 runs kept in *, 0 removed (--kchaos-keep=failed)",
        ]
    )
    properties = _properties(pytester.path / "junit.xml")
    verdict = properties["test_produces_to_nothing"]["kchaos_verdict"]
    assert verdict == "conforms=unknown safe=unknown"
    for seen in properties.values():
        assert k.RunDirectory.open(Path(seen["kchaos_run"])).is_sealed


_INTERRUPTED = """
import pytest
from kchaos import PauseBroker

@pytest.mark.kafka_cluster(release="1.1.1", brokers=1, linked=False)
def test_interrupted(chaos):
    chaos.create_topic("t", replicas=[0])
    chaos.inject(PauseBroker(broker=0))
    raise KeyboardInterrupt
"""


def test_an_interrupted_test_leaves_an_unsealed_run_and_no_process(pytester: pytest.Pytester):
    pytester.makepyfile(test_interrupted=_INTERRUPTED)
    before = _left_by_tests()
    result = pytester.runpytest_subprocess("-q")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    (run,) = [path for path in (pytester.path / "kchaos-runs").iterdir() if not path.is_symlink()]
    assert not k.RunDirectory.open(run).is_sealed
    scenario = k.read_scenario(run / "scenario.json")
    assert [type(step).__name__ for step in scenario.steps] == ["CreateTopic", "Inject"]
    assert '"act":"ResumeBroker"' in (run / "observations.jsonl").read_text()
    assert _left_by_tests() <= before


def _left_by_tests() -> set[Path]:
    """The work directories of `chaos` whose pytest has ended; tests beside this one kill others."""
    directories = {left.directory for left in find_leftovers()}
    return {directory for directory in directories if directory.name.startswith("pytest-")}
