"""Decisions in the metadata log of a KRaft cluster."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.actions import TimedEvent, in_one_order
from kchaos.checkers.evidence.metadata import MetadataLogs
from kchaos.checkers.metadata_log import MetadataLogError
from tests.support.metadata_logs import (
    FIRST_SEGMENT,
    leader_change,
    logs_in,
    metadata_batch,
    unpack,
    voters,
)

TOPIC_ID = "zj02F248SJuIp7M9eTZjQA"
OTHER_ID = "cy5l6LDoSgGMV93ECA6Fkw"
Records = Sequence[tuple[str, int, Mapping[str, Any]]]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    return unpack("4.1.2-1", tmp_path_factory.mktemp("stored"))


@pytest.fixture
def decided(stored, tmp_path):
    """What follows from records: a list of events, one batch of records for each."""

    def decide(*events: Records) -> MetadataLogs:
        return _logs(stored, tmp_path, *events)

    return decide


def _logs(stored: Path, folder: Path, *events: Records) -> MetadataLogs:
    shutil.copytree(stored / "metadata" / "definitions", folder / "metadata" / "definitions")
    definitions = logs_in(folder).definitions
    content = leader_change(0, 100, (100,))
    offset = 1
    for records in events:
        content += metadata_batch(definitions, offset, records)
        offset += len(records)
    node = folder / "metadata" / "node-100"
    node.mkdir()
    (node / FIRST_SEGMENT).write_bytes(content)
    return logs_in(folder)


def _partition(number=0, replicas=(0, 1, 2), **fields):
    said = {
        "PartitionId": number,
        "TopicId": TOPIC_ID,
        "Replicas": replicas,
        "Isr": replicas,
        "Leader": replicas[0],
        "LeaderEpoch": 0,
        "PartitionEpoch": 0,
    }
    return ("PartitionRecord", 2, said | fields)


def _change(number=0, **fields):
    return ("PartitionChangeRecord", 2, {"PartitionId": number, "TopicId": TOPIC_ID} | fields)


def _registered(broker, epoch, **fields):
    return ("RegisterBrokerRecord", 3, {"BrokerId": broker, "BrokerEpoch": epoch} | fields)


def _config(name, value, topic="t", kind=2):
    said = {"ResourceType": kind, "ResourceName": topic, "Name": name, "Value": value}
    return ("ConfigRecord", 0, said)


TOPIC = ("TopicRecord", 0, {"Name": "t", "TopicId": TOPIC_ID})


def _events(logs, *kinds):
    return [decision.event for decision in logs.decisions if isinstance(decision.event, kinds)]


def _state(zxid, leader, leader_epoch, isr, version):
    return m.PartitionState(
        topic="t",
        partition=0,
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        controller_epoch=1,
        version=version,
        zxid=zxid,
    )


def test_a_real_log_tells_who_led_who_was_in_sync_and_who_was_away(tmp_path):
    logs = logs_in(unpack("4.1.2-3", tmp_path))

    known = [decision.event for decision in logs.decisions]
    assert known[0] == m.ControllerElected(broker=100, zxid=0)
    assert m.FeatureLevelSet(name="eligible.leader.replicas.version", level=1, zxid=5) in known
    assert known[known.index(m.BrokerRegistered(broker=1, czxid=20, zxid=20)) :] == [
        m.BrokerRegistered(broker=1, czxid=20, zxid=20),
        _broker(2, 22, is_fenced=False),
        _broker(1, 26, is_fenced=False),
        m.TopicIdentified(topic="t", topic_id="teYkMYF0SBqvdK-F4jKz_w", zxid=28),
        m.TopicCreated(topic="t", assignment=((2, 0, 1),), zxid=29),
        _state(29, 2, 0, (2, 0, 1), 0),
        _state(50, 2, 0, (2, 1), 1),
        _broker(0, 51, is_fenced=True),
        m.BrokerRegistered(broker=0, czxid=58, zxid=58),
        _broker(0, 61, is_fenced=False),
        _state(63, 2, 0, (2, 1, 0), 2),
        m.ControllerElected(broker=101, zxid=64),
        _broker(2, 73, is_fenced=False, is_shutting_down=True),
        _of_epoch_2(_state(74, 0, 1, (1, 0), 3)),
        _broker(2, 77, is_fenced=True, is_shutting_down=True),
        m.BrokerRegistered(broker=2, czxid=97, zxid=97),
        _broker(2, 98, is_fenced=False),
        _of_epoch_2(_state(100, 0, 1, (1, 0, 2), 4)),
        m.TopicDeleted(topic="t", zxid=101),
    ]
    assert logs.topic_ids == {"t": {"teYkMYF0SBqvdK-F4jKz_w"}}
    assert logs.cluster_id == "5hDYoA6zTvCemLowMBGPyQ"
    assert [(deletion.zxid, deletion.is_gone) for deletion in logs.deletions["t"]] == [(101, True)]
    assert logs.broker_configurations == (("<default>", (("min.insync.replicas", "1"),)),)
    times = [decision.time for decision in logs.decisions]
    assert times == sorted(times)


def _broker(broker, zxid, *, is_fenced, is_shutting_down=False):
    return m.BrokerRegistrationChanged(
        broker=broker, is_fenced=is_fenced, is_shutting_down=is_shutting_down, zxid=zxid
    )


def _of_epoch_2(state):
    return m.PartitionState(
        **{name: getattr(state, name) for name in state.__slots__} | {"controller_epoch": 2}
    )


@pytest.mark.parametrize("name", ["3.3.2-1", "3.9.1-1", "4.0.2-1", "4.4.0-1"])
def test_the_same_acts_are_told_by_the_log_of_each_release(name, tmp_path):
    logs = logs_in(unpack(name, tmp_path))

    states = _events(logs, m.PartitionState)
    isr_sizes = [len(state.isr) for state in states]
    assert isr_sizes == [3, 2, 3, 2, 3]
    assert [state.leader == states[0].leader for state in states] == [True] * 3 + [False] * 2
    assert [state.version for state in states] == [0, 1, 2, 3, 4]
    registered = _events(logs, m.BrokerRegistered)
    assert len(registered) == 5
    assert all(each.czxid <= each.zxid for each in registered)


def test_below_metadata_version_3_6_a_smaller_isr_raises_the_leader_epoch(tmp_path):
    epochs = {
        name: [event.leader_epoch for event in _events(_stored(name, tmp_path), m.PartitionState)]
        for name in ("3.3.2-1", "4.4.0-1")
    }

    assert epochs == {"3.3.2-1": [0, 1, 1, 2, 2], "4.4.0-1": [0, 0, 0, 1, 1]}


def _stored(name, tmp_path):
    return logs_in(unpack(name, tmp_path / name))


@pytest.mark.slow
def test_a_snapshot_in_the_place_of_the_first_segments_gives_the_same_state(tmp_path):
    whole, cut = unpack("4.1.2-1s", tmp_path / "whole"), unpack("4.1.2-1s", tmp_path / "cut")
    for node in (cut / "metadata").glob("node-*"):
        for segment in node.glob("*.log"):
            if int(segment.stem) < 52:
                segment.unlink()

    known, from_snapshot = logs_in(whole), logs_in(cut)

    assert known.start_offset == 0
    assert from_snapshot.start_offset == 52
    assert from_snapshot.topic_ids == known.topic_ids
    assert from_snapshot.broker_configurations == known.broker_configurations
    last = _events(known, m.PartitionState)[-1]
    assert _events(from_snapshot, m.PartitionState)[-1] == last
    assert _last_registrations(from_snapshot) == _last_registrations(known)


def _last_registrations(logs):
    return {event.broker: event.czxid for event in _events(logs, m.BrokerRegistered)}


def test_without_a_snapshot_for_what_is_gone_the_log_cannot_be_read(tmp_path):
    folder = unpack("4.1.2-1s", tmp_path)
    for file in (folder / "metadata").glob("node-*/*"):
        if file.suffix == ".checkpoint" or (file.suffix == ".log" and int(file.stem) < 52):
            file.unlink()

    with pytest.raises(MetadataLogError, match="begins at offset 52, and no snapshot"):
        _ = logs_in(folder).decisions


def test_a_change_leaves_what_it_does_not_name_and_counts_the_epochs(decided):
    logs = decided(
        [TOPIC, _partition()],
        [_change(Isr=(0, 1))],
        [_change(Leader=1, Isr=(1,))],
        [_change(Leader=1)],
        [_change(Leader=-1)],
    )

    assert _events(logs, m.PartitionState) == [
        _state(2, 0, 0, (0, 1, 2), 0),
        _state(3, 0, 0, (0, 1), 1),
        _state(4, 1, 1, (1,), 2),
        _state(5, 1, 2, (1,), 3),
        _state(6, -1, 3, (1,), 4),
    ]


def test_all_partitions_of_a_topic_are_created_at_once(decided):
    logs = decided([TOPIC, _partition(), _partition(1, (1, 2)), _config("retention.ms", "5")])

    assert _events(logs, m.TopicCreated) == [
        m.TopicCreated(topic="t", assignment=((0, 1, 2), (1, 2)), zxid=2)
    ]


def test_more_partitions_and_other_replicas_are_decisions_of_their_own(decided):
    logs = decided(
        [TOPIC, _partition()],
        [_partition(1, (1, 2))],
        [_change(Replicas=(2, 1, 0))],
        [_change(Replicas=(2, 1, 0))],
    )

    assert [event.assignment for event in _events(logs, m.TopicCreated)] == [
        ((0, 1, 2),),
        ((0, 1, 2), (1, 2)),
        ((2, 1, 0), (1, 2)),
    ]


def test_eligible_and_last_known_leaders_are_decisions_when_they_change(decided):
    logs = decided(
        [TOPIC, _partition()],
        [_change(Isr=(0,), EligibleLeaderReplicas=(1,))],
        [_change(Isr=(), Leader=-1, EligibleLeaderReplicas=(0, 1), LastKnownElr=())],
        [_change(EligibleLeaderReplicas=(), LastKnownElr=(0,))],
        [_change(Isr=(0,))],
        [("ClearElrRecord", 0, {"TopicName": ""})],
        [("ClearElrRecord", 0, {"TopicName": "t"})],
    )

    assert [
        (event.eligible, event.last_known, event.zxid)
        for event in _events(logs, m.EligibleReplicas)
    ] == [((1,), (), 3), ((0, 1), (), 4), ((), (0,), 5), ((), (), 7)]
    assert [state.version for state in _events(logs, m.PartitionState)] == [0, 1, 2, 3, 4, 5]


def test_a_process_that_asks_again_is_registered_once(decided):
    logs = decided(
        [_registered(1, 1)],
        [_registered(1, 1)],
        [("BrokerRegistrationChangeRecord", 1, {"BrokerId": 1, "Fenced": -1})],
        [_registered(1, 9)],
    )

    assert _events(logs, m.BrokerRegistered, m.BrokerRegistrationChanged) == [
        m.BrokerRegistered(broker=1, czxid=1, zxid=1),
        _broker(1, 3, is_fenced=False),
        m.BrokerRegistered(broker=1, czxid=9, zxid=4),
    ]


def test_the_epoch_of_a_registration_may_be_before_its_record(decided):
    logs = decided([TOPIC, _partition()], [_change(Isr=(0, 2)), _registered(1, 3)])

    assert _events(logs, m.BrokerRegistered) == [m.BrokerRegistered(broker=1, czxid=3, zxid=4)]


def test_fencing_shutting_down_and_leaving_are_told_by_records_of_all_kinds(decided):
    changed = "BrokerRegistrationChangeRecord"
    logs = decided(
        [_registered(1, 1, Fenced=False)],
        [("FenceBrokerRecord", 0, {"Id": 1, "Epoch": 1})],
        [("UnfenceBrokerRecord", 0, {"Id": 1, "Epoch": 1})],
        [(changed, 1, {"BrokerId": 1, "InControlledShutdown": 1})],
        [(changed, 1, {"BrokerId": 1, "Fenced": 1})],
        [(changed, 1, {"BrokerId": 1})],
        [("UnregisterBrokerRecord", 0, {"BrokerId": 1, "BrokerEpoch": 1})],
    )

    assert _events(logs, m.BrokerRegistered, m.BrokerRegistrationChanged, m.BrokerUnregistered) == [
        m.BrokerRegistered(broker=1, czxid=1, zxid=1),
        _broker(1, 1, is_fenced=False),
        _broker(1, 2, is_fenced=True),
        _broker(1, 3, is_fenced=False),
        _broker(1, 4, is_fenced=False, is_shutting_down=True),
        _broker(1, 5, is_fenced=True, is_shutting_down=True),
        m.BrokerUnregistered(broker=1, zxid=7),
    ]


def test_settings_of_topics_and_brokers_are_as_they_were_last(decided):
    logs = decided(
        [TOPIC, _config("retention.ms", "5"), _config("cleanup.policy", "compact"), _partition()],
        [_config("retention.ms", None)],
        [_config("min.insync.replicas", "2", topic="", kind=4)],
        [_config("log.retention.ms", "7", topic="1", kind=4)],
        [_config("something", "else", topic="x", kind=16)],
    )

    assert logs.topic_configurations == {"t": {"cleanup.policy": "compact"}}
    assert logs.broker_configurations == (
        ("<default>", (("min.insync.replicas", "2"),)),
        ("1", (("log.retention.ms", "7"),)),
    )
    assert _events(logs, m.TopicConfigured) == [
        m.TopicConfigured(
            topic="t", configuration=(("cleanup.policy", "compact"), ("retention.ms", "5")), zxid=2
        ),
        m.TopicConfigured(topic="t", configuration=(("cleanup.policy", "compact"),), zxid=5),
    ]


def test_a_topic_that_is_deleted_and_made_anew_has_another_id_besides(decided):
    logs = decided(
        [TOPIC, _partition()],
        [("RemoveTopicRecord", 0, {"TopicId": TOPIC_ID})],
        [("TopicRecord", 0, {"Name": "t", "TopicId": OTHER_ID}), _partition(TopicId=OTHER_ID)],
    )

    assert {name: len(ids) for name, ids in logs.topic_ids.items()} == {"t": 2}
    assert OTHER_ID in logs.topic_ids["t"]
    assert [(deletion.zxid, deletion.is_gone) for deletion in logs.deletions["t"]] == [(3, False)]


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([_change()], "PartitionChangeRecord at offset 1"),
        ([TOPIC, _change(3)], "PartitionChangeRecord at offset 2"),
        ([_partition()], "PartitionRecord at offset 1"),
        ([("BrokerRegistrationChangeRecord", 0, {"BrokerId": 7})], "at offset 1 is about 7"),
        ([("UnregisterBrokerRecord", 0, {"BrokerId": 7})], "UnregisterBrokerRecord"),
        ([("RemoveTopicRecord", 0, {"TopicId": TOPIC_ID})], "RemoveTopicRecord"),
        ([("ClearElrRecord", 0, {"TopicName": "t"})], "ClearElrRecord"),
        ([TOPIC, _partition(1)], r"topic t has partitions \[1\]"),
    ],
)
def test_a_record_about_what_nobody_made_shows_another_clusters_log(decided, records, message):
    with pytest.raises(MetadataLogError, match=message):
        _ = decided(records).decisions


def test_without_definitions_nothing_is_read(stored, tmp_path):
    assert _logs(stored, tmp_path, [TOPIC, _partition()]).decisions
    shutil.rmtree(tmp_path / "metadata" / "definitions")

    with pytest.raises(MetadataLogError, match="metadata/definitions: there is no definition"):
        _ = logs_in(tmp_path).decisions


def test_meta_properties_of_another_node_are_told(tmp_path):
    folder = unpack("4.1.2-1", tmp_path) / "metadata"
    shutil.copy(folder / "node-1" / "meta.properties", folder / "node-2")

    with pytest.raises(CheckpointError, match=r"node-2/meta.properties is node 1's"):
        _ = logs_in(tmp_path).cluster_ids


def test_a_broker_that_came_from_zookeeper_keeps_its_file(tmp_path):
    file = unpack("4.1.2-1", tmp_path) / "metadata" / "node-2" / "meta.properties"
    file.write_text(file.read_text().replace("node.id", "broker.id").replace("=1\n", "=0\n"))

    assert "broker.id" in logs_in(tmp_path).meta_properties[2]
    assert len({*logs_in(tmp_path).cluster_ids.values()}) == 1


def timed(event: m.Hold | m.HighWatermarkObserved | m.StopBroker) -> TimedEvent:
    return TimedEvent(zxid=1, time=0.0, event=event)


def test_a_hold_of_the_metadata_log_stays_in_the_timeline_and_what_is_seen_of_it_does_not():
    hold = timed(m.Hold(name="lag", api="Fetch", topic="__cluster_metadata", partition=0))
    own = timed(m.HighWatermarkObserved(broker=0, topic="t", partition=0, high_watermark=1))
    internal = timed(
        m.HighWatermarkObserved(broker=0, topic="__cluster_metadata", partition=0, high_watermark=1)
    )
    assert in_one_order([], [hold, internal, own]) == (hold, own)


def test_what_a_stopped_broker_s_checkpoint_says_of_internal_topics_is_not_in_the_timeline() -> (
    None
):
    entries = (("t", 0, 7), ("__consumer_offsets", 0, 8))
    stop = timed(m.StopBroker(broker=0, clean=False, checkpointed=entries))
    unread = timed(m.StopBroker(broker=1, clean=False))

    kept, same = in_one_order([], [stop, unread])

    assert kept.event == m.StopBroker(broker=0, clean=False, checkpointed=(("t", 0, 7),))
    assert same == unread


DIRECTORIES = {node: f"{node}aaaaaaaaaaaaaaaaaaw" for node in (100, 101, 102, 103)}


def _quorum(stored, folder, copies, directories=DIRECTORIES):
    """A dynamic quorum that wrote the batches of each node's copy."""
    shutil.copytree(stored / "metadata" / "definitions", folder / "metadata" / "definitions")
    for node, batches in copies.items():
        directory = folder / "metadata" / f"node-{node}"
        directory.mkdir()
        (directory / FIRST_SEGMENT).write_bytes(b"".join(batches))
        said = {"node.id": node, "cluster.id": "c", "directory.id": directories[node], "version": 1}
        text = "".join(f"{name}={value}\n" for name, value in said.items())
        (directory / "meta.properties").write_text(text)
    return logs_in(folder)


def _of(*nodes):
    return {node: DIRECTORIES[node] for node in nodes}


def test_a_dynamic_quorum_is_counted_by_its_newest_voters_and_not_by_all_that_ever_voted(
    stored, tmp_path
):
    definitions = logs_in(stored).definitions
    begun = [leader_change(0, 102, (100, 101, 102)), voters(1, _of(100, 101, 102))]
    first, second = voters(2, _of(101, 102)), voters(3, _of(102))
    topic = metadata_batch(definitions, 4, [TOPIC, _partition()])
    copies = {100: begun, 101: [*begun, first], 102: [*begun, first, second, topic]}

    logs = _quorum(stored, tmp_path, copies)

    # Two of the three that ever voted lack the topic.
    assert (logs.voters, dict(logs.voters_at_end)) == ({102}, _of(102))
    assert [batch.base_offset for batch in logs.shared] == [0, 1, 2, 3, 4]
    assert [event.topic for event in _events(logs, m.TopicCreated)] == ["t"]


def test_voters_that_most_of_them_do_not_have_do_not_count_yet(stored, tmp_path):
    begun = [leader_change(0, 100, (100,)), voters(1, _of(100))]
    copies = {100: [*begun, voters(2, _of(100, 103))], 103: begun}

    logs = _quorum(stored, tmp_path, copies)

    assert (logs.voters, logs.shared[-1].base_offset) == ({100}, 2)


def test_a_copy_on_another_disk_than_the_voters_own_counts_for_no_voter(stored, tmp_path):
    definitions = logs_in(stored).definitions
    begun = [leader_change(0, 100, (100, 101, 102)), voters(1, _of(100, 101, 102))]
    uncommitted = metadata_batch(definitions, 2, [TOPIC, _partition()])
    copies = {100: [*begun, uncommitted], 101: [*begun, uncommitted], 102: begun}
    replaced = DIRECTORIES | {101: DIRECTORIES[103]}

    assert _quorum(stored, tmp_path / "same", copies).shared[-1].base_offset == 2
    logs = _quorum(stored, tmp_path / "replaced", copies, replaced)

    # Controller 101 is an observer since its disk was replaced: it votes for nothing.
    assert (logs.voters, logs.shared[-1].base_offset) == ({100, 101, 102}, 1)
