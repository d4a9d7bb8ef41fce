"""Preferred replica election."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from kchaos.checkers import acts
from kchaos.clusters.errors import MetadataRefused
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.view import ClusterView, needs_zookeeper, view_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferredElection(CheckedFault, acts.PreferredElection):
    """The controller makes the first replica of the assignment the leader, if it may.

    By the znode that every release with ZooKeeper watches, or by API 43 (ElectPreferredLeaders,
    KIP-183, 2.2; ElectLeaders, KIP-460, 2.4), sent to the controller, as KRaft needs it. A
    leadership stays, so there is nothing to heal.

    Attributes:
        by: "znode", "api", or "" for the znode up to 2.3 and the API from 2.4 on.
    """

    by: Literal["znode", "api", ""] = ""
    timeout_s: float = 30

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.PreferredElection,)

    def available(self, view: ClusterView) -> str:
        """Check that the controller's release has this way of election."""
        if self.by not in ("znode", "api", ""):
            return f"by is {self.by!r}; use 'znode', 'api', or '' to go by the release"
        if self.by == "znode":
            return needs_zookeeper(view, "use by='api'")
        if self.by == "":
            return ""
        if view.controller is None:
            return "there is no controller to ask for an election"
        if _controller_is_at_least(view, (2, 2)):
            return ""
        release = view.nodes[view.controller].release
        return (
            f"controller {view.controller} runs {release}, which has no API for elections (2.2 and "
            "later have): use by='znode'"
        )

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Request the election; yield once the state names the preferred replica as leader.

        Raises:
            NoEffect: The preferred replica leads already, or the controller refused: it is dead
                or not in sync.
            AwaitTimeout: Nothing happened in time.
        """
        before = self._state(cluster)
        preferred = cluster.metadata.assignment(self.topic)[self.partition][0]
        if before.leader == preferred:
            raise NoEffect(
                f"broker {preferred}, the preferred replica of {self.topic}-{self.partition}, "
                f"leads already: {before}"
            )
        by = self.by or ("api" if _controller_is_at_least(view_of(cluster), (2, 4)) else "znode")
        with journal.acting(acts.act_of(acts.PreferredElection, self)):
            self._ask(cluster, by)
        effect = self._await_leader(cluster, preferred)
        yield Injection(
            fault="PreferredElection",
            before=before.to_json(),
            effect={"by": by, **effect.to_json()},
        )

    def _state(self, cluster: Cluster) -> LeaderAndIsr:
        state = cluster.metadata.state(self.topic, self.partition)
        if state is None:
            raise NoEffect(f"{self.topic}-{self.partition} does not exist: is the topic created?")
        return state

    def _ask(self, cluster: Cluster, by: str) -> None:
        metadata = cluster.metadata
        try:
            if by == "api":
                # Version 0 has neither the type of the election nor an error of its own.
                version = 1 if _controller_is_at_least(view_of(cluster), (2, 4)) else 0
                metadata.requests.elect(self.topic, self.partition, version=version)
                return
            metadata.elect_preferred(self.topic, self.partition)
            await_until(
                lambda: not metadata.is_electing(),
                timeout_s=self.timeout_s,
                waiting_for="the controller to have done the preferred election",
                last_seen=lambda: f"controller {metadata.controller()}",
                remedy="see the controller's server log",
            )
        except MetadataRefused as error:
            raise NoEffect(f"the election was refused: {error}") from None
        except BaseException:
            # Otherwise the next controller would hold an election that nobody waits for.
            metadata.withdraw_election()
            raise

    def _await_leader(self, cluster: Cluster, preferred: int) -> LeaderAndIsr:
        """Return the state once it names the preferred replica as leader.

        The controller writes the state before it removes the znode or answers the request, so
        what is read now is decided; only another member of an ensemble may lag behind.
        """

        def elected() -> LeaderAndIsr | None:
            state = self._state(cluster)
            if state.leader != preferred and preferred not in state.isr:
                raise NoEffect(
                    f"broker {preferred} was not elected for {self.topic}-{self.partition}: it is "
                    f"not in the ISR of {state}"
                )
            return state if state.leader == preferred else None

        return await_until(
            elected,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {preferred} to lead {self.topic}-{self.partition}",
            last_seen=lambda: self._state(cluster),
            remedy="a preferred replica that the controller does not see alive is not elected",
        )


def _controller_is_at_least(view: ClusterView, wanted: tuple[int, ...]) -> bool:
    if view.controller is None:
        return False
    release = view.nodes[view.controller].release
    return tuple(int(part) for part in release.split(".")[:2]) >= wanted
