"""Cross-check of messages: links.jsonl beside itself, run.json and ZooKeeper's log."""

from collections import Counter
from collections.abc import Iterator

from kchaos.checkers.acts import CutLink, EndForgery, ForgeAnswers, HealLink, Hold, ReleaseHold
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.links import LINKS, LinkMessage
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import controller_epochs
from kchaos.checkers.model.follow.observations import ControlSent
from kchaos.checkers.model.values.events import PartitionState

_ENDED = ("passed", "released", "abandoned", "forged")
_METADATA = "UpdateMetadata"
_CONTROL = ("LeaderAndIsr", _METADATA, "StopReplica")
_AT_LINKS = (CutLink, HealLink, Hold, ReleaseHold, ForgeAnswers, EndForgery)


def message_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where the links' log is incomplete, or contradicts ZooKeeper's log.

    **Verifies**: that the log is there if the cluster was linked, and not if it was not; that its
    lines are numbered one by one; that all messages of a connection have one source, where it is
    known, and one target; that a controller's requests on one are numbered without a gap, and each
    but the last was answered; that no message ended twice, and one that the links could read was
    read; that each control request is of a controller with an epoch that it had taken, and
    UpdateMetadata has states that were written.
    **Does not verify**: that a message was cut or held while a cut or a hold acted; a request of
    which only the answer is there, since links leave out fetches that ask for nothing new.
    """
    messages = evidence.links
    if not evidence.is_linked:
        for timed in evidence.actions:
            if isinstance(timed.event, _AT_LINKS):
                what = type(timed.event).__name__
                yield f"{timed.read_at} is a {what}, and by the scenario the cluster was not linked"
                break
    if messages is None:
        if evidence.is_linked and any(operation.transaction for operation in evidence.operations):
            yield f"{LINKS} is missing: which markers ended the transactions is not known"
        return
    if not evidence.is_linked:
        yield f"{LINKS} is there, although the cluster was not linked"
    elif not messages:
        yield f"{LINKS} is empty, and a controller sends every broker something"
    names = {(sent.api_key, sent.api) for sent in messages}
    if len(names) > len({key for key, _ in names}):
        yield f"{LINKS} gives one kind of request two names"
    for number, message in enumerate(messages, start=1):
        if message.sequence is not None and message.sequence != number:
            yield f"{LINKS}:{number} is message {message.sequence}"
            break
    yield from _connections(messages)
    yield from _ended_twice(messages)
    yield from _unread(messages)
    yield from _left_out(messages)
    yield from _untrue(evidence, messages)


def _connections(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    """Yield connections that lead from, or to, more than one broker."""
    ends: dict[tuple[int, str], int] = {}
    for message in messages:
        for what, broker in (("source", message.source), ("target", message.target)):
            known = (
                ends.setdefault((message.connection, what), broker) if broker is not None else None
            )
            if known != broker:
                yield (
                    f"{message.read_at} has {what} {broker}, and connection {message.connection} "
                    f"had {known} before"
                )


def _ended_twice(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    ended = Counter(
        (message.connection, message.correlation_id, message.direction)
        for message in messages
        if message.fate in _ENDED
    )
    for (connection, number, direction), times in ended.items():
        if times > 1:
            yield f"{LINKS}: {direction} {number} of connection {connection} ended {times} times"


def _unread(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    kinds = {(m.api_key, m.api_version, m.direction) for m in messages if m.detail is not None}
    for message in messages:
        if (
            message.detail is None
            and (message.api_key, message.api_version, message.direction) in kinds
        ):
            yield f"{message.read_at} says nothing, and others of its kind do"


def _left_out(messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    """Yield gaps in the numbers of a controller's requests, and overlapping requests.

    A client numbers its requests one by one (NetworkClient.newClientRequest), and a controller's
    thread sends the next when the last was answered (RequestSendThread.doWork, 0.10.2 to 3.9).
    """
    asked: dict[int, list[LinkMessage]] = {}
    answered = {
        (message.connection, message.correlation_id)
        for message in messages
        if message.direction == "response"
    }
    for message in messages:
        before = asked.setdefault(message.connection, [])
        is_new = message.direction == "request" and (
            not before or before[-1].correlation_id != message.correlation_id
        )
        if not is_new:
            continue
        if before and message.api in _CONTROL:
            last = before[-1]
            if last.api in _CONTROL and message.correlation_id != last.correlation_id + 1:
                yield (
                    f"{message.read_at} is request {message.correlation_id} of connection "
                    f"{message.connection}, and {last.correlation_id} came before: {LINKS} "
                    "lacks some"
                )
            if last.api != "Fetch" and (last.connection, last.correlation_id) not in answered:
                yield f"{last.read_at} has no answer, and its sender went on with {message.read_at}"
        before.append(message)


def _untrue(evidence: RunEvidence, messages: tuple[LinkMessage, ...]) -> Iterator[str]:
    taken = controller_epochs(evidence.znode_changes)
    written = {
        (e.topic, e.partition, e.leader, e.leader_epoch, tuple(sorted(e.isr)))
        for timed in evidence.decisions
        if isinstance(e := timed.event, PartitionState)
    }
    for message in messages:
        said = message.said
        if not isinstance(said, ControlSent):
            continue
        broker = taken.get(said.controller_epoch, (None, 0))[0]
        if taken and broker != said.controller:
            yield (
                f"{message.read_at} is of controller {said.controller} with epoch "
                f"{said.controller_epoch}, which was broker {broker}'s"
            )
        for entry in (
            (message.detail or {}).get("partitions", ()) if message.api == _METADATA else ()
        ):
            if entry.get("leader", -1) < 0 or is_internal(str(entry.get("topic", "__"))):
                continue
            isr = tuple(sorted(entry.get("isr", ())))
            state = (entry["topic"], entry.get("partition"), entry["leader"])
            if (*state, entry.get("leader_epoch"), isr) not in written:
                yield f"{message.read_at} has a state of {state[0]}-{state[1]} that never was"
