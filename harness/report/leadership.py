"""Who led when, and when which broker was registered, as ZooKeeper's own log has it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    PartitionState,
)
from kchaos.harness.report.loading import Loaded


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What ZooKeeper's log says of one run, in zxid order.

    Attributes:
        events: Partition states, registrations and controllers, with ZooKeeper's times.
        problems: Why something is missing, a sentence each.
    """

    events: tuple[TimedEvent, ...] = ()
    problems: tuple[str, ...] = ()

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
        czxid: Of `/brokers/ids/N`; None while it was not registered.
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
    """What was decided, from ZooKeeper's transaction logs; Kafka's own topics left out."""
    try:
        events = loaded.evidence.decisions
    except CheckError as error:
        return Decisions(problems=(str(error),))
    if not events:
        return Decisions(problems=("no ZooKeeper transaction log was collected",))
    return Decisions(
        events=tuple(each for each in events if not is_internal(getattr(each.event, "topic", "")))
    )


def decision_text(timed: TimedEvent) -> str:
    """One decision in a few words, or "" for one that is not worth a line."""
    match timed.event:
        case PartitionState() as state:
            isr = ",".join(map(str, state.isr))
            return (
                f"{state.topic}-{state.partition}: leader {state.leader}, "
                f"leader epoch {state.leader_epoch}, ISR [{isr}]"
            )
        case BrokerRegistered() as registered:
            return f"broker {registered.broker} registered, czxid {registered.czxid}"
        case BrokerUnregistered() as gone:
            return f"broker {gone.broker}'s registration is gone"
        case ControllerElected() as elected:
            return f"broker {elected.broker} is the controller"
        case _:
            return ""


def incarnations(loaded: Loaded, decisions: Decisions) -> tuple[Incarnation, ...]:
    """Each broker's registrations by broker and time; process and session where they were seen.

    They come from ZooKeeper's log, which misses none; without it, from what kchaos saw.
    """
    seen = tuple(_seen_incarnations(loaded))
    known = {(each.broker, each.czxid): each for each in seen}
    written = []
    for timed in decisions.events:
        match timed.event:
            case BrokerRegistered(broker=broker, czxid=czxid):
                looked = known.get((broker, czxid))
                identity = (looked.pid, czxid, looked.session_id) if looked else (None, czxid, None)
                written.append(_incarnation(broker, timed.time, identity, "registered"))
            case BrokerUnregistered(broker=broker):
                written.append(_incarnation(broker, timed.time, (None,) * 3, "registration gone"))
            case _:
                pass
    return tuple(sorted(written or seen, key=lambda each: (each.broker, each.since)))


def _seen_incarnations(loaded: Loaded) -> Iterable[Incarnation]:
    last: dict[int, tuple[Any, ...]] = {}
    for line in loaded.evidence.observed:
        for seen, why in _seen(line):
            identity = (seen.get("pid"), seen.get("czxid"), seen.get("session_id"))
            if last.get(seen["broker"]) != identity:
                last[seen["broker"]] = identity
                yield _incarnation(seen["broker"], line.time, identity, why)


def _incarnation(broker: int, since: float, identity: tuple[Any, ...], why: str) -> Incarnation:
    pid, czxid, session_id = identity
    return Incarnation(
        broker=broker, since=since, pid=pid, czxid=czxid, session_id=session_id, why=why
    )


def _seen(line: Observed) -> Iterable[tuple[dict[str, Any], str]]:
    """What one observation says of brokers: directly, or before and after a fault."""
    detail = line.detail
    for value, why in (
        (detail, str(detail.get("why") or line.kind)),
        (detail.get("before"), f"before {detail.get('name')}"),
        (detail.get("effect"), f"after {detail.get('name')}"),
    ):
        if isinstance(value, dict) and "czxid" in value and isinstance(value.get("broker"), int):
            yield value, why
