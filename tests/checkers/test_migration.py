"""Decisions of ZooKeeper's log and of the metadata log, in one order, in a migration."""

import json
from typing import Any

from kchaos.checkers.acts import StopBroker
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.migration import in_one_log, offices, parted, placed_by_time
from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.checkers.metadata_log import LogEntry
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.zookeeper_log import ZnodeChange

CLAIMED, RETURNED, COPIED_UNTIL = 50, 90, 20


def controller(zxid: int, broker: int, kraft_epoch: int) -> ZnodeChange:
    said = {"version": 2, "brokerid": broker, "kraftControllerEpoch": kraft_epoch}
    return ZnodeChange(
        zxid=zxid,
        time_ms=1000 * zxid,
        session=1,
        operation="create",
        path="/controller",
        data=json.dumps(said).encode(),
        version=0,
        ephemeral_owner=0,
    )


CHANGES = (controller(3, 0, -1), controller(CLAIMED, 100, 1), controller(RETURNED, 2, -1))


def written(offset: int, state: int) -> LogEntry:
    record = MetadataRecord(
        name="ZkMigrationStateRecord", version=0, fields={"ZkMigrationState": state}
    )
    return LogEntry(offset=offset, batch=offset, leader_epoch=1, time_ms=0, record=record)


STATES = (written(4, 2), written(COPIED_UNTIL, 1))
WHO, FINALIZED = offices(CHANGES, STATES), offices(CHANGES[:2], STATES)


def state(zxid: int, leader_epoch: int, time: float, **fields: Any) -> TimedEvent:
    decided = {"topic": "t", "partition": 0, "leader": 0, "isr": (0, 1), **fields}
    event = PartitionState(
        leader_epoch=leader_epoch, controller_epoch=1, version=0, zxid=zxid, **decided
    )
    return TimedEvent(event=event, zxid=zxid, time=time)


OF_ZOOKEEPER = [state(40, 1, 40.0), state(60, 2, 60.1), state(95, 3, 95.0)]
OF_KRAFT = [state(10, 1, 55.0), state(25, 2, 60.0)]


def test_each_decision_counts_once_where_it_was_taken_and_by_its_time():
    merged = in_one_log(OF_ZOOKEEPER, OF_KRAFT, WHO)
    assert [(each.event.leader_epoch, each.zxid) for each in merged] == [  # type: ignore[union-attr]
        (1, 40_000),
        (2, 60_000),
        (3, 95_000),
    ]
    assert [each.event.zxid for each in merged] == [each.zxid for each in merged]  # type: ignore[union-attr]


def test_a_claim_is_zookeepers_and_what_follows_it_are_copies():
    assert [zxid for zxid in (3, 50, 51, 89, 90, 91) if WHO.is_zookeepers(zxid)] == [3, 50, 90, 91]
    assert [offset for offset in (4, 20, 21) if WHO.is_krafts(offset)] == [21]
    assert not offices(CHANGES, (written(4, 2),)).is_krafts(5)


def test_an_action_is_where_it_began():
    stop = StopBroker(broker=1, clean=True)
    assert placed_by_time(TimedEvent(event=stop, zxid=7, time=61.0, began=59.5)).zxid == 59_500


def test_both_logs_have_the_same_decisions_in_one_order():
    assert [*parted(OF_ZOOKEEPER, OF_KRAFT, WHO)] == []
    # Two in one write: ZooKeeper has the last of them.
    assert [
        *parted(OF_ZOOKEEPER, [*OF_KRAFT[:1], state(22, 1, 59.0, isr=(0,)), OF_KRAFT[1]], WHO)
    ] == []


def test_where_they_part_is_said():
    (copied,) = parted(OF_ZOOKEEPER[:2], [state(10, 1, 55.0, isr=(0,)), OF_KRAFT[1]], FINALIZED)
    assert copied.startswith("zxid 40: ZooKeeper has t-0 with leader 0, leader epoch 1, ISR [0, 1]")
    (other,) = parted([OF_ZOOKEEPER[0], state(60, 2, 60.1, leader=1)], OF_KRAFT, FINALIZED)
    assert other.startswith("zxid 60: ZooKeeper has t-0 with leader 1, leader epoch 2")
    turned = [OF_ZOOKEEPER[0], state(60, 3, 60.1), state(61, 2, 60.2)]
    (order,) = parted(turned, [*OF_KRAFT, state(26, 3, 60.05)], FINALIZED)
    assert order.startswith("zxid 61")
    (lost,) = parted(OF_ZOOKEEPER, [*OF_KRAFT, state(27, 3, 61.0)], WHO)
    assert lost.startswith("offset 27: t-0 has leader 0, leader epoch 3")
