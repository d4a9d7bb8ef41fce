"""Leaders and registrations over time, from ZooKeeper's log or KRaft's metadata log."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    ControllerElected,
    EligibleReplicas,
    FeatureLevelSet,
    PartitionState,
)
from kchaos.checkers.observations import BrokerSeen, Injected
from kchaos.harness.report.loading import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Decisions of one run in ZooKeeper's log, in zxid order, or in KRaft's, by its offsets.

    Attributes:
        events: Partition states, registrations and controllers, with their writer's times.
        problems: Why something is missing, a sentence each.
        is_kraft: Whether controllers kept the metadata, and not ZooKeeper.
    """

    events: tuple[TimedEvent, ...] = ()
    problems: tuple[str, ...] = ()
    is_kraft: bool = False

    @property
    def registration(self) -> str:
        """Name of a registration's number."""
        return "broker epoch" if self.is_kraft else "czxid"

    @property
    def position(self) -> str:
        """Name of a decision's number."""
        return "offset" if self.is_kraft else "zxid"

    def eligible(self, state: PartitionState) -> tuple[int, ...]:
        """Return the brokers eligible to lead besides the ISR when the state was written."""
        eligible: tuple[int, ...] = ()
        for timed in self.events:
            match timed.event:
                case EligibleReplicas(topic=state.topic, partition=state.partition) as change:
                    eligible = change.eligible if change.zxid <= state.zxid else eligible
                case _:
                    pass
        return eligible

    @property
    def states(self) -> tuple[tuple[TimedEvent, PartitionState], ...]:
        """The partition states that were written, each with its event."""
        return tuple(
            (each, each.event) for each in self.events if isinstance(each.event, PartitionState)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One broker as it was seen: what identifies it to its peers.

    Attributes:
        since: Seconds since 1970 when it became so, or was first seen so.
        pid: Its process, or None if none ran or kchaos did not look.
        czxid: Of `/brokers/ids/N`, or its broker epoch; None while it was not registered.
        session_id: Its ZooKeeper session, or None if it had none or kchaos did not look.
        why: What happened, or what made kchaos look.
    """

    broker: int
    since: float
    pid: int | None
    czxid: int | None
    session_id: int | None
    why: str


def decisions_of(loaded: Loaded) -> Decisions:
    """Return the decisions in the metadata's log, without those on Kafka's own topics."""
    is_kraft = False
    try:
        is_kraft = loaded.evidence.is_kraft
        events = loaded.evidence.decisions
    except CheckError as error:
        return Decisions(problems=(str(error),), is_kraft=is_kraft)
    if not events:
        missing = "metadata log" if is_kraft else "ZooKeeper transaction log"
        return Decisions(problems=(f"no {missing} was collected",), is_kraft=is_kraft)
    return Decisions(
        is_kraft=is_kraft,
        events=tuple(each for each in events if not is_internal(getattr(each.event, "topic", ""))),
    )


def decision_text(timed: TimedEvent, decisions: Decisions) -> str:
    """Describe one decision in a few words; "" for one that is not worth a line."""
    match timed.event:
        case PartitionState() as state:
            isr = ",".join(map(str, state.isr))
            return (
                f"{state.topic}-{state.partition}: leader {state.leader}, "
                f"leader epoch {state.leader_epoch}, ISR [{isr}]"
            )
        case BrokerRegistered() as registered:
            number = f"{decisions.registration} {registered.czxid}"
            return f"broker {registered.broker} registered, {number}"
        case BrokerUnregistered() as gone:
            return f"broker {gone.broker}'s registration is gone"
        case ControllerElected() as elected:
            node = "controller" if decisions.is_kraft else "broker"
            what = "leads the quorum" if decisions.is_kraft else "is the controller"
            return f"{node} {elected.broker} {what}"
        case BrokerRegistrationChanged() as changed:
            return f"broker {changed.broker} is {_registered_as(changed)}"
        case EligibleReplicas() as replicas:
            known = ",".join(map(str, replicas.last_known))
            last = f", last known leader {known}" if known else ""
            eligible = ",".join(map(str, replicas.eligible))
            return f"{replicas.topic}-{replicas.partition}: eligible leaders [{eligible}]{last}"
        case FeatureLevelSet() as feature:
            return f"feature {feature.name} is at level {feature.level}"
        case _:
            return ""


def _registered_as(changed: BrokerRegistrationChanged) -> str:
    if changed.is_fenced:
        return "fenced"
    return "in controlled shutdown" if changed.is_shutting_down else "unfenced"


def incarnations(loaded: Loaded, decisions: Decisions) -> tuple[Incarnation, ...]:
    """Return registrations by broker and time, with process and session if observed.

    They come from the log of decisions, which misses none; without it, from what kchaos saw. With
    KRaft a registration stays when its broker is away, and its controller says that it is fenced.
    """
    seen = tuple(_seen_incarnations(loaded))
    known = {(each.broker, each.czxid): each for each in seen}
    written = []
    newest: dict[int, tuple[int | None, int, int | None]] = {}
    for timed in decisions.events:
        match timed.event:
            case BrokerRegistered(broker=broker, czxid=czxid):
                looked = known.get((broker, czxid))
                identity = (looked.pid, czxid, looked.session_id) if looked else (None, czxid, None)
                newest[broker] = identity
                written.append(_incarnation(broker, timed.time, identity, "registered"))
            case BrokerRegistrationChanged(broker=broker) as changed:
                why = _registered_as(changed)
                written.append(_incarnation(broker, timed.time, newest[broker], why))
            case BrokerUnregistered(broker=broker):
                written.append(_incarnation(broker, timed.time, (None,) * 3, "registration gone"))
            case _:
                pass
    return tuple(sorted(written or seen, key=lambda each: (each.broker, each.since)))


def _seen_incarnations(loaded: Loaded) -> Iterable[Incarnation]:
    last: dict[int, tuple[Any, ...]] = {}
    for line in loaded.evidence.observed:
        for seen, why in _seen(line):
            identity = (seen.get("pid"), seen["czxid"], seen.get("session_id"))
            if last.get(seen["broker"]) != identity:
                last[seen["broker"]] = identity
                yield _incarnation(seen["broker"], line.time, identity, why)


def _incarnation(broker: int, since: float, identity: tuple[Any, ...], why: str) -> Incarnation:
    pid, czxid, session_id = identity
    return Incarnation(
        broker=broker, since=since, pid=pid, czxid=czxid, session_id=session_id, why=why
    )


def _seen(line: Observed) -> Iterable[tuple[Mapping[str, Any], str]]:
    """Yield states of brokers in one observation: directly, or before and after a fault."""
    match line.what:
        case BrokerSeen() as seen:
            yield seen.to_json(), getattr(seen, "why", "") or line.kind
        case Injected(name=name, before=before, effect=effect):
            for value, why in ((before, f"before {name}"), (effect, f"after {name}")):
                if "czxid" in value and isinstance(value.get("broker"), int):
                    yield value, why
