import json
from pathlib import Path

import pytest

import kchaos as k
import tests.support.model as m
from kchaos.checkers import acts
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.led_from import LedEpoch
from kchaos.checkers.evidence.partition import PartitionEvidence, finding_to_json
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import topic_ids
from kchaos.checkers.json_form import from_json
from kchaos.checkers.model import events
from kchaos.checkers.observations import Standstill, StoodStill
from kchaos.checkers.record import _first_sign
from kchaos.checkers.zookeeper_log import ZnodeChange
from tests.support.kafka_6361_runs import A_ONLY, BOTH, kafka_6361
from tests.support.run_builder import RunBuilder, create_body, values


def started(path: Path, *, min_insync_replicas: int = 1) -> RunBuilder:
    """Two brokers; 0 leads t-0 in epoch 1, and has acknowledged eleven records."""
    build = RunBuilder(path).begin_with(2, min_insync_replicas=min_insync_replicas)
    build.topic("t", [0, 1]).state(0, 1, [0, 1])
    return build.produce("both", 0, values("both", 11), acks=-1, base_offset=0)


def ended(build: RunBuilder) -> k.RunDirectory:
    logs = {broker: [BOTH, A_ONLY] for broker in (0, 1)}
    return build.snapshot("final", logs, high_watermarks={0: 21, 1: 11}, probed=False).seal()


def observed(broker: int, high_watermark: int) -> events.HighWatermarkObserved:
    return events.HighWatermarkObserved(
        broker=broker, topic="t", partition=0, high_watermark=high_watermark
    )


def last(run: k.RunDirectory) -> PartitionEvidence:
    return list(run_evidence(RunEvidence(run), None))[-1]


def test_replicas_are_what_lies_on_disk(tmp_path: Path):
    newest = last(ended(started(tmp_path / "run")))

    assert (newest.topic, newest.partition, newest.leader, newest.isr) == ("t", 0, 0, (0, 1))
    assert [replica.broker for replica in newest.replicas] == [0, 1]
    assert [batch.base_offset for batch in newest.replicas[0].batches] == [0, 11]
    assert [batch.record_count for batch in newest.replicas[0].batches] == [11, 10]
    assert [replica.high_watermarks for replica in newest.replicas] == [(21,), (11,)]
    assert newest.replicas[0].epoch_entries is None
    assert newest.predicted is None


def test_a_replica_of_which_nothing_is_on_disk_is_there_without_batches(tmp_path: Path):
    build = started(tmp_path / "run").topic("t", [0, 1, 7])

    newest = last(ended(build))

    assert [(replica.broker, len(replica.batches)) for replica in newest.replicas] == [
        (0, 2),
        (1, 2),
        (7, 0),
    ]


def test_the_required_in_sync_replicas_are_the_topics_else_the_brokers(tmp_path: Path):
    of_broker = started(tmp_path / "broker", min_insync_replicas=2)
    of_topic = started(tmp_path / "topic", min_insync_replicas=2)
    config = json.dumps({"version": 1, "config": {"min.insync.replicas": "3"}}).encode()
    of_topic.write(1, create_body("/config/topics/t", config))

    assert last(ended(of_broker)).min_insync_replicas == 2
    assert last(ended(of_topic)).min_insync_replicas == 3


@pytest.mark.parametrize(
    ("policy", "may_delete", "is_compacted"),
    [("compact", False, True), ("compact, delete", True, True), ("delete", True, False)],
)
def test_what_brokers_may_remove_follows_from_the_topics_policy(
    policy: str, may_delete: bool, is_compacted: bool, tmp_path: Path
):
    """Retention by time is no matter of a topic that is compacted alone."""
    config = {"cleanup.policy": policy, "retention.ms": "1000", "delete.retention.ms": "2000"}
    build = started(tmp_path / "run")
    told = json.dumps({"version": 1, "config": config}).encode()
    build.write(1, create_body("/config/topics/t", told))

    newest = last(ended(build))

    assert (newest.may_delete, newest.is_compacted) == (may_delete, is_compacted)
    assert newest.delete_retention_s == 2


@pytest.mark.parametrize(
    ("offset", "is_killed", "until"),
    # The segment that is written to begins at 11; no cleaner goes beyond.
    [(None, False, 0), (5, False, 11), (None, True, 11)],
    ids=["nothing noted", "noted", "perhaps lost by a kill"],
)
def test_cleaners_may_have_been_where_a_checkpoint_says_that_one_was(
    offset: int | None, is_killed: bool, until: int, tmp_path: Path
):
    build = started(tmp_path / "run")
    told = json.dumps({"version": 1, "config": {"cleanup.policy": "compact"}}).encode()
    build.write(1, create_body("/config/topics/t", told))
    if is_killed:
        build.act(acts.StopBroker(broker=1, clean=False))
    run = RunEvidence(ended(build))
    (snapshot,) = run.snapshots
    folder = run.run.path / "snapshots" / snapshot.label
    (folder / "broker-0" / "t-0" / f"{11:020}.log").touch()
    if offset is not None:
        (folder / "broker-1" / "cleaner-offset-checkpoint").write_text(f"0\n1\nt 0 {offset}\n")

    partition = k.TopicPartition("t", 0)
    assert run.cleaned_until(partition, snapshot) == until
    assert [*run.untold_cleaning] == ([] if offset is None else [partition])


def test_settling_pins_high_watermarks_of_the_brokers_that_it_names_in_the_end(tmp_path: Path):
    build = started(tmp_path / "run")
    build.snapshot("early", {0: [BOTH], 1: [BOTH]}, is_final=False)
    build.pinned(11, [1]).pinned(11, [0], topic="other")
    run = ended(build)

    early, final = run_evidence(RunEvidence(run), None)

    assert [replica.is_high_watermark_pinned for replica in early.replicas] == [False, False]
    assert [replica.is_high_watermark_pinned for replica in final.replicas] == [False, True]


def test_a_broker_is_registered_until_it_is_started_again(tmp_path: Path):
    for again in (False, True):
        build = started(tmp_path / str(again))
        build.act(acts.StopBroker(broker=1, clean=False)).close_session(0x11)
        build.act(acts.StartBroker(broker=1, release="1.1.1"))
        if again:
            build.register(1, 0x21)

        assert [each.is_registered for each in last(ended(build)).replicas] == [True, again]


def test_an_observation_that_does_not_say_what_it_pins_is_refused(tmp_path: Path):
    build = started(tmp_path / "run")
    build.run.append("observations.jsonl", {"time": 1.0, "kind": "high-watermark", "topic": "t"})

    with pytest.raises(ScenarioDataError, match=r"jsonl:2: partition, seen"):
        RunEvidence(ended(build)).read()


def test_an_observed_high_watermark_is_pinned_at_the_snapshots_that_follow(tmp_path: Path):
    build = started(tmp_path / "run")
    build.act(observed(1, 11))
    run = ended(build)
    evidence = RunEvidence(run)

    (final,) = run_evidence(evidence, k.predict(tuple(timed.event for timed in evidence.events)))

    assert final.predicted is not None
    assert [replica.is_high_watermark_pinned for replica in final.predicted] == [False, True]


def judged_with_observation(path: Path, broker: int, high_watermark: int) -> list[k.Finding]:
    build = started(path)
    build.act(observed(broker, high_watermark))
    build.snapshot("final", {0: [BOTH], 1: [BOTH]}, epochs={0: [(1, 0)], 1: [(1, 0)]})
    return list(k.judge(build.seal()).findings)


def test_a_high_watermark_that_the_model_excludes_is_not_as_predicted_and_no_crash(tmp_path: Path):
    (finding,) = judged_with_observation(tmp_path / "run", 0, 12)

    assert (finding.kind, finding.brokers, finding.topic) == ("not-as-predicted", (0,), "t")
    assert finding.evidence["predicted"] == [0, 11]
    assert "was seen at 12" in finding.message


def test_a_high_watermark_of_a_replica_that_should_not_be_is_not_as_predicted(tmp_path: Path):
    (finding,) = judged_with_observation(tmp_path / "run", 7, 0)

    assert (finding.kind, finding.brokers) == ("not-as-predicted", (7,))
    assert "no such replica" in finding.message


def test_an_election_from_outside_the_isr_and_a_lost_tail_are_excuses(tmp_path: Path):
    build = started(tmp_path / "run").state(0, 1, [0])
    build.act(acts.LoseTail(broker=0, topic="t", partition=0, log_end_offset=11))
    build.state(-1, 2, [0]).state(1, 3, [1])

    newest = last(ended(build))

    assert [(excuse.kind, excuse.broker) for excuse in newest.excuses] == [
        ("lost-tail", 0),
        ("unclean-election", 1),
    ]
    assert (newest.excuses[0].first_lost_offset, newest.excuses[0].isr) == (11, (0,))
    assert newest.excuses[1].leader_epoch == 3


@pytest.mark.parametrize(("epoch", "start"), [(5, 11), (1, None)])
def test_an_unclean_election_of_a_topic_made_again_shows_its_leaders_log(
    epoch: int, start: int | None, tmp_path: Path
):
    """Where both topics had that leader in that epoch nobody knows of which the cache is."""
    build = started(tmp_path / "run").delete_topic("t")
    build.topic("t", [1, 0]).state(1, 0, [1, 0]).state(1, 0, [1]).state(0, epoch, [0])
    caches = {0: [(0, 0), (epoch, 11)], 1: [(0, 0), (epoch, 7)]}
    logs = {broker: [BOTH, A_ONLY] for broker in (0, 1)}

    newest = last(build.snapshot("final", logs, epochs=caches, probed=False).seal())

    excuses = [(excuse.kind, excuse.start_offset) for excuse in newest.excuses]
    assert excuses == [("topic-deletion", None), ("unclean-election", start)]


@pytest.mark.parametrize(("broker", "start"), [(0, 11), (1, None)])
def test_what_a_leader_had_fetched_counts_unless_its_disk_lost_a_tail(
    broker: int, start: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    reached = {LedEpoch(k.TopicPartition("t", 0), 1, 3): 11}
    monkeypatch.setattr("kchaos.checkers.evidence.excuses.reached_by_fetching", lambda _: reached)
    build = started(tmp_path / "run").state(0, 1, [0])
    build.act(acts.LoseTail(broker=broker, topic="t", partition=0, log_end_offset=11))

    newest = last(ended(build.state(-1, 2, [0]).state(1, 3, [1])))

    assert newest.excuses[1].start_offset == start


def test_who_lost_a_replica_to_a_reassignment_is_known_with_its_time(tmp_path: Path):
    build = started(tmp_path / "run").topic("t", [0]).state(0, 1, [0])
    build.topic("t", [0, 1]).state(0, 1, [0, 1])

    newest = last(ended(build))

    assert [broker for broker, _ in newest.moved_away] == [1]
    assert newest.moved_away[0][1] > 0


def test_a_wiped_log_directory_excuses_every_partition_of_the_broker_and_no_other(tmp_path: Path):
    for broker, excused in ((0, [("lost-tail", 0)]), (7, [])):
        build = started(tmp_path / f"run-{broker}").act(acts.WipeLogDirectory(broker=broker))
        excuses = last(ended(build)).excuses
        assert [(excuse.kind, excuse.broker) for excuse in excuses] == excused
        assert all(excuse.first_lost_offset == 0 for excuse in excuses)


def test_an_election_from_the_isr_is_no_excuse(tmp_path: Path):
    build = started(tmp_path / "run").state(-1, 2, [0, 1]).state(1, 3, [1]).state(1, 3, [1, 0])

    assert last(ended(build)).excuses == ()


def test_damaged_bytes_reach_the_results_with_broker_and_place(tmp_path: Path):
    build = started(tmp_path / "run")
    build.snapshot("final", {0: [BOTH, A_ONLY], 1: [BOTH, A_ONLY]})
    file = build.run.path / "snapshots/final/broker-1/t-0/00000000000000000000.log"
    damaged = bytearray(file.read_bytes())
    damaged[100] ^= 1
    file.write_bytes(damaged)

    results = k.judge(build.seal())

    (corrupt,) = [finding for finding in results.findings if finding.kind == "corrupt-batch"]
    assert (corrupt.brokers, corrupt.topic, corrupt.snapshot) == ((1,), "t", "final")
    assert corrupt.evidence["position"] == 0
    assert results.safe is False


def test_a_cache_that_cannot_be_parsed_is_a_finding_and_one_that_is_wrong_is_one(tmp_path: Path):
    build = started(tmp_path / "run")
    build.snapshot(
        "final", {0: [BOTH], 1: [BOTH]}, epochs={0: [(1, 0)], 1: [(2, 0)]}, high_watermarks={}
    )
    torn = build.run.path / "snapshots/final/broker-0/t-0/leader-epoch-checkpoint"
    torn.write_text("0\n1\n")

    results = k.judge(build.seal())

    mismatches = [finding for finding in results.findings if finding.kind == "epoch-cache-mismatch"]
    assert [mismatch.brokers for mismatch in mismatches] == [(0,), (1,)]


def test_internal_topics_are_not_judged(tmp_path: Path):
    build = started(tmp_path / "run")
    build.state(0, 0, [0], topic="__consumer_offsets")

    partitions = list(run_evidence(RunEvidence(ended(build)), None))

    assert {each.topic for each in partitions} == {"t"}


def of_run(path: Path, case: str, release: str) -> list[PartitionEvidence]:
    evidence = RunEvidence(kafka_6361(path, case, release))
    return list(run_evidence(evidence, k.predict(tuple(timed.event for timed in evidence.events))))


def test_a_finding_is_the_same_after_a_trip_through_json():
    finding = k.Finding(
        kind="hole", topic="t", partition=0, brokers=(1, 2), message="x", evidence={"a": [1]}
    )

    assert from_json(k.Finding, json.loads(json.dumps(finding_to_json(finding)))) == finding


def test_the_isr_of_an_acknowledgement_is_that_of_its_time(tmp_path: Path):
    (_, final) = of_run(tmp_path / "run", "n20", "1.1.1")

    assert {operation.operation: operation.isr_when_ended for operation in final.operations} == {
        "both": (0, 1),
        "a-only": (0, 1),
        "b-only": (0, 1),
        "a-again": (0,),
        "settle-t-0": (0, 1),
    }


# -- Order of a run, read from what was written down --


def at(time: float, what: m.Observation) -> m.Seen:
    return m.Seen(what=what, time=time, zxid=0, source="")


def question(
    connection: int, *, follower: int, leader: int, fate: m.Fate = m.Fate.ARRIVES
) -> m.RequestSeen:
    return m.RequestSeen(
        number=(connection, 0),
        fate=fate,
        api="Fetch",
        follower=follower,
        leader=leader,
        partitions={},
    )


def test_a_process_shows_itself_by_asking_and_by_being_asked_what_it_answers():
    reply = m.ResponseSeen(
        number=(7, 0), fate=m.Fate.ARRIVES, api="Fetch", follower=1, leader=2, partitions={}
    )
    asked = at(5.0, question(7, follower=1, leader=2))
    assert _first_sign([asked, at(6.0, reply)], 2, 3.0) == 5.0
    assert _first_sign([at(4.0, question(8, follower=2, leader=0)), asked], 2, 3.0) == 4.0
    assert _first_sign([asked], 2, 3.0) == float("inf")


def test_what_a_hold_kept_of_the_process_before_is_no_sign_of_the_next_one():
    held = at(2.0, question(9, follower=2, leader=0, fate=m.Fate.WAITS))
    released = at(5.0, question(9, follower=2, leader=0))
    own = at(6.0, question(11, follower=2, leader=1))
    assert _first_sign([held, released, own], 2, 3.0) == 6.0


# -- A topic may be made again under its name: its replicas may have any id that it had --


def test_each_id_that_a_topic_had_is_known():
    contents = [
        {"version": 3, "topic_id": "first"},
        None,
        {"version": 3, "topic_id": "second"},
        {"version": 2},
    ]
    changes = [
        ZnodeChange(
            zxid=zxid,
            session=1,
            time_ms=0,
            operation="delete" if content is None else "create",
            path="/brokers/topics/t",
            data=None if content is None else json.dumps(content).encode(),
            version=0,
        )
        for zxid, content in enumerate(contents)
    ]

    assert topic_ids(changes) == {"t": {"first", "second"}}


def test_a_decision_about_an_internal_topic_and_a_standstill_disturb_a_cluster(tmp_path: Path):
    build = started(tmp_path / "run")
    until = build.clock + 500
    build.observe(StoodStill(times=(Standstill(began=1.0, ended=until, seconds=5.0),)))
    assert last(ended(build)).undisturbed_since == until

    build = started(tmp_path / "other")
    before = build.clock
    build.topic("__transaction_state", [0, 1]).state(0, 1, [0, 1], topic="__transaction_state")
    assert last(ended(build)).undisturbed_since > before
