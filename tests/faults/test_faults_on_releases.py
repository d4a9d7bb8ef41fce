"""Faults that have to work on every release (`make releases`), or work in another way on some.

Times are printed and recorded; nothing is asserted of them.
"""

import time

import pytest

from kchaos.clusters.releases import KNOWN_RELEASES
from kchaos.faults import ExpireSession, PreferredElection
from kchaos.faults.errors import NotAvailable
from tests.support.elections import check_election, prefer
from tests.support.plays_of_ci import started_by_tests

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("release", started_by_tests(KNOWN_RELEASES))
def test_the_session_of_a_live_broker_ends_within_the_injection_and_it_registers_again(
    release, cluster, journal, observe, record_property, capsys
):
    before = observe(1)
    started = time.perf_counter()
    with ExpireSession(broker=1).inject(cluster, journal) as injection:
        ended_ms = (time.perf_counter() - started) * 1000
        now = observe(1)
        assert injection.before == before.to_json()
        assert injection.effect["czxid"] != before.czxid
        assert now.czxid != before.czxid
        assert now.session_id != before.session_id
        assert now.pid == before.pid
    back_ms = (time.perf_counter() - started) * 1000
    after = observe(1)
    assert after.pid == before.pid
    assert after.session_id not in (None, before.session_id)
    assert after.czxid > before.czxid
    assert after.znode is not None
    assert [act for act, _ in journal.entries] == ["ExpireSession", "broker-registered"]
    record_property("ended_ms", round(ended_ms, 1))
    record_property("back_ms", round(back_ms, 1))
    with capsys.disabled():
        print(f" {release}: ended after {ended_ms:.1f} ms, back after {back_ms:.0f} ms", end=" ")


@pytest.mark.parametrize(
    ("release", "by", "done_by"),
    [
        ("0.10.2.2", "", "znode"),
        ("1.1.1", "", "znode"),
        ("2.2.2", "api", "api"),
        ("3.9.1", "znode", "znode"),
        ("3.9.1", "", "api"),
    ],
)
def test_the_preferred_replica_is_elected_as_the_release_can(cluster, journal, topic, by, done_by):
    check_election(topic(0, 1), journal, by, done_by)


@pytest.mark.parametrize("release", ["0.10.2.2"])
def test_an_election_by_request_is_refused_where_the_release_does_not_know_it(
    cluster, journal, topic
):
    replicas = topic(0, 1)
    prefer(replicas, 1, 0)
    fault = PreferredElection(topic=replicas.name, partition=0, by="api")
    with pytest.raises(NotAvailable, match=r"controller 0 runs 0\.10\.2\.2, .* use by='znode'"):
        fault.inject(cluster, journal).__enter__()
    assert replicas.state()["leader"] == 0
