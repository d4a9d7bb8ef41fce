"""The bugs that may be planted: their data, their rules, and what is refused."""

import re
import subprocess
from pathlib import Path

import pytest

from kchaos.checkers.findings import KINDS
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.byteman import GateAddress, Life, byteman_jar, script
from kchaos.clusters.agent.planted import PLANTED_BUGS
from kchaos.clusters.agent.points import planted_refused
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start.local import LocalCluster

GATE = GateAddress(host="127.0.0.1", port=4711, token="secret")
LIFE = Life(broker=1, number=2)
RELEASES = sorted({release for bug in PLANTED_BUGS.values() for release in bug.releases})


def _complaints(rules: str, release: str, folder: Path) -> list[str]:
    """The rules that Byteman's own checker does not accept for a release's jars, by name."""
    file = folder / "planted.btm"
    file.write_text(rules)
    known = resolve(release)
    jars = ":".join(map(str, (byteman_jar(), *known.class_path)))
    checked = subprocess.run(
        ["java", "-cp", jars, "org.jboss.byteman.check.TestScript", "-v", str(file)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    accepted = set(re.findall(r'^Type checked rule "(.+)"', checked.stdout, re.M))
    return [name for name in re.findall(r"^RULE (.+)$", rules, re.M) if name not in accepted]


@pytest.mark.cluster
@pytest.mark.parametrize("release", RELEASES)
def test_every_rule_fits_the_release_s_jars(release: str, tmp_path: Path) -> None:
    known = release_of(release)
    names = [bug.name for bug in PLANTED_BUGS.values() if bug.place(known) is not None]
    rules = script(names, known, LIFE, GATE)
    assert _complaints(rules, release, tmp_path) == []

    broken = rules.replace("METHOD checkEnoughReplicasReachOffset", "METHOD noSuchMethod")
    assert _complaints(broken, release, tmp_path) == [f"{PLANTED}acknowledged-early"]


@pytest.mark.parametrize("name", PLANTED_BUGS)
def test_a_bug_says_what_it_changes_and_which_findings_point_at_it(name: str) -> None:
    bug = PLANTED_BUGS[name]
    assert bug.name == f"{PLANTED}{name}"
    assert bug.breaks
    assert set(bug.kinds) <= set(KINDS)
    assert bug.words
    assert all(place.does for place in bug.places)


def test_a_rule_reports_before_it_acts_and_only_where_it_changes_something() -> None:
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
        ("epoch-not-raised", "4.1.2", True, "is of ZooKeeper's controllers"),
        ("high-watermark-ahead", "2.3.1", False, "fits no method of 2.3.1: it fits 2.8.2, 3.9.1"),
        ("high-watermark-ahead", "4.1.2", True, ""),
    ],
)
def test_a_bug_that_is_not_for_a_cluster_is_refused(
    name: str, release: str, is_kraft: bool, why: str
) -> None:
    refused = planted_refused(name, release_of(release), is_kraft=is_kraft)
    assert why in refused if why else not refused


def test_a_cluster_with_a_bug_that_does_not_fit_does_not_start(tmp_path: Path) -> None:
    broker = BrokerSpec(id=3, kafka="2.3.1", points=(f"{PLANTED}acknowledged-early",))
    cluster = LocalCluster(ClusterSpec(brokers=(broker,)), work_directory=tmp_path / "work")
    with pytest.raises(ReleaseError, match=r"broker 3: the bug acknowledged-early fits no method"):
        cluster.start()
    assert not (tmp_path / "work").exists()
