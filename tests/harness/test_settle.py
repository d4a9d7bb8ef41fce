"""Settling: which log lines are a fetcher's end, what counts as different, what stalls for real."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.json_form import to_json
from kchaos.checkers.observations import SettleProbe
from kchaos.clusters.links import ApiKey, Match
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.clusters.system.leftovers import work_directory
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates import settle as settle_module
from kchaos.harness.gates.probe import Probed, is_probe_replicated
from kchaos.harness.gates.replication import fetcher_failure, first_difference, lasting_difference
from kchaos.harness.gates.settle import _settle_partition, settle
from kchaos.harness.gates.settled import Settled
from kchaos.harness.play.clients import Clients
from kchaos.harness.run.runner import begin
from tests.support.drivers import cluster_of, play_options
from tests.support.run_builder import segment
from tests.support.stand_ins import StandInCluster, play_on

ABOUT = k.TopicPartition("t", 0)
SEEN = LeaderAndIsr(leader=0, leader_epoch=1, isr=(0, 1))
RELEASE = "1.1.1"
BOUND_S = 2.0

# As releases wrote them, with the layout of kchaos's own log4j configuration.
DIED_0_11 = "[2026-01-01 10:00:00,000] ERROR [ReplicaFetcherThread-0-0]: Error due to (kafka.server.ReplicaFetcherThread)"  # noqa: E501 - a log line
DIED_0_10 = DIED_0_11.replace("]: Error due to", "], Error due to ")
DIED_1_0 = DIED_0_11.replace(
    "[ReplicaFetcherThread-0-0]:", "[ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0]"
)
STARTING_0_10 = DIED_0_10.replace("ERROR", "INFO").replace("Error due to ", "Starting ")
STARTING_0_11 = DIED_0_11.replace("ERROR", "INFO").replace("Error due to", "Starting")
STARTING_1_0 = DIED_1_0.replace("ERROR", "INFO").replace("Error due to", "Starting")
FAILED = "[2026-01-01 10:00:00,000] WARN [ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0] Partition t-0 marked as failed (kafka.server.ReplicaFetcherThread)"  # noqa: E501
ADDED = "[2026-01-01 10:00:01,000] INFO [ReplicaFetcherManager on broker 1] Added fetcher to broker 0 for partitions Map(t-0 -> (offset=4, leaderEpoch=2)) (kafka.server.ReplicaFetcherManager)"  # noqa: E501


def failure(tmp_path: Path, *lines: str, leader: int = 0, since: int = 0) -> str:
    """What broker 1 says of following t-0, after these lines of its log."""
    cluster = StandInCluster(folder=tmp_path)
    cluster.brokers[1].server_log.write_text("".join(line + "\n" for line in lines))
    play = k.Play(cluster=cast(Any, cluster), run=cast(Any, None), say=print)
    play.observer.log_started[1] = since
    return fetcher_failure(play, 1, leader, ABOUT)


@pytest.mark.parametrize("died", [DIED_0_10, DIED_0_11, DIED_1_0], ids=["0.10", "0.11", "1.0"])
def test_the_line_with_which_a_fetcher_thread_died_is_found_in_every_form(
    tmp_path: Path, died: str
):
    assert failure(tmp_path, died, "\tat kafka.server.AbstractFetcherThread") == died


@pytest.mark.parametrize("died", [DIED_0_10, DIED_0_11, DIED_1_0], ids=["0.10", "0.11", "1.0"])
@pytest.mark.parametrize("leader", [1, 2, 10])
def test_a_dead_thread_is_not_charged_to_another_leader(tmp_path: Path, died: str, leader: int):
    assert failure(tmp_path, died, leader=leader) == ""


def test_a_leader_of_two_digits_is_not_mistaken_for_one_of_its_digits(tmp_path: Path):
    of_ten = [
        DIED_0_11.replace("Thread-0-0", "Thread-0-10"),
        DIED_1_0.replace("leaderId=0", "leaderId=10"),
    ]
    assert [failure(tmp_path, line, leader=1) for line in of_ten] == ["", ""]
    assert [failure(tmp_path, line, leader=10) for line in of_ten] == of_ten


@pytest.mark.parametrize(
    ("died", "starting"),
    [(DIED_0_10, STARTING_0_10), (DIED_0_11, STARTING_0_11), (DIED_1_0, STARTING_1_0)],
    ids=["0.10", "0.11", "1.0"],
)
def test_a_thread_that_starts_after_the_death_clears_it_and_one_before_does_not(
    tmp_path: Path, died: str, starting: str
):
    assert failure(tmp_path, died, starting) == ""
    assert failure(tmp_path, starting, died) == died
    assert failure(tmp_path, died, starting, died) == died


def test_a_thread_to_another_leader_that_starts_clears_nothing(tmp_path: Path):
    other = STARTING_1_0.replace("leaderId=0", "leaderId=2")
    assert failure(tmp_path, DIED_1_0, other) == DIED_1_0


def test_a_failed_partition_counts_until_a_fetcher_is_added_for_it(tmp_path: Path):
    assert failure(tmp_path, FAILED) == FAILED
    assert failure(tmp_path, FAILED, ADDED) == ""
    assert failure(tmp_path, ADDED, FAILED) == FAILED


@pytest.mark.parametrize("other", ["t-1", "t-01", "tt-0", "a-t-0", "a.t-0", "t-0-0", "t-0.b-0"])
def test_another_partition_that_fails_or_is_added_says_nothing_about_this_one(
    tmp_path: Path, other: str
):
    assert failure(tmp_path, FAILED.replace("t-0", other)) == ""
    assert failure(tmp_path, FAILED, ADDED.replace("t-0", other)) == FAILED


def test_a_fetcher_added_for_several_partitions_clears_each_of_them(tmp_path: Path):
    several = ADDED.replace("Map(t-0", "HashMap(a-t-0 -> (offset=1, leaderEpoch=0), t-0")
    assert failure(tmp_path, FAILED, several) == ""


def test_lines_from_before_the_process_started_do_not_count(tmp_path: Path):
    started = len((DIED_1_0 + "\n" + FAILED + "\n").encode())
    assert failure(tmp_path, DIED_1_0, FAILED, since=started) == ""
    assert failure(tmp_path, DIED_1_0, FAILED, DIED_1_0, since=started) == DIED_1_0


def test_a_broker_without_a_log_has_no_failed_fetcher(tmp_path: Path):
    play = play_on(StandInCluster(folder=tmp_path), tmp_path)
    assert fetcher_failure(play, 1, 0, ABOUT) == ""


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        ([], "converged"),
        (["converged"], "converged"),
        (["failed", "converged"], "failed"),
        (["stalled", "failed", "converged"], "stalled"),
        (["failed", "stalled"], "stalled"),
    ],
)
def test_the_worst_state_of_all_partitions_stays(states: list[str], worst: str):
    settled = Settled()
    for state in states:
        settled.worsen(state)
    assert settled.state == worst


def test_a_reason_names_kind_broker_partition_and_what_was_seen():
    settled = Settled(bound_s=3.0)
    settled.add("replication-stopped", k.TopicPartition("t", 4), 1, "its fetcher died")
    reason = {
        "kind": "replication-stopped",
        "broker": 1,
        "topic": "t",
        "partition": 4,
        "detail": "its fetcher died",
    }
    assert to_json(settled.told()) == {
        "state": "converged",
        "reasons": (reason,),
        "bound_s": 3.0,
        "bound_from": "",
        "probes": (),
        "last_seen": {},
    }


def exited(name: str) -> k.BrokerExited:
    return k.BrokerExited(name=name, exit_code=1, last_lines=(), log="server.log")


def test_a_broker_that_exits_by_itself_while_others_settle_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
):
    looks = iter([exited("broker 0"), True])

    def look(_play: k.Play, _about: k.TopicPartition, _untold: object, tried: Settled) -> bool:
        seen = next(looks)
        if isinstance(seen, k.BrokerExited):
            tried.worsen("stalled")
            raise seen
        return bool(seen)

    monkeypatch.setattr("kchaos.harness.gates.settle._is_settled", look)
    play = k.Play(cluster=cast(Any, StandInCluster(brokers=())), run=cast(Any, None), say=print)
    settled = Settled()
    _settle_partition(play, ABOUT, {}, settled)
    assert (settled.state, list(looks)) == ("converged", [])

    looks = iter([exited("zookeeper 1")])
    with pytest.raises(k.BrokerExited):
        _settle_partition(play, ABOUT, {}, settled)


def test_a_wait_ends_when_the_partition_s_state_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    play = disks(tmp_path, [(0, 0, ["a"])], [])
    states = iter([SEEN, SEEN, replace(SEEN, isr=(0,))])
    cast(Any, play.cluster).metadata = SimpleNamespace(state=lambda *_: next(states))
    followed = {"leader": 0, "leader_epoch": 1, "isr": [0, 1]}
    looked: list[Any] = []

    def look(_play: k.Play, _about: k.TopicPartition, _untold: object, _tried: Settled) -> bool:
        looked.append(_tried)
        if len(looked) > 1:
            return True
        abort = settle_module._unless_moved(play, ABOUT, followed)
        gates.await_log_end(play, ABOUT, [0, 1], 1, timeout_s=60, abort=abort)
        raise AssertionError("the follower has no log")

    monkeypatch.setattr(settle_module, "_is_settled", look)
    _settle_partition(play, ABOUT, {}, Settled())
    assert (len(looked), list(states)) == (2, [])


def never() -> None:
    """Nothing keeps anybody from waiting on."""


def disks(tmp_path: Path, *logs: list[tuple[int, int, list[str]]]) -> k.Play:
    """Brokers 0, 1, ... whose disks hold these logs of t-0."""
    cluster = StandInCluster(brokers=range(len(logs)), folder=tmp_path)
    for broker, log in zip(cluster.brokers.values(), logs, strict=True):
        folder = broker.log_directory / "t-0"
        folder.mkdir(parents=True)
        (folder / "00000000000000000000.log").write_bytes(segment(log))
        broker.stop()
    return play_on(cluster, tmp_path)


def different(tmp_path: Path, *logs: list[tuple[int, int, list[str]]]) -> dict[str, Any] | None:
    """What `first_difference` says of brokers whose disks hold these logs of t-0."""
    play = disks(tmp_path, *logs)
    return first_difference(play, ABOUT, list(play.cluster.brokers))


def test_equal_logs_and_a_single_log_do_not_differ(tmp_path: Path):
    log = [(0, 0, ["a"]), (1, 1, ["b", "c"])]
    assert different(tmp_path / "three", log, log, log) is None
    assert different(tmp_path / "one", log) is None
    assert different(tmp_path / "empty", [], []) is None


def test_the_first_batch_in_which_two_logs_differ_is_named(tmp_path: Path):
    seen = different(
        tmp_path,
        [(0, 0, ["a"]), (1, 0, ["b"]), (2, 2, ["d"])],
        [(0, 0, ["a"]), (1, 0, ["b"]), (2, 2, ["d"])],
        [(0, 0, ["a"]), (1, 1, ["c"]), (2, 2, ["d"])],
    )
    assert seen is not None
    assert seen["brokers"] == [0, 2]
    mine, theirs = seen["batches"]
    assert (mine[:3], theirs[:3]) == ((1, 1, 0), (1, 1, 1))


def test_equal_offsets_and_epochs_with_other_bytes_differ(tmp_path: Path):
    seen = different(tmp_path, [(0, 0, ["a"])], [(0, 0, ["b"])])
    assert seen is not None
    mine, theirs = seen["batches"]
    assert mine[:4] == theirs[:4]
    assert mine != theirs


def test_a_log_that_only_ends_earlier_differs_by_its_length(tmp_path: Path):
    seen = different(tmp_path, [(0, 0, ["a"]), (1, 0, ["b"])], [(0, 0, ["a"])])
    assert seen == {"brokers": [0, 1], "lengths": [2, 1]}


def test_what_others_write_behind_the_shortest_log_is_no_difference(tmp_path: Path):
    longer = [(0, 0, ["a"]), (1, 0, ["b"])]
    play = disks(tmp_path / "growing", longer, longer[:1])
    parted = disks(tmp_path / "parted", longer, [(0, 0, ["c"])])
    play.cluster.has_given_addresses = parted.cluster.has_given_addresses = True  # type: ignore[misc]

    assert first_difference(play, ABOUT, [0, 1]) is None
    assert first_difference(parted, ABOUT, [0, 1]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("is_open", [False, True])
def test_a_log_that_ends_behind_the_probe_is_replicated_where_others_may_write(
    is_open: bool, tmp_path: Path
):
    log = [(0, 0, ["probe"]), (1, 0, ["mine"])]
    play = disks(tmp_path, log, log)
    play.cluster.has_given_addresses = is_open  # type: ignore[misc]
    settled = Settled(bound_s=0.2)

    probed = Probed(
        play=play, partition=ABOUT, leader=0, in_sync=[0, 1], settled=settled, abort=never
    )

    assert is_probe_replicated(probed, 1) is is_open
    assert len(settled.reasons) == (0 if is_open else 2)


def test_a_log_that_ends_there_by_chance_and_is_truncated_then_does_not_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As on 2.8.0, where a diverging follower counts for the high watermark (KAFKA-13141)."""
    leaders = [(0, 0, ["a"]), (1, 2, ["b"]), (2, 2, ["probe"])]
    play = disks(tmp_path, leaders, [(0, 0, ["a"]), (1, 1, ["c"]), (2, 1, ["d"])])
    follower = play.cluster.brokers[1].log_directory / "t-0" / "00000000000000000000.log"
    asked = []

    def truncate_and_fetch(_play: k.Play, broker: int, leader: int, count: int, **_: Any) -> None:
        asked.append((broker, leader, count))
        follower.write_bytes(segment(leaders))

    assert first_difference(play, ABOUT, [0, 1]) is not None
    monkeypatch.setattr(fetching, "await_fetches", truncate_and_fetch)
    assert lasting_difference(play, ABOUT, 0, [0, 1], 3, timeout_s=5, abort=never) is None
    assert asked == [(1, 0, 2)]


def test_a_log_that_stays_different_is_named_after_its_follower_has_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    play = disks(tmp_path, [(0, 0, ["a"])], [(0, 0, ["b"])])
    asked = []
    monkeypatch.setattr(fetching, "await_fetches", lambda *what, **_: asked.append(what[1:]))
    lasting = lasting_difference(play, ABOUT, 0, [0, 1], 1, timeout_s=5, abort=never)
    assert lasting is not None
    assert lasting["brokers"] == [0, 1]
    assert asked == [(1, 0, 2)]


# -- on a real cluster --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[JvmCluster]:
    """Two linked brokers, 0 the controller; a follower that is held leaves the ISR soon."""
    spec = k.ClusterSpec(
        brokers=k.brokers_of(RELEASE, (0, 1)),
        first_broker=0,
        properties={"replica.lag.time.max.ms": "1500", "zookeeper.session.timeout.ms": "6000"},
    )
    with work_directory("test-settle") as work, cluster_of(spec, work_directory=work) as running:
        yield running


@pytest.fixture
def play(cluster: JvmCluster, tmp_path: Path) -> Iterator[k.Play]:
    for broker in cluster.brokers.values():
        if not broker.is_running:
            broker.start()
            broker.await_ready()
    scenario = k.Scenario(entry="test", case="", release=RELEASE, cluster=cluster.spec, steps=())
    now = begin(scenario, cluster, options=play_options(tmp_path), started=time.time(), say=print)
    yield now
    assert cluster.links is not None
    cluster.links.set_sink(None)


def observed(run: k.RunDirectory, kind: str) -> dict[str, Any]:
    (line,) = [line for line in run.read_lines("observations.jsonl") if line["kind"] == kind]
    return line


@pytest.mark.cluster
def test_replicas_that_are_in_sync_converge_and_the_probe_tells(play: k.Play):
    k.CreateTopic(topic="good", assignment=((0, 1),)).perform(play)
    settled = settle(play, [k.TopicPartition("good", 0)], bound_s=20)
    assert (settled.state, settled.reasons) == ("converged", [])
    assert settled.probes == [SettleProbe(operation="settle-good-0", acknowledged=True, error=0)]
    assert settled.last_seen["good-0"]["ends"] == {"0": 1, "1": 1}


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("configuration", "error"),
    [
        # A batch of magic 2 with the probe has 72 bytes.
        ((("segment.bytes", "72"), ("cleanup.policy", "compact")), ErrorCode.NONE),
        ((("max.message.bytes", "71"),), ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["fits", "does not fit"],
)
def test_a_topic_that_takes_no_record_has_not_stopped_to_replicate(
    play: k.Play, configuration: tuple[tuple[str, str], ...], error: int
):
    topic = f"small-{error}"
    k.CreateTopic(topic=topic, assignment=((0, 1),), configuration=configuration).perform(play)
    settled = settle(play, [k.TopicPartition(topic, 0)], bound_s=20)
    assert (settled.state, settled.reasons) == ("converged", [])
    assert {probe.error for probe in settled.probes} == {error}


@pytest.mark.cluster
def test_a_topic_that_wants_more_replicas_than_it_has_converges(play: k.Play):
    k.CreateTopic(topic="short", assignment=((0, 1),)).perform(play)
    wanted = k.ConfigureTopic(topic="short", configuration=(("min.insync.replicas", "3"),))
    k.Inject(name="wants-3", fault=wanted).perform(play)

    settled = settle(play, [k.TopicPartition("short", 0)], bound_s=BOUND_S)

    assert (settled.state, settled.reasons) == ("converged", [])
    *refused, last = settled.probes
    assert {probe.error for probe in refused} == {ErrorCode.NOT_ENOUGH_REPLICAS}
    assert last.acknowledged
    assert settled.last_seen["short-0"]["ends"] == {"0": 1, "1": 1}


@pytest.mark.cluster
def test_a_follower_whose_fetches_are_held_stalls_with_bound_and_probe(play: k.Play):
    topic_partition = k.TopicPartition("held", 0)
    k.CreateTopic(topic="held", assignment=((0, 1),)).perform(play)
    links = play.cluster.links
    assert links is not None
    with links.hold(Match(api_keys=frozenset({ApiKey.FETCH}), source=1, target=0)):
        k.Produce(operation="p", topic="held", partition=0, records=2, acks=1).perform(play)
        gates.await_state(play, topic_partition, leader=0, isr=[0], timeout_s=30)
        with pytest.raises(k.AwaitTimeout, match="broker 1 to fetch 1 times more from 0"):
            fetching.await_fetches(play, 1, 0, 1, timeout_s=0.5)
        settled = settle(play, [topic_partition], bound_s=BOUND_S)
    assert (settled.state, settled.bound_s) == ("stalled", BOUND_S)
    assert settled.reasons == [
        {
            "kind": "replication-stopped",
            "broker": 1,
            "topic": "held",
            "partition": 0,
            "detail": "broker 1 was not in the ISR [0] for 2 s, and nothing changed",
        }
    ]
    # Nothing else is at fault: the leader acknowledged what was written meanwhile.
    assert settled.probes == [SettleProbe(operation="settle-held-0", acknowledged=True, error=0)]
    seen = settled.last_seen["held-0"]
    assert (seen["leader"], seen["isr"], seen["live"]) == (0, [0], [0, 1])
    assert seen["ends"]["0"] == 3
    assert (
        json.loads(json.dumps(to_json(settled.told()))).items()
        <= observed(play.run, "settled").items()
    )
    # The hold was all that kept it from following, and from fetching when there is nothing new.
    fetching.await_fetches(play, 1, 0, 2, timeout_s=30)
    gates.await_state(play, topic_partition, isr=[0, 1], timeout_s=30)


@pytest.mark.cluster
def test_a_follower_that_is_only_slow_has_not_stopped(
    play: k.Play, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kchaos.harness.gates.probe._PROBE_S", 0.5)
    topic_partition = k.TopicPartition("slow", 0)
    k.CreateTopic(topic="slow", assignment=((0, 1),)).perform(play)
    links = play.cluster.links
    assert links is not None
    fetches = Match(api_keys=frozenset({ApiKey.FETCH}), source=1, target=0)
    holds = []
    produce = Clients.produce

    def produce_once_fetches_are_held(clients: Clients, action: Any, **more: Any) -> None:
        # A follower that is held for longer leaves the ISR, and the leader acknowledges alone.
        if action.operation == "settle-slow-0":
            holds.append(links.hold(fetches))
        produce(clients, action, **more)

    monkeypatch.setattr(Clients, "produce", produce_once_fetches_are_held)

    def release_once_the_probe_has_timed_out() -> None:
        k.await_until(
            lambda: "settle-slow-0" in play.clients.answers,
            timeout_s=60,
            waiting_for="the probe's answer",
            last_seen=lambda: play.clients.answers,
        )
        holds[0].release()

    releasing = threading.Thread(target=release_once_the_probe_has_timed_out)
    releasing.start()
    settled = settle(play, [topic_partition], bound_s=20)
    releasing.join()
    answer: Any = play.clients.answers["settle-slow-0"]
    assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
    tried = [probe.acknowledged for probe in settled.probes]
    assert (tried[0], tried[-1]) == (False, True)
    assert (settled.state, settled.reasons) == ("converged", [])


@pytest.mark.cluster
def test_a_partition_whose_only_replica_was_killed_is_offline_while_the_controller_works(
    play: k.Play,
):
    topic_partition = k.TopicPartition("lonely", 0)
    k.CreateTopic(topic="lonely", assignment=((1,),)).perform(play)
    play.cluster.brokers[1].kill()
    gates.await_state(play, topic_partition, leader=-1, timeout_s=30)
    settled = settle(play, [topic_partition], bound_s=BOUND_S)
    assert settled.state == "stalled"
    kinds = {reason["kind"]: reason for reason in settled.reasons}
    assert len(settled.reasons) == len(kinds) == 2
    stopped, offline = kinds["replication-stopped"], kinds["offline-partition"]
    assert (stopped["broker"], stopped["detail"]) == (
        1,
        "its process ended by itself with exit code -9",
    )
    assert (offline["broker"], offline["topic"], offline["detail"]) == (
        -1,
        "lonely",
        "leader -1 for 2 s, while controller 0 gave a new topic its leader at once",
    )
    assert settled.probes == []


@pytest.mark.cluster
def test_what_a_former_leader_answers_is_no_finding(play: k.Play, monkeypatch: pytest.MonkeyPatch):
    topic_partition = k.TopicPartition("moved", 0)
    k.CreateTopic(topic="moved", assignment=((0, 1),)).perform(play)
    seen: list[dict[str, Any]] = []

    def look(*arguments: Any) -> dict[str, Any]:
        seen.append(real_look(*arguments))
        # First as it was a moment before the session of broker 1, which led, had ended.
        return seen[0] | {"leader": 1, "leader_epoch": -1} if len(seen) == 1 else seen[-1]

    real_look = settle_module._look
    monkeypatch.setattr(settle_module, "_look", look)
    # Whoever waits for its followers sees that it leads no more, and asks it nothing.
    monkeypatch.setattr(fetching, "await_fetching", lambda *_, **__: None)

    settled = settle(play, [topic_partition], bound_s=20)

    assert (settled.state, settled.reasons) == ("converged", [])
    assert [probe.acknowledged for probe in settled.probes] == [False, True]
    assert [probe.operation for probe in settled.probes] == ["settle-moved-0", "settle-moved-0-2"]


@pytest.mark.cluster
def test_a_broker_whose_session_has_ended_is_awaited(play: k.Play):
    topic_partition = k.TopicPartition("expired", 0)
    k.CreateTopic(topic="expired", assignment=((1, 0),)).perform(play)
    k.Inject(name="e", fault=k.ExpireSession(broker=1, await_return=False)).perform(play)

    settled = settle(play, [topic_partition], bound_s=20)

    assert (settled.state, settled.reasons) == ("converged", [])
    state = play.cluster.metadata.state(*topic_partition)
    assert state is not None
    assert sorted(state.isr) == [0, 1]


@pytest.mark.cluster
def test_a_partition_that_moves_while_others_settle_is_settled_again(
    play: k.Play, monkeypatch: pytest.MonkeyPatch
):
    topic_partition = k.TopicPartition("late", 0)
    k.CreateTopic(topic="late", assignment=((0, 1),)).perform(play)
    answers = iter([False, True])
    monkeypatch.setattr(settle_module, "_has_moved", lambda *_: next(answers, False))

    settled = settle(play, [topic_partition], bound_s=20)

    assert settled.state == "converged"
    assert [probe.acknowledged for probe in settled.probes] == [True, True]
