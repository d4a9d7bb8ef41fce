"""The bugs that may be planted: their data, their rules, and what is refused."""

import re
from pathlib import Path

import pytest

from kchaos.checkers.findings import KINDS
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.byteman import GateAddress, Life, script
from kchaos.clusters.agent.planted import PLANTED_BUGS
from kchaos.clusters.agent.points import controller_bugs, planted_refused
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start.local import LocalCluster

GATE = GateAddress(host="127.0.0.1", port=4711, token="secret")
LIFE = Life(broker=1, number=2)


@pytest.mark.parametrize("name", PLANTED_BUGS)
def test_a_bug_says_what_it_changes_and_which_findings_point_at_it(name: str):
    bug = PLANTED_BUGS[name]
    assert bug.name == f"{PLANTED}{name}"
    assert bug.breaks
    assert set(bug.kinds) <= set(KINDS)
    assert bug.words
    assert all(place.does for place in bug.places)


def test_a_rule_reports_before_it_acts_and_only_where_it_changes_something():
    bug = PLANTED_BUGS["isr-takes-who-lags"]
    rules = script([bug.name], release_of("3.9.1"), LIFE, GATE)
    own = rules[rules.index(f"RULE {bug.name}") :]
    assert "AT EXIT" in own
    assert "IF !$!\n" in own
    assert own.index("gate.close()") < own.index("RETURN true")
    assert re.findall(r"^IF (.+)$", rules, re.M) == ["TRUE", "!$!"]


@pytest.mark.parametrize(
    ("name", "release", "is_kraft", "why"),
    [
        ("nothing", "2.8.2", False, "no bug 'nothing' is there to plant: kchaos list --planted"),
        ("epoch-not-raised", "3.9.1", True, "is of controllers with ZooKeeper"),
        ("epoch-not-raised", "4.1.2", True, "fits no method of 4.1.2: it fits 2.8.2, 3.9.1"),
        ("fenced-stays-in-isr", "3.9.1", True, "fits no method of 3.9.1: it fits 4.1.2"),
        ("high-watermark-ahead", "2.3.1", False, "fits no method of 2.3.1: it fits 2.8.2, 3.9.1"),
        ("high-watermark-ahead", "4.1.2", True, ""),
    ],
)
def test_a_bug_that_is_not_for_a_cluster_is_refused(
    name: str, release: str, is_kraft: bool, why: str
):
    refused = planted_refused(name, release_of(release), is_kraft=is_kraft)
    assert why in refused if why else not refused


def test_a_cluster_with_a_bug_that_does_not_fit_does_not_start(tmp_path: Path):
    broker = BrokerSpec(id=3, kafka="2.3.1", points=(f"{PLANTED}acknowledged-early",))
    cluster = LocalCluster(ClusterSpec(brokers=(broker,)), work_directory=tmp_path / "work")
    with pytest.raises(ReleaseError, match=r"broker 3: the bug acknowledged-early fits no method"):
        cluster.start()
    assert not (tmp_path / "work").exists()


def test_controllers_run_the_bugs_of_controllers_alone():
    points = (f"{PLANTED}fenced-stays-in-isr", f"{PLANTED}acknowledged-early", "log-read")
    brokers = tuple(BrokerSpec(id=number, kafka="4.1.2", points=points) for number in range(2))
    assert controller_bugs(ClusterSpec(brokers=brokers)) == points[:1]
