"""The faults: one small file each, by the plane it acts on."""

from collections.abc import Mapping
from typing import Any

from faults.configuration.configure_topic import ConfigureTopic
from faults.configuration.format_downgrade import FormatDowngrade
from faults.disk.lose_epochs import LoseEpochs
from faults.disk.lose_tail import LoseTail
from faults.disk.tear_epochs import TearEpochs
from faults.disk.wipe_log_directory import WipeLogDirectory
from faults.jvm.hold_controller import HoldController
from faults.jvm.hold_point import HoldPoint
from faults.jvm.slow_fetch_reads import SlowFetchReads
from faults.process.fast_bounce import FastBounce
from faults.process.kill_broker import KillBroker
from faults.process.pause_broker import PauseBroker
from faults.process.roll_broker import RollBroker
from faults.process.stop_broker import StopBroker
from faults.wire.cut_link import CutLink
from faults.wire.disconnect_network import DisconnectNetwork
from faults.wire.hold_requests import HoldRequests
from faults.wire.stale_request import StaleRequest
from faults.zookeeper.cut_zookeeper import CutZooKeeper
from faults.zookeeper.expire_session import ExpireSession
from faults.zookeeper.move_controller import MoveController
from faults.zookeeper.preferred_election import PreferredElection

FAULTS: Mapping[str, type[Any]] = {
    fault.__name__: fault
    for fault in (
        ConfigureTopic,
        CutLink,
        CutZooKeeper,
        DisconnectNetwork,
        ExpireSession,
        FastBounce,
        FormatDowngrade,
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
    "FormatDowngrade",
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
    "SlowFetchReads",
    "StaleRequest",
    "StopBroker",
    "TearEpochs",
    "WipeLogDirectory",
]
