"""Voters of a dynamic quorum of KRaft controllers that come and go (KIP-853)."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts
from kchaos.clusters.api import Broker
from kchaos.clusters.errors import MetadataRefused
from kchaos.clusters.start.kraft_storage import directory_id
from kchaos.faults.api import Cluster, Injection, Journal, require_available
from kchaos.faults.errors import NoEffect
from kchaos.faults.observation import node_of
from kchaos.faults.view import ClusterView, needs_dynamic_quorum


@dataclass(frozen=True, slots=True, kw_only=True)
class AddController:
    """A controller that is an observer becomes a voter, as `kafka-metadata-quorum add-controller`.

    A voter is known by its id and its directory id. So a controller whose disk was wiped is an
    observer, and can be added once `RemoveController` has removed it. There is nothing to heal.

    Attributes:
        controller: Its node id.
    """

    controller: int

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = ()

    def available(self, view: ClusterView) -> str:
        """Check for a dynamic quorum, and for a controller that runs and is no voter."""
        if why_not := needs_dynamic_quorum(view, self.controller):
            return why_not
        if self.controller in view.voters:
            return (
                f"controller {self.controller} is a voter: RemoveController removes it, also where "
                "its directory id is no longer that of the voter"
            )
        added = view.voters | {self.controller}
        if self.controller not in view.controllers_going_on:
            return f"controller {self.controller} does not run: a new voter has to be caught up"
        return _no_majority(view, added)

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Ask the leader of the quorum; yield once the new voters are committed.

        Raises:
            NoEffect: The leader refused.
            AwaitTimeout: The controller is not caught up in time.
        """

        def add(node: Broker) -> None:
            name, _, address = node.properties["advertised.listeners"].partition("://")
            host, _, port = address.rpartition(":")
            directory = directory_id(node.log_directory)
            cluster.metadata.add_voter(node.id, directory, (name, host, int(port)))

        yield _changed(self, cluster, add)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveController:
    """A voter votes no more, as by `kafka-metadata-quorum remove-controller`.

    Its process may be dead. One that runs goes on as an observer, and one that leads the quorum
    resigns when its removal is committed. There is nothing to heal.

    Attributes:
        controller: Its node id.
    """

    controller: int

    lasting: ClassVar[bool] = False
    performs: ClassVar[tuple[type[acts.Act], ...]] = ()

    def available(self, view: ClusterView) -> str:
        """Check for a dynamic quorum that has the voter, and a majority without it."""
        if why_not := needs_dynamic_quorum(view, self.controller):
            return why_not
        if self.controller not in view.voters:
            return f"controller {self.controller} is no voter; the voters are {sorted(view.voters)}"
        if len(view.voters) == 1:
            return f"controller {self.controller} is the only voter, and a quorum needs one"
        return _no_majority(view, view.voters - {self.controller})

    @contextlib.contextmanager
    def inject(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Ask the leader of the quorum; yield once the voters that are left are committed.

        Raises:
            NoEffect: The leader refused.
        """
        yield _changed(self, cluster, lambda node: cluster.metadata.remove_voter(node.id))


def _no_majority(view: ClusterView, after: frozenset[int]) -> str:
    """Return why the voters have no leader, or those of after the change cannot commit it."""
    for voters in (view.voters, after):
        going_on = sorted(voters & view.controllers_going_on)
        if 2 * len(going_on) <= len(voters):
            return f"of voters {sorted(voters)} {going_on} run, which is no majority to commit that"
    return ""


def _changed(
    fault: AddController | RemoveController, cluster: Cluster, change: Callable[[Broker], None]
) -> Injection:
    require_available(fault, cluster)
    before = cluster.metadata.voters()
    try:
        change(node_of(cluster, fault.controller))
    except MetadataRefused as error:
        raise NoEffect(str(error)) from error
    return Injection(
        fault=type(fault).__name__,
        before={"voters": sorted(before)},
        effect={"voters": sorted(cluster.metadata.voters())},
    )
