"""Interface of a fault: a frozen value; injecting it is a context manager, and leaving it heals."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from kchaos.checkers import observations
from kchaos.checkers.acts import Act, StartBroker, fields_of
from kchaos.checkers.observations import Observation
from kchaos.clusters.api import Cluster as Cluster
from kchaos.clusters.links import Links
from kchaos.faults.errors import NotAvailable
from kchaos.faults.view import ClusterView as ClusterView
from kchaos.faults.view import view_of


class Journal(Protocol):
    """Where a fault tells what it does and sees.

    The runner's journal writes evidence and gives the model those acts that it acts upon; see
    `MemoryJournal` for one that only remembers.
    """

    def acting(self, act: Act) -> AbstractContextManager[None]:
        """Enclose a change of the cluster.

        The act counts as done when the block ends without an exception. What is known only then,
        such as the checkpoint that a process left behind, the journal fills in.
        """

    def observed(self, what: Observation) -> None:
        """Record an observation; your own fault records `Noted`."""


class Fault(Protocol):
    """A frozen value; everything that it needs to know is a field of it.

    Fields are plain JSON values, since scenario.json has them. What is alike for all its values, as
    `lasting` and `performs` mostly are, is a ClassVar.
    """

    @property
    def lasting(self) -> bool:
        """Whether it acts until it is healed; False where nothing remains to be healed."""

    @property
    def performs(self) -> tuple[type[Act], ...]:
        """The kinds of acts that it may write to the journal, healing included."""

    def available(self, view: ClusterView) -> str:
        """Return why the fault cannot be injected into such a cluster, in one sentence, or "".

        What only the partition's state or its files tell is not looked at.
        """

    def inject(self, cluster: Cluster, journal: Journal) -> AbstractContextManager["Injection"]:
        """Inject on entering, once the effect is observed; heal on leaving.

        It also heals what it has done so far when entering fails or is interrupted, Ctrl-C
        included. Healing returns once the recovery was observed, and passes over what somebody
        else has healed, or a broker that died, meanwhile.

        Raises:
            NotAvailable: `available` says why not; nothing was done.
            FaultError: The partition's state or its files forbid it; nothing was done.
            NoEffect, AwaitTimeout: It was tried, and the effect was not observed.
        """


@runtime_checkable
class NeedsPoints(Protocol):
    """A fault inside a broker's JVM, which must run with an agent from its start."""

    @property
    def needs(self) -> Mapping[int, tuple[str, ...]]:
        """By broker, the points of `clusters.agent.points` that it needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One fault while it acts.

    Attributes:
        fault: The fault's name.
        before: What was observed before, plain JSON values.
        effect: What showed that it took effect.
        handle: What the driver gave for it (a `Hold`, for instance), or None.
    """

    fault: str
    before: Mapping[str, Any] = field(default_factory=dict)
    effect: Mapping[str, Any] = field(default_factory=dict)
    handle: Any = None


@dataclass(slots=True)
class MemoryJournal:
    """A journal for tests and for use by hand: it keeps what it is told, in order."""

    entries: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @contextlib.contextmanager
    def acting(self, act: Act) -> Iterator[None]:
        """Remember the act by its name and fields once it is done."""
        yield
        self.entries.append((type(act).__name__, fields_of(act)))

    def observed(self, what: Observation) -> None:
        """Remember an observation by its kind and fields."""
        self.entries.append((observations.kind_of(what), observations.fields_of(what)))


def healing_order(acting: Mapping[str, Fault]) -> list[str]:
    """Return the names of acting faults, oldest first there, in the order in which to heal all.

    The newest comes first, and whose healing starts a broker comes last: a broker whose messages
    are held does not register.
    """
    return sorted(reversed([*acting]), key=lambda name: StartBroker in acting[name].performs)


def require_available(fault: Fault, cluster: Cluster) -> None:
    """Raise NotAvailable if the cluster cannot take the fault now."""
    why_not = fault.available(view_of(cluster))
    if why_not:
        raise NotAvailable(why_not)


class _Injected(Fault, Protocol):
    """What `CheckedFault` asks of its classes."""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Inject, yield once the effect is observed, and heal; the cluster can take the fault."""


class CheckedFault:
    """Base of kchaos's faults: each injection begins with a check that the cluster can take it."""

    __slots__ = ()

    @contextlib.contextmanager
    def inject(self: _Injected, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Inject on entering, heal on leaving; see `Fault.inject`."""
        require_available(self, cluster)
        yield from self.injected(cluster, journal)


def links_of(cluster: Cluster) -> Links:
    """Return the links of a cluster that has them, as `faults.view.unlinked` has checked."""
    assert cluster.links is not None
    return cluster.links
