"""Interface to a cluster's metadata, wherever the cluster keeps it: questions and requests."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from kchaos.clusters.metadata.controller_requests import ControllerRequests


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsr:
    """The state of one partition as the controller decided it.

    ``leader`` is -1 while there is none; ``isr`` is in the controller's order. ``version`` counts
    the writes of the state; two equal states may differ in it.
    """

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int = -1
    version: int = field(default=-1, compare=False)

    @property
    def term(self) -> tuple[int, int]:
        """The leader and its epoch."""
        return self.leader, self.leader_epoch

    def to_json(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return {**asdict(self), "isr": list(self.isr)}

    def __str__(self) -> str:
        return f"leader {self.leader}, leader epoch {self.leader_epoch}, ISR {list(self.isr)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker's registration; ``czxid`` is its broker epoch (KIP-380), ``text`` what it says.

    ``session_id`` is its ZooKeeper session, None with KRaft.
    """

    czxid: int
    session_id: int | None
    text: str


class ClusterMetadata(Protocol):
    """The metadata of one running cluster, read directly and not through links.

    Every call may raise MetadataUnavailable.
    """

    def one_look(self) -> AbstractContextManager[None]:
        """Return a context for a gate's look, in which nothing need be read that cannot be new."""

    def position(self) -> int:
        """Return the number (zxid) of the newest change that a read shows."""

    def controller(self) -> int | None:
        """Return the controller's broker id, None while there is none."""

    def controller_epoch(self) -> int | None:
        """Return the newest controller's epoch, None before the first."""

    def depose_controller(self) -> None:
        """Take the office from the controller; the brokers elect one. Without one: nothing."""

    def registration(self, broker: int, *, timeout_s: float | None = None) -> Registration | None:
        """Return how the broker is registered, None if it is not; wait so long for an answer."""

    def fence(self, broker: int) -> None:
        """Ask in a broker's name that it be fenced; return once that is decided.

        Raises MetadataRefused where no KRaft controller decides, or it does not.
        """

    def unregister(self, broker: int) -> None:
        """Ask that a broker's registration be forgotten; return once that is decided.

        Raises MetadataRefused where no KRaft controller decides, or it does not.
        """

    def features(self) -> Mapping[str, int]:
        """Return the feature levels in force; none where ZooKeeper keeps the metadata."""

    def update_features(self, levels: Mapping[str, int], *, downgrade: bool = False) -> None:
        """Ask for these feature levels; return once that is decided.

        Raises MetadataRefused where no KRaft controller decides, or it does not.
        """

    def voters(self) -> frozenset[int]:
        """Return the KRaft controllers that vote; none where ZooKeeper keeps the metadata."""

    def add_voter(self, node: int, directory: str, listener: tuple[str, str, int]) -> None:
        """Ask that a controller vote, by name, host and port of its listener (KIP-853).

        Return once that is committed. Raises MetadataRefused where no KRaft controller decides, or
        it does not.
        """

    def remove_voter(self, node: int) -> None:
        """Ask that a controller vote no more; return once that is committed.

        Raises MetadataRefused where no KRaft controller decides, or it does not.
        """

    def registered(self) -> frozenset[int]:
        """Return the ids of the brokers that are registered."""

    def is_forgotten(self, broker: int) -> bool:
        """Return whether the broker's process, if there is one, registers no second time."""

    def topics(self) -> Sequence[str]:
        """Return the topics by name, Kafka's own (``__...``) left out."""

    def topic_id(self, topic: str) -> str | None:
        """Return the topic's id as Kafka prints it (base64), None if it has none (KIP-516)."""

    def assignment(self, topic: str) -> Mapping[int, Sequence[int]]:
        """Return the replicas of each partition in its order, the preferred replica first."""

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """Return the partition's state, None while it has none."""

    def create_topic(
        self,
        topic: str,
        assignment: Sequence[Sequence[int]],
        configuration: Mapping[str, str] | None = None,
    ) -> None:
        """Ask for a topic with these replicas of each partition; return at once.

        Raises MetadataRefused when there is one of that name.
        """

    def delete_topic(self, topic: str) -> None:
        """Ask for a topic to be deleted; return at once.

        Raises MetadataRefused when that is asked for already.
        """

    def is_deleting(self, topic: str) -> bool:
        """Return whether a deletion that was asked for is not ended yet."""

    def configure_topic(self, topic: str, configuration: Mapping[str, str]) -> None:
        """Replace a topic's own configuration and tell every broker; return at once.

        Raises MetadataRefused when there is no such topic.
        """

    def topic_configuration(self, topic: str) -> Mapping[str, str]:
        """Return a topic's own configuration; nothing if it has none."""

    def configure_broker(self, broker: int, configuration: Mapping[str, str]) -> None:
        """Replace what a broker can be told while it runs, and tell it; return at once."""

    def broker_configuration(self, broker: int) -> Mapping[str, str]:
        """Return what a broker was told so; nothing if it never was."""

    def has_client_quotas(self) -> bool:
        """Return whether clients or users have quotas of their own, as far as ZooKeeper says."""

    @property
    def requests(self) -> ControllerRequests:
        """Requests to the controller that both modes have, as an admin client sends them."""

    def add_partitions(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """Ask for more partitions, with these replicas of each; return at once.

        Raises MetadataRefused when there is no such topic.
        """

    def reassign(self, topic: str, partition: int, replicas: Sequence[int]) -> None:
        """Ask for other replicas, or another order of them; return at once.

        Raises MetadataRefused while a reassignment goes on.
        """

    def reassigning(self) -> frozenset[tuple[str, int]]:
        """Return topic and number of each partition whose reassignment is not ended yet."""

    def has_lost_reassignment(self, topic: str, partition: int, replicas: Sequence[int]) -> bool:
        """Return whether what was asked for is neither done nor being done."""

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Ask for the election of the preferred replica; return at once.

        Raises MetadataRefused while such an election goes on.
        """

    def is_electing(self) -> bool:
        """Return whether the controller still has a preferred election to do."""

    def withdraw_election(self) -> None:
        """Ask no longer for what ``elect_preferred`` asked for; if it is done: nothing."""
