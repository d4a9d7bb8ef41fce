"""Clusters that can take a fault; an injection elsewhere is refused with the same sentence."""

from dataclasses import replace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers import acts
from kchaos.clusters.agent import POINTS
from kchaos.clusters.api import Injectable
from kchaos.faults import FAULTS
from kchaos.faults.view import view_of
from tests.reference import BOTH, KRAFT_ALONE, MODES, ZOOKEEPER_ALONE
from tests.support.stand_ins import StandInCluster

ALL = frozenset(
    {k.Killable, k.Pausable, k.Restartable, k.Collectable, k.Disconnectable, Injectable}
)
UP = k.BrokerView(broker=1, release="2.8.2", capabilities=ALL)
DOWN = replace(UP, is_running=False, is_registered=False)
OTHER = replace(UP, broker=0, points=frozenset(POINTS))
CUT = acts.CutZooKeeper(broker=1)
EPOCHS = k.LoseEpochs(broker=1, topic="t", partition=0)
TORN = k.TearEpochs(broker=1, topic="t", partition=0)
TAIL = k.LoseTail(broker=1, topic="t", partition=0, log_end_offset=3)
METADATA_TAIL = replace(TAIL, broker=100, topic="__cluster_metadata", log_end_offset=-1)
FAILED = k.FailLogDirectory(broker=1, topic="t", partition=0)
TWO_DISKS = replace(UP, log_directories=2)
HOLD = k.HoldRequests(name="h", api="Fetch", source=1)
LOST = k.DisturbClients(name="d", api="Produce", broker=1)
FORGE = k.ForgeAnswers(name="f", source=1, target=0, error="REQUEST_TIMED_OUT")
OLD = (("log.message.format.version", "0.10.2"),)
TOPIC_OLD = (("message.format.version", "0.10.2"),)
AT_1_1 = replace(UP, properties={"inter.broker.protocol.version": "1.1"})
AT_POINT = k.HoldPoint(name="p", broker=0, point="send-fetch", manner="skip")
HELD = replace(AT_POINT, manner="hold")
LATE = k.StaleRequest(api="StopReplica", broker=1, partitions=(("t", 0),))
BY_API = k.PreferredElection(topic="t", partition=0, by="api")


def view(broker_view: k.BrokerView = UP, **more: Any) -> k.ClusterView:
    return k.ClusterView(brokers={0: OTHER, 1: broker_view}, controller=0, **more)


CONTROLLERS = {id_: replace(UP, broker=id_, is_registered=False) for id_ in (100, 101, 102)}
CONTROLLER_CUTS = {
    cut.name: cut for cut in (acts.CutLink(source=1, target=id_) for id_ in CONTROLLERS)
}


def kraft(broker_view: k.BrokerView = UP, **more: Any) -> k.ClusterView:
    named: dict[str, Any] = {"controller": 100, "controllers": CONTROLLERS, **more}
    voters = frozenset(named["controllers"])
    return replace(view(broker_view), **{"voters": voters, **named})


def dynamic(*voters: int, down: int = -1) -> k.ClusterView:
    """Controllers 100 to 102, of which these vote, and one may be down."""
    nodes = CONTROLLERS | ({down: replace(CONTROLLERS[down], is_running=False)} if down > 0 else {})
    return kraft(controllers=nodes, voters=frozenset(voters), has_dynamic_quorum=True)


NEW_CONTROLLERS = {100: replace(CONTROLLERS[100], release="3.7.2")}
MEMBERS = view(zookeepers=dict.fromkeys((1, 2, 3), True))
ONE_IS_AWAY = view(zookeepers={1: True, 2: False, 3: True})
FILE = k.LoseFile(broker=1, file="t-0/partition.metadata")
LEGAL: list[tuple[k.Fault, k.ClusterView]] = [
    (k.CutLink(source=0, target=1), view()),
    (k.CutLink(source=0, target=1), view(DOWN)),
    (k.CutZooKeeper(broker=1), view()),
    (k.DisconnectNetwork(broker=1), view()),
    (k.ExpireSession(broker=1), view()),
    (k.ExpireSession(broker=1), view(replace(UP, is_running=False))),
    (FAILED, view(TWO_DISKS)),
    (k.FastBounce(broker=1), view()),
    (HOLD, view()),
    (FORGE, view()),
    (LOST, view(client_links=(0, 1))),
    (LOST, kraft(client_links=(0, 1))),
    (k.IsolateBroker(broker=1, zookeeper=True), view()),
    (k.FreezeFollower(broker=0), view()),
    (k.HoldController(broker=0), view()),
    (AT_POINT, view()),
    (k.SlowDisk(broker=0, operation="flush", delay_ms=5), view()),
    (k.FailDisk(broker=0, error="EIO"), view()),
    (k.FailDisk(broker=0, error="EIO"), replace(view(), controller=100, controllers=CONTROLLERS)),
    (k.SlowFetchReads(broker=0), view()),
    (k.SlowFetchReads(broker=0, where="log", delay_ms=5, topic="t", partition=0), view()),
    (k.KillBroker(broker=1), view()),
    (k.KillBroker(broker=1), view(replace(UP, is_paused=True))),
    (k.KillBroker(broker=1), view(cuts={CUT.name: CUT})),
    (TAIL, view(DOWN)),
    (EPOCHS, view(DOWN)),
    (EPOCHS, view(replace(DOWN, was_stopped_cleanly=True))),
    (TORN, view(DOWN)),
    (k.WipeLogDirectory(broker=1), view(DOWN)),
    (k.MoveController(), view()),
    (k.KillZooKeeper(member=1), MEMBERS),
    (k.KillZooKeeper(member=3, loses_data=True), MEMBERS),
    (k.StopZooKeeper(member=1), MEMBERS),
    (k.PauseZooKeeper(member=1), MEMBERS),
    (k.IsolateZooKeeper(member=1), MEMBERS),
    (FILE, view(DOWN)),
    (k.PauseBroker(broker=1), view()),
    (BY_API, view()),
    (k.StopBroker(broker=1), view()),
    (k.RollBroker(broker=1, properties=OLD), view()),
    (k.RollBroker(broker=1, kafka="3.9.1"), view()),
    (k.RollBroker(broker=1, kafka="/builds/a", judged_as="3.9.1"), view()),
    (k.ConfigureTopic(topic="t", configuration=TOPIC_OLD), view()),
    (k.ConfigureTopic(topic="t", configuration=TOPIC_OLD), view(DOWN)),
    (k.ThrottleReplication(broker=1, topic="t", bytes_per_second=1), view()),
    (k.FormatDowngrade(broker=1, message_format="0.10.2"), view()),
    (k.FormatDowngrade(topic="t", message_format="0.9.0"), view()),
    (k.StopBroker(broker=1), view(point_holds={"p": HELD})),
    (k.StopBroker(broker=0), view(point_holds={"p": AT_POINT})),
    (k.RollBroker(broker=1, kafka="3.9.1"), view()),
    (k.RollBroker(broker=1, properties=(("num.io.threads", "2"),)), view()),
    (LATE, view()),
    (replace(LATE, api="UpdateMetadata", partitions=()), view()),
    (replace(LATE, api="ControlledShutdown", partitions=(), version=2), view()),
    (replace(LATE, version=1, epoch="ahead"), view(replace(UP, release="2.2.2"))),
    (k.FenceBroker(broker=1), kraft()),
    (k.FenceBroker(broker=1), kraft(cuts=CONTROLLER_CUTS)),
    (k.FenceBroker(broker=1), kraft(replace(UP, is_running=False))),
    (k.UnregisterBroker(broker=1), kraft()),
    (k.UnregisterBroker(broker=1), kraft(DOWN)),
    (k.CutControllers(broker=1), kraft()),
    (k.CutLink(source=1, target=100), kraft()),
    (k.CutLink(source=101, target=100), kraft()),
    (k.CutLink(source=0, target=1), kraft()),
    (k.IsolateBroker(broker=1, zookeeper=True), kraft()),
    (k.KillBroker(broker=1), kraft()),
    (k.KillBroker(broker=100), kraft()),
    (k.StopBroker(broker=100), kraft()),
    (k.StopBroker(broker=1), kraft(cuts=dict(list(CONTROLLER_CUTS.items())[:2]))),
    (k.PauseBroker(broker=101), kraft()),
    (k.MoveController(), kraft()),
    (k.PreferredElection(topic="t", partition=0), kraft()),
    (BY_API, kraft()),
    (HOLD, kraft()),
    (replace(HOLD, api="BrokerHeartbeat"), kraft()),
    (replace(HOLD, api="AlterPartition", target=100), kraft()),
    (replace(HOLD, topic="__cluster_metadata", partition=0), kraft()),
    (replace(HOLD, api="Vote", source=100, target=101), kraft()),
    (k.RollBroker(broker=1, kafka="4.1.2"), kraft()),
    (TAIL, kraft(DOWN)),
    (EPOCHS, kraft(DOWN)),
    (k.WipeLogDirectory(broker=1), kraft(DOWN)),
    (k.WipeLogDirectory(broker=100), kraft(controllers={100: replace(DOWN, broker=100)})),
    (METADATA_TAIL, kraft(controllers={100: replace(DOWN, broker=100)})),
    (AT_POINT, kraft()),
    (k.ThrottleReplication(broker=1, topic="t", bytes_per_second=1), kraft()),
    (FAILED, kraft(replace(TWO_DISKS, release="3.7.2"), controllers=NEW_CONTROLLERS)),
    (k.RollBroker(broker=100, kafka="4.1.2"), kraft()),
    (k.UpdateFeatures(levels=(("metadata.version", 27),)), kraft()),
    (k.AddController(controller=102), dynamic(100, 101)),
    (k.AddController(controller=101), dynamic(100)),
    (k.RemoveController(controller=101), dynamic(100, 101, 102, down=101)),
    (k.RemoveController(controller=100), dynamic(100, 101, 102)),
    (k.IsolateBroker(broker=100), kraft()),
    (k.ConfigureTopic(topic="t", configuration=(("retention.ms", "1"),)), kraft()),
    (k.SlowDisk(broker=0, operation="flush", delay_ms=5), kraft()),
    (k.FreezeFollower(broker=0), kraft()),
    (k.SlowFetchReads(broker=0), kraft()),
    (k.DisconnectNetwork(broker=1), kraft()),
    (FILE, kraft(DOWN)),
    (TORN, kraft(DOWN)),
    (k.IsolateBroker(broker=100, zookeeper=True), kraft()),
]


def test_a_fault_that_the_cluster_can_take_has_nothing_against_it():
    against = [(fault, fault.available(cluster)) for fault, cluster in LEGAL]
    assert [(fault, why) for fault, why in against if why != ""] == []


def test_every_fault_can_be_taken_by_some_cluster():
    assert {type(fault) for fault, _ in LEGAL} == set(FAULTS.values())


AGAINST: list[tuple[k.Fault, k.ClusterView, str]] = [
    (k.KillBroker(broker=1), view(DOWN), "broker 1 has no process to kill"),
    (
        k.RollBroker(broker=1, kafka="/builds/a", judged_as="3.9.2-SNAPSHOT"),
        view(),
        "nothing can be judged as 3.9.2-SNAPSHOT, which is no published release; the nearest "
        "one is 3.9.1",
    ),
    (k.StopBroker(broker=1), view(DOWN), "broker 1 has no process to stop"),
    (k.PauseZooKeeper(member=2), ONE_IS_AWAY, "member 2 of ZooKeeper does not serve already"),
    (k.StopZooKeeper(member=4), MEMBERS, "ZooKeeper has no member 4: it has [1, 2, 3]"),
    (k.KillZooKeeper(member=1), kraft(), "by KillBroker"),
    (
        k.KillZooKeeper(member=1),
        view(zookeepers={1: True}),
        "without it no more than half of ZooKeeper's members go on",
    ),
    (k.StopZooKeeper(member=3), ONE_IS_AWAY, "take three members"),
    (FILE, view(), "broker 1 runs: kill or stop it before it loses a file"),
    (replace(FILE, file="../t"), view(DOWN), "the file '../t' is not in a log directory"),
    (replace(FILE, file="t-0/0.log"), view(DOWN), "is what LoseTail or WipeLogDirectory loses"),
    (replace(FILE, directory=1), view(DOWN), "broker 1 has no log directory 1"),
    (EPOCHS, view(), "broker 1 runs: kill or stop it before its epoch file is touched"),
    (EPOCHS, view(replace(DOWN, release="0.10.2.2")), "which keeps no leader epochs"),
    (TORN, view(), "broker 1 runs"),
    (TORN, view(replace(DOWN, was_stopped_cleanly=True)), "use KillBroker"),
    (FAILED, view(), "broker 1 has one log directory: give it several (log_directories)"),
    (FAILED, view(replace(TWO_DISKS, is_running=False)), "broker 1 has no process to lose"),
    (FAILED, view(replace(TWO_DISKS, is_paused=True)), "broker 1 is paused already"),
    (
        FAILED,
        kraft(TWO_DISKS, controllers={100: replace(CONTROLLERS[100], release="3.6.2")}),
        "controllers learn of failed directories from 3.7 on",
    ),
    (FAILED, view(replace(TWO_DISKS, failed_log_directories=1)), "has failed already"),
    (FAILED, view(replace(TWO_DISKS, release="0.11.0.3")), "broker 1 ends where a disk fails"),
    (
        FAILED,
        view(replace(TWO_DISKS, properties={"inter.broker.protocol.version": "0.11.0"})),
        "broker 1 ends where a disk fails",
    ),
    (k.WipeLogDirectory(broker=1), view(), "broker 1 runs: kill or stop it before its disk"),
    (
        k.WipeLogDirectory(broker=1),
        view(replace(TWO_DISKS, is_running=False, failed_log_directories=1)),
        "a log directory of broker 1 has failed",
    ),
    (k.RollBroker(broker=1, kafka="2.8.2"), view(DOWN), "broker 1 has no process to stop"),
    (
        k.RollBroker(broker=1, properties=(("log.message.format.version", "2.0"),)),
        view(AT_1_1),
        "log.message.format.version is 2.0, which inter.broker.protocol.version 1.1 forbids",
    ),
    (
        k.ConfigureTopic(topic="t", configuration=(("max.compaction.lag", "1"),)),
        view(),
        "broker 0: no topic setting is named 'max.compaction.lag'",
    ),
    (
        k.ConfigureTopic(topic="t", configuration=TOPIC_OLD),
        view(replace(UP, is_paused=True)),
        "broker 1 is paused and would not hear of it",
    ),
    (
        k.ConfigureTopic(topic="t", configuration=TOPIC_OLD),
        view(cuts={CUT.name: CUT}),
        "broker 1 is cut off from ZooKeeper",
    ),
    (
        k.ThrottleReplication(broker=0, topic="t", bytes_per_second=1),
        view(replace(UP, is_paused=True)),
        "broker 1 is paused and would not hear of it",
    ),
    (k.FormatDowngrade(message_format="0.10.2"), view(), "give a broker or a topic"),
    (
        k.FormatDowngrade(broker=1, topic="t", message_format="0.10.2"),
        view(),
        "give a broker or a topic",
    ),
    (
        k.FormatDowngrade(broker=1, message_format="1.0"),
        view(),
        "writes magic 2, and would write magic 2 with 1.0: that is no downgrade",
    ),
    (
        k.FormatDowngrade(broker=1, message_format="0.10.2"),
        view(replace(UP, release="3.9.1")),
        "that is no downgrade",
    ),
    (
        k.FormatDowngrade(broker=1, message_format="3.0"),
        view(),
        "log.message.format.version is 3.0, which 2.8.2 does not know",
    ),
    (k.StopBroker(broker=1), view(replace(UP, is_paused=True)), "broker 1 is paused already"),
    (k.StopBroker(broker=1), view(cuts={CUT.name: CUT}), "cut off from ZooKeeper by '1-zoo"),
    (k.FastBounce(broker=1), view(DOWN), "broker 1 has no process to bounce"),
    (k.FastBounce(broker=1), view(cuts={CUT.name: CUT}), "cut off from ZooKeeper by '1-zoo"),
    (k.FastBounce(broker=1), view(replace(UP, is_connected=False)), "disconnected already"),
    (k.PauseBroker(broker=1), view(DOWN), "broker 1 has no process to pause"),
    (k.PauseBroker(broker=1), view(replace(UP, is_paused=True)), "broker 1 is paused already"),
    (k.DisconnectNetwork(broker=1), view(DOWN), "broker 1 has no process to disconnect"),
    (k.DisconnectNetwork(broker=1), view(replace(UP, is_connected=False)), "is disconnected al"),
    (k.ExpireSession(broker=1), view(replace(UP, is_registered=False)), "it is not registered"),
    (TAIL, view(), "broker 1 runs: kill it"),
    (TAIL, view(replace(DOWN, was_stopped_cleanly=True)), "which flushes all its logs"),
    (CUT_AGAIN := k.CutZooKeeper(broker=1), view(cuts={CUT.name: CUT}), "name this one other"),
    (k.CutLink(source=0, target=1, name=CUT.name), view(cuts={CUT.name: CUT}), "name this one"),
    (HOLD, view(holds={"h": acts.Hold(name="h", api="Fetch")}), "hold named 'h' lasts alread"),
    (LOST, view(), "no client is behind a link"),
    (LOST, view(why_unlinked="no loopback"), "runs without links: no loopback"),
    (
        replace(LOST, effect=cast(Any, "late")),
        view(client_links=(1,)),
        "use disconnect or hold or delay",
    ),
    (LOST, view(client_links=(1,), disturbances={"d": LOST}), "named 'd' lasts already"),
    (FORGE, view(holds={"f": acts.Hold(name="f", api="Fetch")}), "named 'f' lasts already"),
    (FORGE, view(why_unlinked="no loopback"), "runs without links: no loopback"),
    (replace(FORGE, error="NONE"), view(), "known: UNKNOWN_SERVER_ERROR, UNKNOWN_TOPIC_OR"),
    (replace(FORGE, target=7), view(), "no broker 7: it has [0, 1]"),
    (HOLD, view(why_unlinked="no loopback"), "runs without links: no loopback"),
    (k.IsolateBroker(broker=1), view(why_unlinked="no loopback"), "runs without links"),
    (ALONE := k.IsolateBroker(broker=1, zookeeper=True), view(cuts={CUT.name: CUT}), "name this"),
    (ALONE, k.ClusterView(brokers={1: UP}, controller=1), "broker 1 is the only broker"),
    (CUT_AGAIN, view(why_unlinked="no loopback"), "runs without links: no loopback"),
    (replace(HOLD, api="Fetchs"), view(), "no API is named 'Fetchs'; known: Produce, Fetch"),
    (replace(HOLD, direction="up"), view(), "use 'request' or 'response'"),  # type: ignore[arg-type]
    (replace(HOLD, api="ControlledShutdown", topic="t", partition=0), view(), "by partition"),
    (replace(AT_POINT, broker=1), view(), "BrokerSpec(points=('send-fetch',))"),
    (AT_POINT, view(point_holds={"p": AT_POINT}), "hold named 'p' lasts already"),
    (AT_POINT, view(why_unlinked="no loopback"), "runs without links: no loopback"),
    (replace(AT_POINT, point="nowhere"), view(), "no point is named 'nowhere'; known: contr"),
    (replace(AT_POINT, point="registered"), view(), "at registered cannot be left undone"),
    (replace(AT_POINT, manner="wait"), view(), "use 'hold', 'delay', 'skip' or 'fail'"),  # type: ignore[arg-type]
    (replace(AT_POINT, manner="fail"), view(), "what begins at send-fetch cannot fail"),
    (replace(AT_POINT, manner="delay"), view(), "only a delay has one"),
    (replace(AT_POINT, delay_ms=5), view(), "only a delay has one"),
    (replace(AT_POINT, readers="both"), view(), "use 'all', 'followers' or 'consumers'"),  # type: ignore[arg-type]
    (replace(AT_POINT, readers="followers"), view(), "at send-fetch the reader is not seen"),
    (replace(AT_POINT, topic="t", partition=0), view(), "the partition is not seen"),
    (replace(AT_POINT, topic="t"), view(), "topic and partition go together"),
    (k.HoldController(broker=0), replace(view(), controller=1), "not the controller: broker 1 is"),
    (k.DisconnectNetwork(broker=0), view(), "the agent cannot reach the harness"),
    (k.StopBroker(broker=0), view(point_holds={"p": HELD}), "broker 0 are held by 'p': heal"),
    (k.SlowDisk(broker=0, operation="write", delay_ms=5), view(), "take a flush"),
    (k.SlowDisk(broker=0, operation="seek", delay_ms=5), view(), "use 'read' or 'write'"),  # type: ignore[arg-type]
    (k.SlowDisk(broker=0, operation="read", delay_ms=0), view(), "only a delay has one"),
    (k.SlowDisk(broker=1, operation="read", delay_ms=5), view(), "name it in its spec"),
    (k.FailDisk(broker=1, error="EIO"), view(), "name it in its spec"),
    (k.FailDisk(broker=1, error=""), view(), "cannot fail"),
    (k.FailDisk(broker=1, error="EIO", path="../t"), view(), "is not in a log directory"),
    (k.FailDisk(broker=1, error="EIO"), view(DOWN), "no process to end"),
    (
        k.HoldPoint(name="p", broker=0, point="disk-read"),
        view(),
        "a disk is slow, it does not stop",
    ),
    (k.SlowFetchReads(broker=0, where="disk"), view(), "use 'request' or 'read' or 'log'"),  # type: ignore[arg-type]
    (k.SlowFetchReads(broker=0, delay_ms=0), view(), "longer than 0, None holds"),
    (
        k.SlowFetchReads(broker=0, where="request", topic="t", partition=0),
        view(),
        "at fetch-request the partition is not seen",
    ),
    (BY_API, replace(view(), controller=None), "no controller to ask"),
    (replace(BY_API, by="vote"), view(), "by is 'vote'"),  # type: ignore[arg-type]
    (k.MoveController(), k.ClusterView(brokers={1: DOWN}), "no broker is registered"),
    (k.RollBroker(broker=1), view(), "name a Kafka, or properties, to roll to"),
    (k.RollBroker(broker=1, kafka="3.9.1"), view(DOWN), "broker 1 has no process to stop"),
    (replace(LATE, api="Fetch"), view(), "no late 'Fetch' can be made; known: LeaderAndIsr"),  # type: ignore[arg-type]
    (replace(LATE, version=7), view(), "StopReplica v7 cannot be written, only v0 to v1"),
    (replace(LATE, epoch="next"), view(), "use 'own', 'unknown', 'ahead'"),  # type: ignore[arg-type]
    (replace(LATE, version=0, epoch="ahead"), view(), "StopReplica v0 has no broker epoch"),
    (replace(LATE, partitions=()), view(), "a StopReplica names partitions"),
    (replace(LATE, api="LeaderAndIsr", deletes=True), view(), "a LeaderAndIsr deletes nothing"),
    (LATE, view(DOWN), "broker 1 has no process to make a request for"),
    (LATE, view(replace(UP, is_registered=False)), "so it has no generation"),
    (LATE, replace(view(), controller=None), "there is no controller that could make it"),
    (
        replace(LATE, version=1),
        view(replace(UP, release="2.1.1")),
        "broker 1 runs 2.1.1, which does not know StopReplica v1: that came with 2.2",
    ),
    (k.FenceBroker(broker=1), view(), "ZooKeeper keeps this cluster's metadata: use ExpireSess"),
    (k.FenceBroker(broker=1), kraft(replace(UP, is_registered=False)), "it is fenced, or not"),
    (k.FenceBroker(broker=100), kraft(), "the cluster has no broker 100: it has [0, 1]"),
    (k.UnregisterBroker(broker=1), view(), "use CutZooKeeper and ExpireSession"),
    (k.CutControllers(broker=1), view(), "use CutZooKeeper"),
    (k.CutControllers(broker=1), kraft(why_unlinked="no loopback"), "runs without links"),
    (k.CutControllers(broker=1), kraft(cuts=CONTROLLER_CUTS), "named '1-100' lasts already"),
    (k.StopBroker(broker=1), kraft(cuts=CONTROLLER_CUTS), "cut off from every controller by '1-"),
    (k.CutLink(source=1, target=100), view(), "the cluster has no broker 100: it has [0, 1]"),
    (k.KillBroker(broker=100), view(), "the cluster has no broker 100"),
    (k.ExpireSession(broker=1), kraft(), "use FenceBroker"),
    (k.CutZooKeeper(broker=1), kraft(), "use CutControllers"),
    (k.FastBounce(broker=1), kraft(), "a bounce is never missed; use KillBroker"),
    (LATE, kraft(), "hold a leader's AlterPartition over a restart with HoldRequests"),
    (FORGE, kraft(), "hold Fetch responses with HoldRequests"),
    (k.HoldController(broker=0), kraft(), "use PauseBroker with a controller's id"),
    (replace(AT_POINT, point="registered"), kraft(), "cannot be left undone"),
    (replace(HELD, point="registered"), kraft(), "hold BrokerRegistration responses"),
    (replace(HELD, point="controlled-shutdown"), kraft(), "hold BrokerHeartbeat"),
    (
        k.ConfigureTopic(topic="t", configuration=TOPIC_OLD),
        kraft(why_unlinked="no loopback"),
        "runs without links",
    ),
    (
        k.FormatDowngrade(topic="t", message_format="0.9.0"),
        kraft(),
        "its brokers ignore message formats",
    ),
    (k.UpdateFeatures(levels=()), kraft(), "name a feature and its level"),
    (k.AddController(controller=101), view(), "voters change with KRaft"),
    (k.AddController(controller=101), kraft(), "the quorum of this cluster is static: AddRaftV"),
    (k.AddController(controller=1), dynamic(100), "no controller has the id 1: they have [100, "),
    (k.AddController(controller=101), dynamic(100, 101), "a voter: RemoveController removes it"),
    (k.AddController(controller=101), dynamic(100, down=101), "does not run: a new voter has to"),
    (k.RemoveController(controller=102), dynamic(100, 101), "102 is no voter; the voters are [100"),
    (k.RemoveController(controller=100), dynamic(100), "100 is the only voter, and a quorum needs"),
    (k.RemoveController(controller=100), dynamic(100, 101, down=101), "[100] run, which is no maj"),
    (
        k.AddController(controller=102),
        dynamic(100, 101, down=101),
        "of voters [100, 101] [100] run",
    ),
    (
        k.UpdateFeatures(levels=(("metadata.version", 20),)),
        view(),
        "roll brokers to inter.broker.protocol.version",
    ),
    (k.RollBroker(broker=100), kraft(), "name a Kafka, or properties"),
    (
        k.IsolateBroker(broker=100),
        kraft(controllers={100: CONTROLLERS[100]}),
        "controller 100 is the only controller",
    ),
    (replace(BY_API, by="znode"), kraft(), "use by='api'"),
    (replace(HOLD, api="LeaderAndIsr"), kraft(), "none sends LeaderAndIsr; hold the Fetch of"),
    (replace(HOLD, api="ControlledShutdown"), kraft(), "hold BrokerHeartbeat"),
    (replace(HOLD, api="BrokerHeartbeat"), view(), "no broker sends BrokerHeartbeat"),
    (
        k.MoveController(),
        kraft(controllers={100: CONTROLLERS[100]}),
        "the cluster has one controller: give it three (controllers=3)",
    ),
    (
        k.MoveController(),
        kraft(controllers=CONTROLLERS | {101: replace(CONTROLLERS[101], is_running=False)}),
        "only 2 controllers go on: without their leader they elect nobody",
    ),
    (k.MoveController(), kraft(controller=None), "have no leader that could lose its office"),
]


def test_what_stands_against_a_fault_is_said():
    said = [(fault, fault.available(cluster), why_not) for fault, cluster, why_not in AGAINST]
    assert [each for each in said if each[2] not in each[1]] == []


def test_the_reference_says_in_which_mode_each_fault_acts():
    of_both: dict[str, set[bool]] = {name: set() for name in FAULTS}
    for fault, cluster in LEGAL:
        of_both[type(fault).__name__].add(cluster.is_kraft)
    said = {
        name: {ZOOKEEPER_ALONE: {False}, KRAFT_ALONE: {True}}.get(
            MODES.get(name, BOTH).split(":")[0], {False, True}
        )
        for name in FAULTS
    }
    assert {name: modes for name, modes in said.items() if not of_both[name] <= modes} == {}
    unshown = {name for name, modes in said.items() if not modes <= of_both[name]}
    assert unshown == set()


def test_a_cluster_is_seen_as_it_is():
    cluster: Any = StandInCluster()
    cluster.client.create("/controller", b'{"brokerid": 1}')
    cut, hold = k.CutLink(source=0, target=1), k.HoldRequests(name="h", api="Fetch")
    journal = k.MemoryJournal()
    with cut.inject(cluster, journal), hold.inject(cluster, journal):
        cluster.brokers[0].pause()
        cluster.brokers[1].kill()
        with AT_POINT.inject(cluster, journal):
            seen = view_of(cluster)
    assert seen == k.ClusterView(
        brokers={0: replace(OTHER, is_paused=True), 1: replace(DOWN, broker=1)},
        point_holds={"p": acts.act_of(acts.HoldPoint, AT_POINT)},
        controller=1,
        cuts={"0-1": acts.CutLink(source=0, target=1)},
        holds={"h": acts.Hold(name="h", api="Fetch")},
        client_links={0: 0, 1: 0}.keys(),
    )


def test_an_injection_is_refused_with_the_sentence_that_the_fault_says():
    journal = k.MemoryJournal()
    cluster: Any = StandInCluster()
    cluster.brokers[1].kill()
    for fault in (
        k.KillBroker(broker=1),
        k.StopBroker(broker=1),
        k.FastBounce(broker=1),
        k.PauseBroker(broker=1),
        k.DisconnectNetwork(broker=1),
        k.ExpireSession(broker=1),
        k.CutLink(source=1, target=1),
        k.CutZooKeeper(broker=7),
        k.HoldRequests(name="h", api="Fetsch"),
        BY_API,
    ):
        why_not = fault.available(view_of(cluster))
        with pytest.raises(k.NotAvailable) as refusal:
            fault.inject(cluster, journal).__enter__()
        assert str(refusal.value) == why_not != ""
    assert journal.entries == []
