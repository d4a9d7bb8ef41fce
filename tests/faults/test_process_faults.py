import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.observations import BrokerSeen
from kchaos.clusters.system.processes import process_start_time
from kchaos.faults.process.pause_broker import answers
from kchaos.faults.process.restart import start_again
from kchaos.faults.zookeeper.activity import packets_received
from kchaos.faults.zookeeper.expire_session import end_session_of

pytestmark = pytest.mark.cluster

ABSENT = BrokerSeen(broker=1, pid=None, czxid=None, session_id=None, znode=None)


def assert_reborn(before, after):
    """A new process with a new session and a younger registration."""
    assert after.pid is not None
    assert after.pid != before.pid
    assert after.session_id not in (None, before.session_id)
    assert after.czxid > before.czxid


def acts(journal):
    return [act for act, _ in journal.entries]


def test_a_killed_broker_is_gone_and_comes_back_as_another_process(cluster, observe, journal):
    before, broker = observe(1), cluster.brokers[1]
    with k.KillBroker(broker=1).inject(cluster, journal) as injection:
        assert process_start_time(before.pid) is None
        assert broker.exit_code == -signal.SIGKILL
        assert observe(1) == ABSENT
        assert not answers(broker.client_address, timeout_s=5)
        assert injection.before == before.to_json()
        assert injection.effect == {"exit_code": -9, **ABSENT.to_json()}
    assert_reborn(before, observe(1))
    assert answers(broker.client_address, timeout_s=5)
    assert acts(journal) == [
        "StopBroker",
        "broker-gone",
        "ExpireSession",
        "StartBroker",
        "broker-started",
    ]


def test_a_broker_is_killed_while_it_starts_and_its_disk_loses_a_file(
    cluster, observe, journal, topic
):
    replicas = topic(0, 1)
    replicas.produce(0, b"first", acks=-1)
    before, index = observe(1), f"{replicas.name}-0/{0:020d}.index"
    with k.KillBroker(broker=1, await_return=False).inject(cluster, journal):
        pass
    assert cluster.brokers[1].is_running
    with k.KillBroker(broker=1).inject(cluster, journal):
        for kept, size in ((5, 5), (None, None), (None, None)):
            lost = k.LoseFile(broker=1, file=index, kept_bytes=kept)
            with lost.inject(cluster, journal) as injection:
                assert injection.effect == {"size_bytes": size}
        assert injection.before == {"size_bytes": None}
    assert_reborn(before, observe(1))
    assert acts(journal).count("LoseFile") == 2
    replicas.await_state(leader=0, isr=[0, 1])


def test_a_stopped_broker_ends_cleanly_loses_nothing_and_comes_back(
    cluster, observe, journal, topic
):
    replicas = topic(0, 1)
    assert replicas.produce(0, acks=-1).base_offset == 0
    power_loss = k.LoseTail(broker=1, topic=replicas.name, partition=0, log_end_offset=0)
    with pytest.raises(k.NotAvailable, match="broker 1 runs: kill it"):
        power_loss.inject(cluster, journal).__enter__()
    before, broker = observe(1), cluster.brokers[1]
    mark = broker.log_directory / ".kafka_cleanshutdown"
    with k.StopBroker(broker=1).inject(cluster, journal) as injection:
        assert process_start_time(before.pid) is None
        assert mark.exists()
        assert observe(1) == ABSENT
        # A JVM that was asked to end by SIGTERM says so in its exit code, unlike a killed one.
        assert injection.effect["exit_code"] in (0, 128 + signal.SIGTERM)
        # It has closed its session itself, which nobody had to wait for.
        assert f"Session: {before.session_id:#x} closed" in broker.server_log.read_text()
        with pytest.raises(k.NotAvailable, match="broker 1 was stopped cleanly"):
            power_loss.inject(cluster, journal).__enter__()
    assert_reborn(before, observe(1))
    assert not mark.exists()
    assert answers(broker.client_address, timeout_s=5)


def test_a_stop_that_takes_too_long_is_told_and_the_broker_is_made_whole(cluster, observe, journal):
    before = observe(1)
    with pytest.raises(k.AwaitTimeout, match=r"waited 0\.01 s for broker 1 \(pid \d+\) to exit"):
        k.StopBroker(broker=1, timeout_s=0.01).inject(cluster, journal).__enter__()
    assert process_start_time(before.pid) is None
    assert_reborn(before, observe(1))
    assert answers(cluster.brokers[1].client_address, timeout_s=5)


def test_a_paused_broker_stands_still_and_then_answers_again(cluster, observe, journal):
    before, broker = observe(1), cluster.brokers[1]
    with k.PauseBroker(broker=1).inject(cluster, journal) as injection:
        assert cluster.brokers[1].is_paused
        assert injection.effect == {"is_paused": True}
        assert not answers(broker.client_address, timeout_s=0.3)
        assert broker.is_running
        heard = packets_received(cluster, before.session_id)
    assert not cluster.brokers[1].is_paused
    assert answers(broker.client_address, timeout_s=5)
    after = observe(1)
    # The old registration alone would say nothing: its session may be about to end.
    assert after != before or packets_received(cluster, before.session_id) != heard


def test_a_broker_whose_session_ends_during_its_pause_registers_again_on_healing(
    cluster, observe, journal
):
    before = observe(1)
    with (
        k.PauseBroker(broker=1).inject(cluster, journal),
        k.ExpireSession(broker=1, await_return=False).inject(cluster, journal),
    ):
        assert observe(1).czxid is None
        assert cluster.brokers[1].is_paused
    after = observe(1)
    assert after.pid == before.pid
    assert after.session_id not in (None, before.session_id)
    assert after.czxid > before.czxid


def test_a_bounced_broker_is_another_process_with_another_session_at_once(
    cluster, observe, journal
):
    before = observe(1)
    with k.FastBounce(broker=1).inject(cluster, journal) as injection:
        after = observe(1)
        assert process_start_time(before.pid) is None
        assert_reborn(before, after)
        assert answers(cluster.brokers[1].client_address, timeout_s=5)
        assert (injection.before, injection.effect) == (before.to_json(), after.to_json())
    assert observe(1) == after


def test_a_broker_without_a_process_cannot_be_killed_stopped_paused_or_bounced(
    cluster, observe, journal
):
    with k.KillBroker(broker=1).inject(cluster, journal):
        for fault, what in (
            (k.KillBroker(broker=1), "kill"),
            (k.StopBroker(broker=1), "stop"),
            (k.PauseBroker(broker=1), "pause"),
            (k.FastBounce(broker=1), "bounce"),
        ):
            with pytest.raises(k.NotAvailable, match=f"broker 1 has no process to {what}"):
                fault.inject(cluster, journal).__enter__()
        with pytest.raises(k.NotAvailable, match="no session to end: it is not registered"):
            k.ExpireSession(broker=1).inject(cluster, journal).__enter__()
        assert observe(1) == ABSENT


def test_a_paused_broker_cannot_be_paused_again_and_is_resumed_after_an_exception(
    cluster, observe, journal
):
    before = observe(1)
    with (
        pytest.raises(k.NotAvailable, match="broker 1 is paused already"),
        k.PauseBroker(broker=1).inject(cluster, journal),
        k.PauseBroker(broker=1).inject(cluster, journal),
    ):
        pass
    assert not cluster.brokers[1].is_paused
    assert observe(1) == before


def test_healing_does_no_harm_to_a_broker_that_died_meanwhile(cluster, observe, journal):
    before, broker = observe(1), cluster.brokers[1]
    with contextlib.ExitStack() as stack:
        for fault in (
            k.CutLink(source=0, target=1),
            k.HoldRequests(name="fetches", api="Fetch", source=1, target=0),
            k.ExpireSession(broker=1),
            k.CutZooKeeper(broker=1),
            k.PauseBroker(broker=1),
        ):
            stack.enter_context(fault.inject(cluster, journal))
        broker.kill()
    # It may have registered again between the end of its session and the cut.
    left = observe(1).session_id
    if left is not None:
        end_session_of(cluster, left)
    assert observe(1) == ABSENT
    start_again(cluster, journal, broker, above_czxid=before.czxid)
    assert_reborn(before, observe(1))


INTERRUPTED = """
import json, sys
from pathlib import Path
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import CutZooKeeper, HoldRequests, KillBroker
from kchaos.faults.api import MemoryJournal
from kchaos.faults.errors import NotAvailable
from kchaos.faults.observation import observe_broker
from tests.support.drivers import cluster_of

def say(**what):
    print(json.dumps(what), flush=True)

spec = ClusterSpec(
    brokers=brokers_of("2.8.2", (1,)),
    linked=False,
    properties={"zookeeper.session.timeout.ms": "1500"},
)
with cluster_of(spec, work_directory=Path(sys.argv[1])) as cluster:
    journal = MemoryJournal()
    for fault in (CutZooKeeper(broker=1), HoldRequests(name="h", api="Fetch")):
        try:
            fault.inject(cluster, journal).__enter__()
        except NotAvailable as error:
            say(refused=str(error))
    say(before=observe_broker(cluster, 1).to_json())
    try:
        with KillBroker(broker=1, end_session=False).inject(cluster, journal):
            say(inside=observe_broker(cluster, 1).to_json())
            sys.stdin.read()
    except KeyboardInterrupt:
        acts = [act for act, _ in journal.entries]
        say(after=observe_broker(cluster, 1).to_json(), acts=acts)
"""


def test_ctrl_c_heals_and_a_cluster_without_links_refuses_faults_that_need_them(tmp_path):
    harness = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(tmp_path / "work")],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert harness.stdout is not None
    said: dict[str, Any] = {}
    refusals = []
    for line in harness.stdout:
        what = json.loads(line)
        refusals += [what.pop("refused")] if "refused" in what else []
        said |= what
        if "inside" in what:
            os.kill(harness.pid, signal.SIGINT)
    assert harness.wait() == 0
    assert refusals == ["the cluster runs without links: start it with linked=True"] * 2
    assert (said["inside"]["pid"], said["inside"]["czxid"]) == (None, None)
    assert said["after"]["pid"] not in (None, said["before"]["pid"])
    assert said["after"]["czxid"] > said["before"]["czxid"]
    # The session was left alone, so the registration went when its time was up.
    assert said["acts"] == ["StopBroker", "broker-gone", "StartBroker", "broker-started"]
    k.await_until(
        lambda: process_start_time(said["after"]["pid"]) is None,
        timeout_s=30,
        waiting_for="the restarted broker to end with its harness",
        last_seen=lambda: process_start_time(said["after"]["pid"]),
    )
