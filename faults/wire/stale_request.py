"""A control request that is late: made for one generation of a broker, delivered to a later one."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from kchaos.checkers import acts, observations
from kchaos.clusters.links.control_requests import (
    EPOCH_SINCE,
    WRITABLE,
    newest_version,
    send_control_request,
)
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal, links_of
from kchaos.faults.errors import FaultError, NoEffect
from kchaos.faults.observation import observe_broker
from kchaos.faults.view import ClusterView, down, needs_zookeeper, unable

Epoch = Literal["own", "unknown", "ahead"]
"""Generation named in the request: its czxid, -1, or one that has not been given yet."""

_ANSWER_S = 15.0
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaleRequest(CheckedFault):
    """A request is made now, as the controller would make it, and delivered when this is healed.

    What it says (leaders, epochs, ISRs, live brokers, controller, broker epoch) is what ZooKeeper
    says at the injection. Nothing of Kafka is bent: the request is only late, as one that waited in
    a socket's buffer or in a request queue. A request that a real controller has sent can
    be kept back by `HoldRequests` instead, as long as the controller does not drop it: once it has
    noticed that its receiver was gone it closes the connection (`removeBroker`).

    Attributes:
        broker: Whose generation it is for. It gets what a controller sends; of a ControlledShutdown
            it is the sender, and the controller at the delivery gets it.
        partitions: (topic, partition) that it names; of an UpdateMetadata there may be none.
        deletes: Of a StopReplica.
        version: Of the API; None for the one that its sender's inter-broker protocol asks for.
        epoch: See `Epoch`; of no account where the version has no broker epoch.
        of_ended_generation: Whether it is lost if the broker's generation has not ended by then. A
            controller sends a StopReplica that deletes nothing in three cases (KafkaController):
            the broker shuts down, a reassignment leaves it out, or it lost a log directory. Any
            other broker that gets a late one of its own generation stops to fetch for good.
    """

    api: acts.ControlApi
    broker: int
    partitions: tuple[tuple[str, int], ...] = ()
    deletes: bool = False
    version: int | None = None
    epoch: Epoch = "own"
    of_ended_generation: bool = False

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.StaleRequest,)

    def available(self, view: ClusterView) -> str:
        """Check that the request can be written, and the registered broker's release reads it."""
        return (
            needs_zookeeper(
                view,
                "brokers read what they decide from a log, and no request brings it; hold a "
                "leader's AlterPartition over a restart with HoldRequests",
            )
            or self._unwritable()
            or self._unfit(view)
        )

    def _unwritable(self) -> str:
        if self.api not in WRITABLE:
            return f"no late {self.api!r} can be made; known: {', '.join(WRITABLE)}"
        versions = WRITABLE[self.api]
        if self.version is not None and self.version not in versions:
            return f"{self.api} v{self.version} cannot be written, only v0 to v{max(versions)}"
        if self.epoch not in get_args(Epoch):
            return f"epoch is {self.epoch!r}; use {', '.join(map(repr, get_args(Epoch)))}"
        if self.epoch != "own" and self.version is not None and not self._tells(self.version):
            return (
                f"{self.api} v{self.version} has no broker epoch that could be {self.epoch!r}; "
                f"it came with v{EPOCH_SINCE[self.api]}"
            )
        if self.api in ("LeaderAndIsr", "StopReplica") and not self.partitions:
            return f"a {self.api} names partitions: give them as (topic, partition)"
        if self.deletes and self.api != "StopReplica":
            return f"a {self.api} deletes nothing"
        return ""

    def _unfit(self, view: ClusterView) -> str:
        why_not = unable(view, self.broker) or down(view, self.broker, "make a request for")
        if why_not:
            return why_not
        if not view.brokers[self.broker].is_registered:
            return f"broker {self.broker} is not registered, so it has no generation"
        if view.controller is None:
            return "there is no controller that could make it"
        target = view.controller if self.api == "ControlledShutdown" else self.broker
        release = view.brokers[target].release
        if self.version is not None and _numbers(release) < WRITABLE[self.api][self.version]:
            since = ".".join(map(str, WRITABLE[self.api][self.version]))
            return (
                f"broker {target} runs {release}, which does not know {self.api} v{self.version}: "
                f"that came with {since}"
            )
        return ""

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """Make the request; deliver it on leaving, and return with the broker's response.

        Raises:
            FaultError: A partition has no state yet.
            NoEffect: Nobody answered it.
        """
        act = self._made(cluster)
        endpoints = _endpoints(cluster, act.live)
        ids = {topic: _topic_id(cluster, topic) for topic, _ in self.partitions}
        yield Injection(fault="StaleRequest", effect=acts.fields_of(act))
        self._deliver(cluster, journal, self._as_delivered(cluster, act), endpoints, ids)

    def _made(self, cluster: Cluster) -> acts.StaleRequest:
        controller = cluster.metadata.controller()
        assert controller is not None
        sender = self.broker if self.api == "ControlledShutdown" else controller
        version = self.version
        if version is None:
            broker = cluster.brokers[sender]
            protocol = broker.properties.get("inter.broker.protocol.version", broker.release)
            version = newest_version(self.api, _numbers(protocol))
        generation = observe_broker(cluster, self.broker).czxid
        assert generation is not None
        if self.epoch != "own" and not self._tells(version):
            raise FaultError(
                f"at this inter-broker protocol the request is {self.api} v{version}, which has no "
                f"broker epoch that could be {self.epoch!r}: name v{EPOCH_SINCE[self.api]}"
            )
        epoch = {"own": generation, "unknown": -1, "ahead": generation}[self.epoch]
        is_of_controller = self.api != "ControlledShutdown"
        return acts.StaleRequest(
            api=self.api,
            broker=self.broker,
            target=self.broker if is_of_controller else controller,
            version=version,
            generation=generation,
            broker_epoch=epoch if self._tells(version) else None,
            controller=controller if is_of_controller else -1,
            controller_epoch=(cluster.metadata.controller_epoch() or 0) if is_of_controller else -1,
            states=tuple(_state(cluster, *partition) for partition in self.partitions),
            deletes=self.deletes,
            live=tuple(sorted(cluster.metadata.registered())),
        )

    def _deliver(
        self,
        cluster: Cluster,
        journal: Journal,
        act: acts.StaleRequest,
        endpoints: Mapping[int, Mapping[str, Any]],
        ids: Mapping[str, bytes],
    ) -> None:
        if not cluster.brokers[act.target].is_running:
            journal.observed(observations.StaleRequestLost(target=act.target, api=act.api))
            return
        if cluster.links is None:
            address = cluster.brokers[act.target].client_address
        else:
            host, port = links_of(cluster).address_of(act.target)
            address = f"{host}:{port}"
        values = request_values(act, endpoints, ids)
        in_force = observe_broker(cluster, self.broker).czxid
        if self.of_ended_generation and in_force == act.generation:
            journal.observed(observations.StaleRequestLost(target=act.target, api=act.api))
            return
        try:
            with journal.acting(act):
                answer = send_control_request(
                    address, act.api, act.version, values, timeout_s=_ANSWER_S
                )
        except (NoAnswer, NotSent) as error:
            raise NoEffect(
                f"broker {act.target} did not answer the late {act.api}: {error}"
            ) from error
        journal.observed(observations.StaleRequestAnswered(in_force=in_force, answer=answer))

    def _as_delivered(self, cluster: Cluster, made: acts.StaleRequest) -> acts.StaleRequest:
        """Return the act with the delivery's controller and newest epoch."""
        values = acts.fields_of(made)
        changes: dict[str, Any] = {}
        if self.api == "ControlledShutdown":
            controller = cluster.metadata.controller()
            changes["target"] = made.target if controller is None else controller
        if self.epoch == "ahead":
            changes["broker_epoch"] = cluster.metadata.position() + 1
        unchanged = {name: getattr(made, name) for name in values}
        return acts.StaleRequest(**{**unchanged, **changes})

    def _tells(self, version: int) -> bool:
        return version >= EPOCH_SINCE[self.api]


def request_values(
    act: acts.StaleRequest, endpoints: Mapping[int, Mapping[str, Any]], ids: Mapping[str, bytes]
) -> dict[str, Any]:
    """Return the request's fields by the names of `clusters.links.layouts`, for any version.

    Args:
        act: What it says.
        endpoints: Of each live broker its host and port, and its "endpoints" by listener.
        ids: 16 bytes of each topic that has an id.
    """
    partitions = [_partition(state) for state in act.states]
    leaders = {state[2] for state in act.states}
    grouped: dict[str, list[Any]] = {}
    for partition in partitions:
        is_bare = act.api == "StopReplica"
        grouped.setdefault(partition["topic"], []).append(
            partition["partition"] if is_bare else partition
        )
    return {
        "controller_id": act.controller,
        "is_kraft_controller": False,
        "controller_epoch": act.controller_epoch,
        "broker_id": act.broker,
        "broker_epoch": act.broker_epoch,
        "delete_partitions": act.deletes,
        "ungrouped_partitions": partitions,
        "topics": [
            {"topic": topic, "topic_id": ids.get(topic, _NO_ID), "partitions": ones}
            for topic, ones in grouped.items()
        ],
        "live_leaders": [
            {"id": broker, "host": endpoints[broker]["host"], "port": endpoints[broker]["port"]}
            for broker in act.live
            if broker in leaders
        ],
        "live_brokers": [{"id": broker, "rack": None, **endpoints[broker]} for broker in act.live],
    }


def _partition(state: tuple[Any, ...]) -> dict[str, Any]:
    topic, partition, leader, leader_epoch, isr, controller_epoch, version, replicas = state
    return {
        "topic": topic,
        "partition": partition,
        "controller_epoch": controller_epoch,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "partition_epoch": version,
        "replicas": replicas,
        "is_new": False,
        "offline_replicas": (),
    }


def _state(cluster: Cluster, topic: str, partition: int) -> tuple[Any, ...]:
    state: LeaderAndIsr | None = cluster.metadata.state(topic, partition)
    if state is None:
        raise FaultError(f"{topic}-{partition} has no state, so no request about it can be made")
    replicas = tuple(cluster.metadata.assignment(topic)[partition])
    return (
        topic,
        partition,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.controller_epoch,
        state.version,
        replicas,
    )


def _topic_id(cluster: Cluster, topic: str) -> bytes:
    text = cluster.metadata.topic_id(topic)
    return _NO_ID if text is None else base64.urlsafe_b64decode(f"{text}==")


def _endpoints(cluster: Cluster, live: tuple[int, ...]) -> dict[int, dict[str, Any]]:
    """Return the brokers' registered addresses, which their restarts keep."""
    endpoints: dict[int, dict[str, Any]] = {}
    for broker in live:
        registration = cluster.metadata.registration(broker)
        if registration is None:
            raise FaultError(
                f"broker {broker} has left just now, so the request cannot say where it can be "
                "reached; await what the scenario did before"
            )
        listeners = [_listener(endpoint) for endpoint in json.loads(registration.text)["endpoints"]]
        inner = next(
            (listener for listener in listeners if listener[0] == "INTERNAL"), listeners[0]
        )
        endpoints[broker] = {
            "host": inner[1],
            "port": inner[2],
            "endpoints": [
                {"listener": name, "host": host, "port": port, "security_protocol": 0}
                for name, host, port in listeners
            ],
        }
    return endpoints


def _listener(text: str) -> tuple[str, str, int]:
    name, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return name, host, int(port)


def _numbers(release: str) -> tuple[int, ...]:
    """Return the leading numbers of a release or of a protocol, such as (2, 2) of "2.2-IV0"."""
    return tuple(int(part) for part in release.split("-")[0].split("."))[:2]
