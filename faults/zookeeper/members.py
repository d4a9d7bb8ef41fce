"""Members of ZooKeeper that end, lose their data, or stand still."""

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import ZooKeeperNode
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import Cluster, Injection, Journal, require_available
from kchaos.faults.view import NO_MAJORITY, ClusterView, needs_zookeeper, no_such_member

_SERVES_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KillZooKeeper:
    """A member of ZooKeeper ends by SIGKILL, and is started again on healing.

    More than half of the members have to go on: without them nobody could read what the cluster
    decides.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
        loses_data: Whether it starts again with nothing, and gets all from its leader.
    """

    member: int
    loses_data: bool = False

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.EndZooKeeper, acts.StartZooKeeper)

    def available(self, view: ClusterView) -> str:
        """Require a member that runs, and more than half of the members beside it."""
        return _refused(view, self.member)

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Kill it; on leaving start it, and wait until it serves."""
        require_available(self, cluster)
        manner: acts.ZooKeeperEnd = "lose" if self.loses_data else "kill"
        with _ended(self, cluster, journal, manner) as injection:
            if self.loses_data:
                shutil.rmtree(_member(cluster, self.member).data / "version-2")
            yield injection


@dataclass(frozen=True, slots=True, kw_only=True)
class StopZooKeeper:
    """A member of ZooKeeper ends by SIGTERM, and is started again on healing.

    Its connections end in order, so that its clients turn to another member at once.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    member: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.EndZooKeeper, acts.StartZooKeeper)

    def available(self, view: ClusterView) -> str:
        """Require a member that runs, and more than half of the members beside it."""
        return _refused(view, self.member)

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Stop it; on leaving start it, and wait until it serves."""
        require_available(self, cluster)
        with _ended(self, cluster, journal, "stop") as injection:
            yield injection


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseZooKeeper:
    """A member of ZooKeeper stands still; its connections stay open and nothing is answered.

    Attributes:
        member: Its number, from 1 on, as its `myid` says.
    """

    member: int

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.EndZooKeeper, acts.StartZooKeeper)

    def available(self, view: ClusterView) -> str:
        """Require a member that runs, and more than half of the members beside it."""
        return _refused(view, self.member)

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Pause it; on leaving let it go on, and wait until it serves."""
        require_available(self, cluster)
        with _ended(self, cluster, journal, "pause") as injection:
            yield injection


_Fault = KillZooKeeper | StopZooKeeper | PauseZooKeeper


@contextlib.contextmanager
def _ended(
    fault: _Fault, cluster: Cluster, journal: Journal, manner: acts.ZooKeeperEnd
) -> Iterator[Injection]:
    members = cluster.zookeeper_members
    member = _member(cluster, fault.member)
    before = _modes(members)
    try:
        with journal.acting(acts.EndZooKeeper(member=fault.member, manner=manner)):
            _END[manner](member)
        others = [each for each in members if each is not member]
        _await_service(others)
        yield Injection(fault=type(fault).__name__, before=before, effect=_modes(others))
    finally:
        with journal.acting(acts.StartZooKeeper(member=fault.member)):
            if member.is_paused:
                member.resume()
            elif not member.is_running:
                member.start()
        _await_service(members)


_END: Mapping[acts.ZooKeeperEnd, Callable[[ZooKeeperNode], None]] = {
    "stop": lambda member: member.stop(),
    "kill": lambda member: member.kill(),
    "lose": lambda member: member.kill(),
    "pause": lambda member: member.pause(),
}


def _modes(members: Sequence[ZooKeeperNode]) -> dict[str, str]:
    return {str(member.index): member.mode() for member in members}


def _member(cluster: Cluster, index: int) -> ZooKeeperNode:
    return next(each for each in cluster.zookeeper_members if each.index == index)


def _await_service(members: Sequence[ZooKeeperNode]) -> None:
    """Wait until each of the members that go on serves, and one of them leads.

    Followers of a leader that stands still serve until they miss it.
    """
    able = [member for member in members if member.is_running and not member.is_paused]
    await_until(
        lambda: _serve([*_modes(able).values()]),
        timeout_s=_SERVES_S,
        waiting_for=f"members {[member.index for member in able]} of ZooKeeper to serve",
        last_seen=lambda: _modes(able),
        remedy="see zookeeper-N/server.log",
    )


def _serve(modes: Sequence[str]) -> bool:
    return all(modes) and "leader" in modes


def _refused(view: ClusterView, member: int) -> str:
    why_not = needs_zookeeper(view, "its controllers are ended as brokers are, by KillBroker")
    why_not = why_not or no_such_member(view, member)
    if why_not:
        return why_not
    if not view.zookeepers[member]:
        return f"member {member} of ZooKeeper is ended or paused already: heal that first"
    return "" if 2 * (sum(view.zookeepers.values()) - 1) > len(view.zookeepers) else NO_MAJORITY
