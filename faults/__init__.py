"""The faults: one small file each, by the plane it acts on."""

from collections.abc import Mapping
from typing import Any

from kchaos.faults.configuration.configure_topic import ConfigureTopic
from kchaos.faults.configuration.format_downgrade import FormatDowngrade
from kchaos.faults.disk.lose_epochs import LoseEpochs
from kchaos.faults.disk.lose_tail import LoseTail
from kchaos.faults.disk.slow_disk import SlowDisk
from kchaos.faults.disk.tear_epochs import TearEpochs
from kchaos.faults.disk.wipe_log_directory import WipeLogDirectory
from kchaos.faults.jvm.freeze_follower import FreezeFollower
from kchaos.faults.jvm.hold_controller import HoldController
from kchaos.faults.jvm.hold_point import HoldPoint
from kchaos.faults.jvm.slow_fetch_reads import SlowFetchReads
from kchaos.faults.process.fast_bounce import FastBounce
from kchaos.faults.process.kill_broker import KillBroker
from kchaos.faults.process.pause_broker import PauseBroker
from kchaos.faults.process.roll_broker import RollBroker
from kchaos.faults.process.stop_broker import StopBroker
from kchaos.faults.wire.cut_link import CutLink
from kchaos.faults.wire.disconnect_network import DisconnectNetwork
from kchaos.faults.wire.forge_answers import ForgeAnswers
from kchaos.faults.wire.hold_requests import HoldRequests
from kchaos.faults.wire.stale_request import StaleRequest
from kchaos.faults.zookeeper.cut_zookeeper import CutZooKeeper
from kchaos.faults.zookeeper.expire_session import ExpireSession
from kchaos.faults.zookeeper.move_controller import MoveController
from kchaos.faults.zookeeper.preferred_election import PreferredElection

FAULTS: Mapping[str, type[Any]] = {
    fault.__name__: fault
    for fault in (
        ConfigureTopic,
        CutLink,
        CutZooKeeper,
        DisconnectNetwork,
        ExpireSession,
        FastBounce,
        ForgeAnswers,
        FormatDowngrade,
        FreezeFollower,
        HoldController,
        HoldPoint,
        HoldRequests,
        KillBroker,
        LoseEpochs,
        LoseTail,
        MoveController,
        PauseBroker,
        PreferredElection,
        RollBroker,
        SlowDisk,
        SlowFetchReads,
        StaleRequest,
        StopBroker,
        TearEpochs,
        WipeLogDirectory,
    )
}

__all__ = [
    "FAULTS",
    "ConfigureTopic",
    "CutLink",
    "CutZooKeeper",
    "DisconnectNetwork",
    "ExpireSession",
    "FastBounce",
    "ForgeAnswers",
    "FormatDowngrade",
    "FreezeFollower",
    "HoldController",
    "HoldPoint",
    "HoldRequests",
    "KillBroker",
    "LoseEpochs",
    "LoseTail",
    "MoveController",
    "PauseBroker",
    "PreferredElection",
    "RollBroker",
    "SlowDisk",
    "SlowFetchReads",
    "StaleRequest",
    "StopBroker",
    "TearEpochs",
    "WipeLogDirectory",
]
