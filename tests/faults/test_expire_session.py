"""ExpireSession on every release. The times are printed and recorded, and nothing is asserted."""

from __future__ import annotations

import time

import pytest

from clusters.releases import KNOWN_RELEASES
from faults import ExpireSession

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("release", KNOWN_RELEASES)
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
    assert [act for act, _ in journal.entries] == ["expire-session", "broker-registered"]
    record_property("ended_ms", round(ended_ms, 1))
    record_property("back_ms", round(back_ms, 1))
    with capsys.disabled():
        print(f" {release}: ended after {ended_ms:.1f} ms, back after {back_ms:.0f} ms", end=" ")
