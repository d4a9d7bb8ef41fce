"""Members of ZooKeeper that end, lose their data, stand still, or are cut off from the others."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import ZooKeeperNode
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.view import (
    NO_MAJORITY,
    ClusterView,
    is_serving,
    needs_zookeeper,
    no_such_member,
    unlinked,
)

_SERVES_S = 120.0
# A member that looks for a leader asks more and more seldom, at last once a minute.


@dataclass(frozen=True, slots=True, kw_only=True)
class _MemberFault(CheckedFault):
    """A member of ZooKeeper does not serve until it is healed; the others go on.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    member: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.EndZooKeeper, acts.StartZooKeeper)

    @property
    def _manner(self) -> acts.ZooKeeperEnd:
        raise NotImplementedError

    def available(self, view: ClusterView) -> str:
        """Require a member that runs, and more than half of the members beside it."""
        why_not = needs_zookeeper(view, "its controllers are ended as brokers are, by KillBroker")
        why_not = why_not or no_such_member(view, self.member)
        if why_not:
            return why_not
        if not view.zookeepers[self.member]:
            return f"member {self.member} of ZooKeeper does not serve already: heal that first"
        left = sum(view.zookeepers.values()) - 1
        return "" if 2 * left > len(view.zookeepers) else NO_MAJORITY

    def _await_end(self, member: ZooKeeperNode) -> None:
        """Wait until the member serves no more, where it goes on for a while."""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Let the member serve no more; on leaving wait until it serves again."""
        members = cluster.zookeeper_members
        member = next(each for each in members if each.index == self.member)
        others = [each for each in members if each is not member]
        before = _modes(members)
        try:
            with journal.acting(acts.EndZooKeeper(member=self.member, manner=self._manner)):
                _END[self._manner](member)
                self._await_end(member)
            _await_service(others)
            yield Injection(fault=type(self).__name__, before=before, effect=_modes(others))
        finally:
            with journal.acting(acts.StartZooKeeper(member=self.member)):
                if member.is_cut_off:
                    member.rejoin()
                elif member.is_paused:
                    member.resume()
                elif not member.is_running:
                    member.start()
            _await_service(members)


@dataclass(frozen=True, slots=True, kw_only=True)
class KillZooKeeper(_MemberFault):
    """A member of ZooKeeper ends by SIGKILL, and is started again on healing.

    More than half of the members have to go on: kchaos reads the cluster's decisions from them.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
        loses_data: Whether it starts again with nothing, and gets all from its leader.
    """

    loses_data: bool = False

    @property
    def _manner(self) -> acts.ZooKeeperEnd:
        return "lose" if self.loses_data else "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopZooKeeper(_MemberFault):
    """A member of ZooKeeper ends by SIGTERM, and is started again on healing.

    Its connections end in order, so that its clients turn to another member at once.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    @property
    def _manner(self) -> acts.ZooKeeperEnd:
        return "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseZooKeeper(_MemberFault):
    """A member of ZooKeeper stands still; its connections stay open, and it answers nothing.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    @property
    def _manner(self) -> acts.ZooKeeperEnd:
        return "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateZooKeeper(_MemberFault):
    """A member of ZooKeeper and the others do not reach each other; its clients still reach it.

    It serves until it has missed the others for `syncLimit` ticks, and refuses its clients then.
    Connections that were cut do not go on when it is healed.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    @property
    def _manner(self) -> acts.ZooKeeperEnd:
        return "cut"

    def available(self, view: ClusterView) -> str:
        """Require links besides."""
        return _MemberFault.available(self, view) or unlinked(view)

    def _await_end(self, member: ZooKeeperNode) -> None:
        await_until(
            lambda: not member.mode(),
            timeout_s=_SERVES_S,
            waiting_for=f"member {self.member} of ZooKeeper to miss the others",
            last_seen=lambda: f"it serves as {member.mode()}",
            remedy=f"see zookeeper-{self.member}/server.log",
        )


def _kill_and_lose(member: ZooKeeperNode) -> None:
    member.kill()
    shutil.rmtree(member.data / "version-2")


_END: Mapping[acts.ZooKeeperEnd, Callable[[ZooKeeperNode], None]] = {
    "stop": lambda member: member.stop(),
    "kill": lambda member: member.kill(),
    "lose": _kill_and_lose,
    "pause": lambda member: member.pause(),
    "cut": lambda member: member.cut_off(),
}


def _modes(members: Sequence[ZooKeeperNode]) -> dict[str, str]:
    return {str(member.index): member.mode() for member in members}


def _await_service(members: Sequence[ZooKeeperNode]) -> None:
    """Wait until each of the members that go on serves, and one of them leads.

    Followers of a leader that stands still serve until they miss it.
    """
    able = [member for member in members if is_serving(member)]
    await_until(
        lambda: _serve([*_modes(able).values()]),
        timeout_s=_SERVES_S,
        waiting_for=f"members {[member.index for member in able]} of ZooKeeper to serve",
        last_seen=lambda: _modes(able),
        remedy="see zookeeper-N/server.log",
    )


def _serve(modes: Sequence[str]) -> bool:
    return all(modes) and "leader" in modes
