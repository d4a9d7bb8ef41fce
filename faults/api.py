"""What a fault is: a frozen value whose injection is a context manager, and leaving it heals."""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from clusters.api import Broker, Cluster
from faults.errors import NotCapable


class Journal(Protocol):
    """Where a fault tells what it does and sees.

    The runner's journal writes evidence and turns each act into the model's action; see
    `MemoryJournal` for one that only remembers.
    """

    def acting(self, act: str, **detail: Any) -> AbstractContextManager[None]:
        """Encloses one primitive that changes the cluster, such as "kill-broker".

        The act counts as done when the block ends without an exception. Acts and their details
        are listed in `ACTS`.
        """

    def observed(self, what: str, **detail: Any) -> None:
        """Records something that was seen; details are plain JSON values."""


ACTS: Mapping[str, tuple[str, ...]] = {
    "start-broker": ("broker",),
    "kill-broker": ("broker",),
    "stop-broker": ("broker",),
    "pause-broker": ("broker",),
    "resume-broker": ("broker",),
    "lose-tail": ("broker", "topic", "partition", "log_end_offset"),
    "cut-link": ("source", "target", "one_way"),
    "heal-link": ("source", "target"),
    "cut-zookeeper": ("broker",),
    "heal-zookeeper": ("broker",),
    "disconnect-network": ("broker",),
    "reconnect-network": ("broker",),
    "hold": (
        "name",
        "api",
        "source",
        "target",
        "direction",
        "topic",
        "partition",
        "fetch_offset_at_least",
    ),
    "release": ("name",),
    "expire-session": ("broker",),
    "preferred-election": ("topic", "partition"),
    "move-controller": (),
}


class Fault(Protocol):
    """A frozen value; everything that it needs to know is a field of it.

    `lasting` is False where nothing remains to be healed once it was injected.
    """

    @property
    def lasting(self) -> bool:
        """Whether it acts until it is healed."""

    def inject(self, cluster: Cluster, journal: Journal) -> AbstractContextManager["Injection"]:
        """Injects on entering, and returns once its effect was observed; heals on leaving.

        It also heals what it has done so far when entering fails or is interrupted, Ctrl-C
        included. Healing returns once the recovery was observed, and passes over what somebody
        else has healed, or a broker that died, meanwhile.

        Raises:
            NotCapable: The cluster, its driver or its release cannot do it.
            FaultError: The fault's fields or the cluster's state forbid it; nothing was done.
            NoEffect, AwaitTimeout: It was tried, and the effect was not observed.
        """


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
    def acting(self, act: str, **detail: Any) -> Iterator[None]:
        """Remembers the act once it is done."""
        yield
        self.entries.append((act, detail))

    def observed(self, what: str, **detail: Any) -> None:
        """Remembers what was seen."""
        self.entries.append((what, detail))


def broker_able(cluster: Cluster, broker: int, *needs: type) -> Broker:
    """The broker of that id.

    Raises:
        NotCapable: There is none, or it lacks one of the capabilities.
    """
    found = cluster.brokers.get(broker)
    if found is None:
        raise NotCapable(f"the cluster has no broker {broker}: it has {sorted(cluster.brokers)}")
    for need in needs:
        if need not in found.capabilities:
            raise NotCapable(f"broker {broker} is not {need.__name__} with this driver")
    return found


def links_of(cluster: Cluster) -> Any:
    """The cluster's links.

    Raises:
        NotCapable: It was started without.
    """
    if cluster.links is None:
        raise NotCapable(f"the cluster runs without links: {cluster.why_unlinked}")
    return cluster.links
