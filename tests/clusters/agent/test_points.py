"""The table of points, the rules that are made of it, and what is refused."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent import POINTS, point_of, unknown_points
from kchaos.clusters.agent import points as table
from kchaos.clusters.agent.byteman import Agent, GateAddress, Life, complaints, script
from kchaos.clusters.agent.points import LOG_READ, REGISTERED, REMOTE_COPY_CHECKPOINT, SEND_FETCH
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import TESTED_RELEASES, release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start.local import LocalCluster
from tests.agent_rules import refused, rules_of
from tests.support.plays_of_ci import STARTED_WITH_KRAFT, started_by_tests

GATE = GateAddress(host="127.0.0.1", port=4711, token="secret")
LIFE = Life(broker=1, number=2)
CHECKED = sorted(
    {*started_by_tests(TESTED_RELEASES), *started_by_tests(STARTED_WITH_KRAFT, is_kraft=True)}
)
"""Releases of which CI has the jars in any case; `.ci/check` takes each that is at hand."""


@pytest.mark.cluster
@pytest.mark.parametrize("release", CHECKED)
def test_the_release_s_jars_take_each_rule(release: str):
    assert refused(rules_of(release), release) == []


@pytest.mark.cluster
def test_a_rule_for_no_method_or_of_other_types_is_not_taken():
    rules = rules_of("2.8.2")
    no_method = rules.replace("METHOD checkEnoughReplicasReachOffset", "METHOD noSuchMethod")
    assert refused(no_method, "2.8.2") == [f"{PLANTED}acknowledged-early"]
    other_type = rules.replace("   $1 = $1 - 1L", '   $1 = "text"')
    assert f"{PLANTED}acknowledged-early" in refused(other_type, "2.8.2")


def test_the_table_takes_the_newest_place_that_a_release_has():
    point, place = point_of(LOG_READ, release_of("2.3.1"))
    assert place is point.places[0]
    assert point_of(LOG_READ, release_of("2.4.0"))[1] is point.places[1]
    assert point_of(LOG_READ, release_of("3.9.1"))[1] is point.places[-2]
    assert point_of(LOG_READ, release_of("4.1.2"))[1] is point.places[-1]


def test_a_point_that_a_release_lacks_is_refused_with_the_nearest_release_that_has_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    first, second = POINTS[LOG_READ].places[:2]
    lacking = (first, replace(second, java_class=""), replace(second, since=(3, 0, 0)))
    monkeypatch.setattr(table, "POINTS", {LOG_READ: replace(POINTS[LOG_READ], places=lacking)})

    assert unknown_points([LOG_READ], release_of("2.3.1")) == ""
    with pytest.raises(ReleaseError, match=r"2\.4\.1 has no point 'log-read'; .* is 2\.3\.1$"):
        point_of(LOG_READ, release_of("2.4.1"))
    with pytest.raises(ReleaseError, match=r"2\.8\.2 has no point 'log-read'; .* is 3\.0\.2$"):
        point_of(LOG_READ, release_of("2.8.2"))

    broker = BrokerSpec(id=3, kafka="2.8.2", points=(LOG_READ,))
    cluster = LocalCluster(ClusterSpec(brokers=(broker,)), work_directory=tmp_path / "work")
    with pytest.raises(ReleaseError, match=r"broker 3: Kafka 2\.8\.2 has no point 'log-read'"):
        cluster.start()
    assert not (tmp_path / "work").exists()


def test_a_point_that_nobody_named_is_refused_with_those_that_there_are():
    with pytest.raises(ReleaseError, match="no point is named 'nowhere'; known: controller-broker"):
        point_of("nowhere", release_of("2.8.2"))


def test_the_rules_of_a_life_greet_first_and_say_who_came_where():
    rules = script([REGISTERED, SEND_FETCH], release_of("2.2.2"), LIFE, GATE)

    assert re.findall(r"^RULE (.+)$", rules, re.M) == [
        "hello",
        "registered",
        "send-fetch",
        "send-fetch left undone",
    ]
    assert re.findall(r"^CLASS (.+)$", rules, re.M)[:2] == [
        "kafka.Kafka$",
        "kafka.zk.KafkaZkClient",
    ]
    assert re.findall(r"^AT (.+)$", rules, re.M) == ["ENTRY", "EXIT", "ENTRY", "ENTRY"]
    assert rules.count('new java.net.Socket("127.0.0.1", 4711)') == 3
    assert r'"secret\t1\t2\tregistered\t" + Thread.currentThread().getName()' in rules


def test_after_a_call_rules_run_the_other_way_about():
    rules = script([SEND_FETCH], release_of("2.0.1"), LIFE, GATE)
    assert re.findall(r"^RULE (.+)$", rules, re.M)[1:] == ["send-fetch left undone", "send-fetch"]
    assert rules.count("METHOD doWork\nAFTER INVOKE maybeTruncate()\n") == 2


def test_a_method_that_may_fail_throws_where_another_returns():
    rules = script([SEND_FETCH, REMOTE_COPY_CHECKPOINT], release_of("3.9.1"), LIFE, GATE)
    undone = re.findall(r"^IF clear\(Thread.currentThread\(\)\)\nDO (.+)$", rules, re.M)
    assert undone == ["RETURN", 'THROW new java.io.IOException("the remote store failed")']


def test_the_flags_name_the_jar_and_a_file_of_rules_in_the_broker_s_folder(tmp_path: Path):
    agent = Agent(jar=Path("/jars/byteman.jar"), points=(REGISTERED,), gate=GATE)
    release = release_of("2.2.2")

    flags = agent.flags(release, LIFE, tmp_path)

    assert flags == [f"-javaagent:/jars/byteman.jar=script:{tmp_path / 'agent.btm'}"]
    assert (tmp_path / "agent.btm").read_text() == script([REGISTERED], release, LIFE, GATE)


def test_what_the_agent_complained_of_is_found_among_other_lines(tmp_path: Path):
    console = tmp_path / "console.log"
    assert complaints(console) == []
    console.write_text(
        "Java HotSpot(TM) warning\n"
        "Rule.ensureTypeCheckedCompiled : error type checking rule log-read\n"
        "org.jboss.byteman.rule.exception.TypeException: invalid path\n"
        "\tat org.jboss.byteman.rule.Rule.typeCheck(Rule.java:601)\n"
    )
    assert complaints(console) == [
        "Rule.ensureTypeCheckedCompiled : error type checking rule log-read",
        "org.jboss.byteman.rule.exception.TypeException: invalid path",
    ]


def test_a_spec_with_points_is_read_back_as_it_was_written():
    spec = ClusterSpec(brokers=(BrokerSpec(id=0, kafka="2.8.2", points=(LOG_READ,)),))
    assert ClusterSpec.from_json(spec.to_json()) == spec
