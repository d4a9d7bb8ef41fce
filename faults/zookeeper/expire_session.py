"""ZooKeeper session expiry of a live broker."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from kchaos.checkers import acts, observations
from kchaos.checkers.observations import BrokerSeen
from kchaos.faults.api import CheckedFault, Cluster, Injection, Journal
from kchaos.faults.errors import NoEffect
from kchaos.faults.fencing import fence_registered
from kchaos.faults.observation import (
    await_registered,
    await_registration_gone,
    decides,
    observe_broker,
)
from kchaos.faults.view import ClusterView, needs_zookeeper, unable
from kchaos.faults.zookeeper.session import end_session


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSession(CheckedFault):
    """The broker's session ends within milliseconds, while its process goes on.

    Its ephemeral znodes vanish and watches fire. The broker learns of it when it reconnects, and
    registers again with a new session and a greater czxid; leaving waits for that. A broker that
    is also cut off from ZooKeeper (`CutZooKeeper`) stays a zombie until that is healed; inject
    this inside it.

    Attributes:
        broker: Its id.
        await_return: Whether leaving waits for the broker to register again.
    """

    broker: int
    await_return: bool = True

    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[acts.Act], ...]] = (acts.ExpireSession,)

    def available(self, view: ClusterView) -> str:
        """Check that the broker is registered; it need not run."""
        why_not = needs_zookeeper(view, "use FenceBroker") or unable(view, self.broker)
        if not why_not and not view.brokers[self.broker].is_registered:
            return f"broker {self.broker} has no session to end: it is not registered"
        return why_not

    def injected(self, cluster: Cluster, journal: Journal) -> Iterator[Injection]:
        """End the session; yield once its registration is gone.

        Raises:
            NoEffect: The session had just ended, or ZooKeeper did not let go of it.
        """
        broker = cluster.brokers[self.broker]
        before = observe_broker(cluster, self.broker)
        if before.session_id is None or before.czxid is None:
            raise NoEffect(f"broker {self.broker} has no session to end: it is not registered")
        is_injected = False
        try:
            end_registered_session(cluster, journal, before)
            effect = await_registration_gone(cluster, self.broker, czxid=before.czxid)
            is_injected = True
            yield Injection(fault="ExpireSession", before=before.to_json(), effect=effect.to_json())
        finally:
            # An injection that did not get as far has left the registration as it was.
            ended = is_injected or observe_broker(cluster, self.broker).czxid != before.czxid
            if ended and self.await_return and broker.is_running:
                after = await_registered(cluster, self.broker, above_czxid=before.czxid)
                journal.observed(observations.BrokerRegistered(**after.to_json()))


def end_registered_session(cluster: Cluster, journal: Journal, before: BrokerSeen) -> None:
    """End the session of this registration, if there was one; with KRaft, fence the broker.

    Raises:
        NoEffect: ZooKeeper, or the controller, did not let go of it, and it is still there.
    """
    if before.czxid is None:
        return
    if before.broker in cluster.controllers and not decides(cluster):
        return  # Nobody is left who could fence a combined node.
    if cluster.controllers:
        fence_registered(cluster, journal, before)
        return
    if before.session_id is None:
        return
    try:
        with journal.acting(acts.ExpireSession(broker=before.broker)):
            end_session_of(cluster, before.session_id)
    except NoEffect:
        # The session of a broker that was cut off may have ended by itself meanwhile.
        if observe_broker(cluster, before.broker).session_id == before.session_id:
            raise


def end_session_of(cluster: Cluster, session_id: int) -> None:
    """End this session at the first member that accepts the takeover.

    Raises:
        NoEffect: No member accepted it.
    """
    refusals = []
    for address in cluster.zookeeper_addresses:
        try:
            end_session(address, session_id)
        except (NoEffect, OSError) as error:
            refusals.append(f"{address[0]}:{address[1]}: {error}")
        else:
            return
    raise NoEffect(f"session {session_id:#x} could not be ended: {'; '.join(refusals)}")
