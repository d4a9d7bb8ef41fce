"""The faults: one small file and one row here each, by the plane it acts on."""

from collections.abc import Mapping as _Mapping
from typing import Any as _Any

from kchaos.faults.configuration.configure_topic import ConfigureTopic as ConfigureTopic
from kchaos.faults.configuration.format_downgrade import FormatDowngrade as FormatDowngrade
from kchaos.faults.configuration.throttle_replication import (
    ThrottleReplication as ThrottleReplication,
)
from kchaos.faults.disk.fail_disk import FailDisk as FailDisk
from kchaos.faults.disk.fail_log_directory import FailLogDirectory as FailLogDirectory
from kchaos.faults.disk.lose_epochs import LoseEpochs as LoseEpochs
from kchaos.faults.disk.lose_file import LoseFile as LoseFile
from kchaos.faults.disk.lose_tail import LoseTail as LoseTail
from kchaos.faults.disk.slow_disk import SlowDisk as SlowDisk
from kchaos.faults.disk.tear_epochs import TearEpochs as TearEpochs
from kchaos.faults.disk.wipe_log_directory import WipeLogDirectory as WipeLogDirectory
from kchaos.faults.jvm.freeze_follower import FreezeFollower as FreezeFollower
from kchaos.faults.jvm.hold_controller import HoldController as HoldController
from kchaos.faults.jvm.hold_point import HoldPoint as HoldPoint
from kchaos.faults.jvm.slow_fetch_reads import SlowFetchReads as SlowFetchReads
from kchaos.faults.kraft.change_quorum import AddController as AddController
from kchaos.faults.kraft.change_quorum import RemoveController as RemoveController
from kchaos.faults.kraft.fence_broker import FenceBroker as FenceBroker
from kchaos.faults.kraft.unregister_broker import UnregisterBroker as UnregisterBroker
from kchaos.faults.kraft.update_features import UpdateFeatures as UpdateFeatures
from kchaos.faults.process.fast_bounce import FastBounce as FastBounce
from kchaos.faults.process.kill_broker import KillBroker as KillBroker
from kchaos.faults.process.move_controller import MoveController as MoveController
from kchaos.faults.process.pause_broker import PauseBroker as PauseBroker
from kchaos.faults.process.roll_broker import RollBroker as RollBroker
from kchaos.faults.process.stop_broker import StopBroker as StopBroker
from kchaos.faults.wire.cut_controllers import CutControllers as CutControllers
from kchaos.faults.wire.cut_link import CutLink as CutLink
from kchaos.faults.wire.disconnect_network import DisconnectNetwork as DisconnectNetwork
from kchaos.faults.wire.disturb_clients import DisturbClients as DisturbClients
from kchaos.faults.wire.forge_answers import ForgeAnswers as ForgeAnswers
from kchaos.faults.wire.hold_requests import HoldRequests as HoldRequests
from kchaos.faults.wire.isolate_broker import IsolateBroker as IsolateBroker
from kchaos.faults.wire.stale_request import StaleRequest as StaleRequest
from kchaos.faults.zookeeper.cut_zookeeper import CutZooKeeper as CutZooKeeper
from kchaos.faults.zookeeper.expire_session import ExpireSession as ExpireSession
from kchaos.faults.zookeeper.members import IsolateZooKeeper as IsolateZooKeeper
from kchaos.faults.zookeeper.members import KillZooKeeper as KillZooKeeper
from kchaos.faults.zookeeper.members import PauseZooKeeper as PauseZooKeeper
from kchaos.faults.zookeeper.members import StopZooKeeper as StopZooKeeper
from kchaos.faults.zookeeper.preferred_election import PreferredElection as PreferredElection

FAULTS: _Mapping[str, type[_Any]] = {
    name: value for name, value in list(globals().items()) if hasattr(value, "inject")
}
"""Every fault by its name, as scenario.json has it."""
