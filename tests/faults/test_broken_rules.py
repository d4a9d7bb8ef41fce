"""A rule that the agent does not take is an error, and never a fault that did nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

import kchaos as k
from kchaos.clusters.agent import POINTS, byteman
from kchaos.clusters.agent import points as table
from kchaos.clusters.agent.points import FETCH_READ, LOG_READ
from kchaos.clusters.start import jvm_cluster
from tests.support.drivers import cluster_of
from tests.support.replicated_topic import Topic

pytestmark = pytest.mark.cluster


def test_a_rule_that_does_not_fit_the_release_is_an_error_with_the_agent_s_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    wrong = {
        # Unknown to the class, which shows when the first thread comes.
        FETCH_READ: tuple(replace(p, seen="$0.nosuch()") for p in POINTS[FETCH_READ].places),
        # No expression at all, which shows when the class is loaded, and is not said.
        LOG_READ: tuple(replace(p, seen="(((") for p in POINTS[LOG_READ].places),
    }
    broken = {name: replace(POINTS[name], places=places) for name, places in wrong.items()}
    monkeypatch.setattr(table, "POINTS", broken)
    leader = k.BrokerSpec(id=0, kafka="2.1.1", points=(FETCH_READ, LOG_READ))
    spec = k.ClusterSpec(brokers=(leader, k.BrokerSpec(id=1, kafka="2.1.1")), first_broker=0)
    with cluster_of(spec, work_directory=tmp_path / "broken") as cluster:
        replicas = Topic(cluster, "t", [0, 1])
        words = {"read": "error type checking rule fetch-read", "log": "console.log: "}
        for where in ("read", "log"):
            slow = k.SlowFetchReads(broker=0, where=where)
            with pytest.raises(k.NoEffect) as caught, slow.inject(cluster, k.MemoryJournal()):
                assert replicas.produce(0, acks=-1).error_code == 0
            assert "nor at any other time: the rule may not fit this release" in str(caught.value)
            assert words[where] in str(caught.value)


def one_broker() -> k.ClusterSpec:
    return k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="2.1.1", points=(LOG_READ,)),))


def test_an_agent_that_cannot_be_loaded_ends_the_broker_and_java_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    jar = tmp_path / "no.jar"
    jar.write_text("no jar")
    monkeypatch.setattr(jvm_cluster, "byteman_jar", lambda offline: jar)
    with pytest.raises(k.BrokerExited, match=rf"(?s)broker 0 exited with code 1 .*{jar}"):
        k.LocalCluster(one_broker(), work_directory=tmp_path / "no-agent").start()


def test_an_agent_that_does_not_report_is_an_error_although_kafka_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(byteman, "_MAIN", replace(byteman._MAIN, java_class="kafka.Elsewhere"))
    with pytest.raises(
        k.ClusterError, match=r"the agent of broker 0 did not report at .*127\.0\.0"
    ):
        cluster_of(one_broker(), work_directory=tmp_path / "silent").start()
