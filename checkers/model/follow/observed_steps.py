"""Observed steps: the next item of a record is taken, and only states that it fits go on."""

from collections.abc import Mapping

from kchaos.checkers import acts
from kchaos.checkers.errors import ModelError
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import exchange, follower, tier
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.broker.leader import has_enough
from kchaos.checkers.model.controller import allowed
from kchaos.checkers.model.follow import isr_requests, observations
from kchaos.checkers.model.follow.internal_steps import ask, copy_differs, give_up_others, is_taken
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import answers_as_seen, errors_differ, is_on, request_of
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.request_versions import can_read
from kchaos.checkers.model.settle.apply_event import fail_directory, happen
from kchaos.checkers.model.state.state import Broker
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.prediction import ImpossibleHighWatermark, PredictedProduce
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import GrantedIsr, Role
from kchaos.checkers.model.values.requests import (
    Answer,
    ControlRequest,
    EpochAnswer,
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    Received,
    Stage,
    UpdateMetadata,
)

_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT.name
_TOO_FEW = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name


class Excluded(Exception):
    """A state cannot be seen so; the message says what it would be seen as.

    Attributes:
        is_pending: Whether all that stands in the way is a step that has not happened yet.
    """

    def __init__(self, message: str, *, is_pending: bool = False) -> None:
        super().__init__(message)
        self.is_pending = is_pending


def take_decision(world: World, decision: events.Decision) -> None:
    """Let a decision of the run take effect, if the rules allow it now.

    Raises:
        Excluded: They do not.
    """
    if isinstance(decision, events.PartitionState):
        reason = allowed.reason_against(world, decision)
        if reason:
            raise Excluded(reason)
    if isinstance(decision, events.BrokerRegistered | events.BrokerUnregistered):
        is_registered = decision.broker in world.registered()
        if is_registered and isinstance(decision, events.BrokerRegistered):
            raise Excluded(f"broker {decision.broker} registered, and was registered already")
        if not is_registered and isinstance(decision, events.BrokerUnregistered):
            raise Excluded(f"the registration of broker {decision.broker} ended, and it had none")
    if isinstance(decision, events.ControllerElected):
        # What a controller sends is seen at the links, so it needs no outboxes here.
        world.put(("elected",), decision.broker)
        return
    happen(world, decision, {})


def take(  # noqa: C901
    world: World,
    what: events.Action | observations.Observation,
    lookahead: Lookahead,
    *,
    generations: Mapping[int, Generation],
    decided: int,
) -> None:
    """Take an action of the scenario, or an observation.

    Args:
        world: The transition.
        what: The head of the record.
        lookahead: Of the same record.
        generations: In place of what `StartBroker` says.
        decided: How many decisions were taken before.

    Raises:
        Excluded: It cannot be seen in this state.
    """
    match what:
        case observations.RequestSeen():
            _request_seen(world, what, lookahead)
        case observations.ResponseSeen():
            _response_seen(world, what, lookahead)
        case observations.ControlSent():
            _control_sent(world, what, lookahead, decided)
        case observations.ControlAnswered():
            _control_answered(world, what)
        case observations.IsrAsked():
            _isr_asked(world, what)
        case observations.IsrAnswered():
            _isr_answered(world, what)
        case observations.ClientAnswered():
            _client_answered(world, what, lookahead)
            world.put(("answer", what.operation), None)
        case observations.CopyBegun() | observations.CopyEnded():
            _copy(world, what)
        case events.RemoteCopy() | events.TierRead() | events.Snapshot():
            refused = tier.take(world, what)
            if refused is not None:
                raise Excluded(refused.why, is_pending=refused.is_pending)
        case events.ReplicaMoved():
            refused_move = follower.move(world, what)
            if refused_move:
                raise Excluded(refused_move)
        case (
            acts.Hold()
            | acts.ReleaseHold()
            | acts.HoldPoint()
            | acts.ReleasePoint()
            | acts.StaleRequest()
        ):
            # What a hold keeps is seen at the links, and so is what comes late.
            pass
        case acts.ForgeAnswers() | acts.EndForgery():
            pass  # So is what is forged.
        case events.Produce():
            _produce(world, what, lookahead)
        case acts.FailLogDirectory():
            fail_directory(world, what)
            failing = world.get(("failing", what.broker)) or ()
            world.put(("failing", what.broker), (*failing, what))
        case _:
            _act(world, what, generations)


def _isr_answered(world: World, answer: observations.IsrAnswered) -> None:
    broker = world.broker(answer.leader)
    reads_log = broker is not None and broker.generation.reads_metadata_log
    for partition, isr in answer.isrs.items():
        if reads_log and world.get(("isr wanted", answer.leader, partition)) is not None:
            granted = GrantedIsr(isr=isr, version=answer.versions[partition])
            world.put(("isr answer", answer.leader, partition), granted)
        elif world.get(("isr change", answer.leader, partition)) is not None:
            world.put(("isr answer", answer.leader, partition), True)
    broker = world.broker(answer.leader)
    gives_up = broker is not None and broker.generation.gives_up_failed_isr
    for partition in answer.refused | (answer.failed if gives_up else frozenset()):
        world.put(("isr refused", answer.leader, partition), True)


def _copy(world: World, copy: observations.CopyBegun | observations.CopyEnded) -> None:
    """Begin or end the copy of a snapshot; each copied file must have existed between the two."""
    component = ("copying", copy.label, copy.broker)
    if isinstance(copy, observations.CopyBegun):
        world.put(component, copy)
        copying = world.get(("copying",)) or ()
        world.put(("copying",), tuple(sorted({*copying, (copy.broker, copy.label)})))
    elif (begun := world.get(component)) is not None:
        raise Excluded(copy_differs(world, begun))


def _act(world: World, action: events.Action, generations: Mapping[int, Generation]) -> None:
    try:
        happen(world, action, generations)
        if isinstance(action, acts.StartBroker):
            started = world.broker(action.broker)
            assert started is not None
            # Here it is seen when a broker first hears of a topic.
            known = replace(started, told=frozenset(), topic_ids=frozenset())
            world.put_broker(action.broker, known)
        elif isinstance(action, acts.StopBroker):
            # What its process had not read by then nobody reads.
            left = tuple(
                produce for produce in world.get(("sent",)) or () if produce.broker != action.broker
            )
            world.put(("sent",), left or None)
    except ModelError as error:
        raise Excluded(str(error)) from error
    for note in world.notes:
        if isinstance(note, ImpossibleHighWatermark):
            raise Excluded(
                f"the checkpoint of broker {note.broker} holds high watermark "
                f"{note.high_watermark} of {note.topic}-{note.partition}, possible was one of "
                f"{list(note.allowed)}"
            )


def _produce(world: World, request: events.Produce, lookahead: Lookahead) -> None:
    if world.get(("answer", request.operation)) is not None:
        raise Excluded(f"operation {request.operation!r} was used before")
    world.answer(PredictedProduce(operation=request.operation, acknowledged=None, base_offset=-1))
    sent = world.get(("sent",)) or ()
    if not lookahead.connections.is_queued(sent, request.operation):
        world.put(("sent",), (*sent, request))


def _request_seen(world: World, seen: observations.RequestSeen, lookahead: Lookahead) -> None:
    request = request_of(world, seen)
    if request is None:
        if lookahead.requests[seen.number] is not seen:
            # It waited on its way, and its leader's process has ended meanwhile: nobody gets it.
            return
        if is_farewell(world, seen):
            return
        waits = give_up_others(world, seen, lookahead)
        if waits:
            raise Excluded(waits, is_pending=True)
        if seen.fate is observations.Fate.ABANDONED and seen.api != exchange.LIST_OFFSETS:
            return
        differs = ask(world, seen, lookahead)
        if differs:
            raise Excluded(differs)
        request = request_of(world, seen)
        assert request is not None
    if seen.fate is observations.Fate.ARRIVES:
        target = world.broker(seen.leader)
        if target is not None and target.is_running and is_readable(target, seen):
            arrived = replace(request, stage=Stage.ARRIVED)
            exchange.change(world, seen.follower, seen.source, request, arrived)
        else:
            exchange.end(world, seen.follower, seen.source, request)
    elif seen.fate is observations.Fate.ABANDONED:
        exchange.end(world, seen.follower, seen.source, request)


def _response_seen(world: World, seen: observations.ResponseSeen, lookahead: Lookahead) -> None:
    request = request_of(world, seen)
    if request is None:
        waiting = exchange.awaited(world, seen.follower, seen.source)
        if waiting is not None and is_on(waiting, seen) and waiting.stage is not Stage.DELIVERED:
            raise Excluded(is_taken(seen, waiting), is_pending=True)
        return
    if request.stage is not Stage.ANSWERED:
        raise Excluded(_why_not_answered(world, seen, request))
    follower, source = seen.follower, seen.source
    if seen.fate in (observations.Fate.WAITS, observations.Fate.REPLACED):
        return
    if seen.fate is observations.Fate.FORGED:
        request = _forged(world, request, seen, lookahead)
    if seen.fate is observations.Fate.ABANDONED or not request.is_awaited:
        if seen.fate is not observations.Fate.ABANDONED and not seen.error_code:
            # It went through, as the links tell, to a thread that was ended meanwhile.
            world.notes += exchange.rounds(world, follower, source, request)
        exchange.end(world, follower, source, request)
        return
    if seen.error_code:
        exchange.end(world, follower, source, request)
        exchange.end_session(world, follower, source, request)
        return
    world.notes += exchange.rounds(world, follower, source, request)
    answers = tuple(
        (partition, _as_sent(world, seen, partition, answer))
        for partition, answer in request.answers
    )
    delivered = replace(request, stage=Stage.DELIVERED, answers=answers)
    exchange.change(world, follower, source, request, delivered)


def _as_sent(
    world: World, seen: observations.ResponseSeen, partition: acts.TopicPartition, answer: Answer
) -> Answer:
    """Return an answer with the batches that its leader sent, of a large one those of its rest too.

    Records are sent from the file. Of what was not sent yet when the log was truncated, the batches
    that are there now go in its place (org.apache.kafka.common.record.FileRecords.writeTo, 3.9.0).
    """
    said = seen.partitions.get(partition)
    if not isinstance(said, observations.FetchAnswered) or not isinstance(answer, FetchAnswer):
        return answer
    replica = world.replica(seen.leader, partition)
    now = () if replica is None else replica.log.batches
    batches = list(answer.batches)
    if len(batches) < len(said.rest):
        raise Excluded(f"{len(said.rest)} batches or more, possible was {len(batches)}")
    for at, header in enumerate(said.rest, len(batches) - len(said.rest)):
        if header[2] is None:
            continue
        in_its_place = [
            batch
            for batch in (batches[at], *now)
            if (batch.base_offset, batch.last_offset, batch.leader_epoch) == header
        ]
        if not in_its_place:
            base, last, epoch = header
            raise Excluded(
                f"records {base} to {last} of leader epoch {epoch}, possible was "
                f"{batches[at].leader_epoch}"
            )
        batches[at] = in_its_place[0]
    return replace(answer, batches=tuple(batches))


def _forged(
    world: World, request: Exchange, seen: observations.ResponseSeen, lookahead: Lookahead
) -> Exchange:
    """Answer of a link in the leader's place, if a fault said so."""
    answers: list[tuple[acts.TopicPartition, Answer]] = []
    for partition, _ in request.answers:
        said = seen.partitions.get(partition)
        code = None if said is None else said.error_code
        error = lookahead.forgeries.get((seen.follower, seen.leader, -2 if code is None else code))
        if error is None:
            raise Excluded(
                f"the link answered error {code} for {partition.topic}-{partition.partition} in "
                f"broker {seen.leader}'s place, which no fault did"
            )
        answers.append((partition, EpochAnswer(error=error)))
    forged = replace(request, answers=tuple(answers))
    exchange.change(world, seen.follower, seen.source, request, forged)
    return forged


def _why_not_answered(world: World, seen: observations.ResponseSeen, request: Exchange) -> str:
    broker = world.broker(seen.leader)
    if broker is None or not broker.is_working or not request.is_at_leader:
        return f"broker {seen.leader} cannot have answered: the request is {request.stage}"
    possible, _ = exchange.answer(world, seen.follower, seen.source, request)
    return answers_as_seen(possible, seen)[1] or "another answer was possible before"


def _control_sent(
    world: World, seen: observations.ControlSent, lookahead: Lookahead, decided: int
) -> None:
    broker = world.broker(seen.broker)
    if broker is None or not broker.is_running:
        return
    if not lookahead.decisions.is_registered(seen.broker, seen.broker_epoch, decided):
        raise Excluded(
            f"a {seen.api} for broker epoch {seen.broker_epoch} of broker {seen.broker}, which is "
            "no registration's yet"
        )
    for state in seen.states:
        if not lookahead.decisions.is_written(state, decided):
            raise Excluded(
                f"a LeaderAndIsr of {state.topic}-{state.partition} with leader {state.leader}, "
                f"leader epoch {state.leader_epoch} and ISR {list(state.isr)}, which nobody has "
                "written to ZooKeeper"
            )
    requests: list[ControlRequest] = []
    if seen.api == "LeaderAndIsr":
        # A broker handles one partition after the other, and others may look in between.
        requests += [
            LeaderAndIsr(
                states=(state,),
                is_left_out=acts.TopicPartition(state.topic, state.partition) in seen.left_out,
                is_new=acts.TopicPartition(state.topic, state.partition) in seen.new,
                topic_id=seen.topic_ids.get(state.topic, ""),
            )
            for state in seen.states
        ]
    elif seen.api in ("UpdateMetadata", observations.METADATA_LOG):
        live = frozenset(world.registered()) if seen.live is None else seen.live
        requests.append(
            UpdateMetadata(
                live=live,
                registered=seen.registered,
                epochs=seen.epochs,
                told=seen.told,
                deleted=seen.deleted,
                topic_ids=frozenset(seen.topic_ids.items()),
            )
        )
    if seen.api == observations.METADATA_LOG:
        requests += [
            LeaderAndIsr(
                states=(state,),
                is_new=True,
                registered=seen.registered,
                topic_id=seen.topic_ids.get(state.topic, ""),
                replicas=seen.replicas.get(acts.TopicPartition(state.topic, state.partition)),
            )
            for state in seen.states
        ]
    requests += seen.stopped
    added = tuple(
        Received(
            number=seen.number,
            controller_epoch=seen.controller_epoch,
            request=request,
            broker_epoch=seen.broker_epoch,
        )
        for request in requests
    )
    world.put_received(seen.broker, (*world.received(seen.broker), *added))


def _control_answered(world: World, seen: observations.ControlAnswered) -> None:
    received = world.received(seen.broker)
    own = [part for part in received if part.number == seen.number]
    for part in own:
        if part.errors is None:
            raise Excluded(
                f"broker {seen.broker} has not handled the {seen.api} yet", is_pending=True
            )
        differs = errors_differ(part.errors, seen)
        if differs:
            raise Excluded(differs)
    left = tuple(part for part in received if part.number != seen.number)
    world.put_received(seen.broker, left)


def _isr_asked(world: World, seen: observations.IsrAsked) -> None:
    reason = isr_requests.take_request(world, seen)
    if reason:
        raise Excluded(reason, is_pending=True)


def _client_answered(world: World, seen: observations.ClientAnswered, lookahead: Lookahead) -> None:
    outcome: PredictedProduce | None = world.get(("answer", seen.operation))
    if outcome is None:
        raise Excluded(f"produce {seen.operation} was never sent")
    if seen.outcome == "ok":
        if _is_unsettled(world, seen.operation):
            raise Excluded(
                f"the high watermark is moved after produce {seen.operation} was appended, and "
                "before it is answered",
                is_pending=True,
            )
        is_there = seen.base_offset < 0 or outcome.base_offset == seen.base_offset
        if outcome.acknowledged is not True or not is_there:
            where = f" at {seen.base_offset}" if seen.base_offset >= 0 else ""
            raise Excluded(
                f"produce {seen.operation} acknowledged{where}, possible was {_told(outcome)}"
            )
    elif seen.error in observations.NOT_LEADING:
        sent = world.get(("sent",)) or ()
        if any(produce.operation == seen.operation for produce in sent):
            world.put(("sent",), lookahead.connections.without(sent, seen.operation) or None)
        if outcome.base_offset >= 0:
            if outcome.error in observations.NOT_LEADING:
                return  # It was appended, and waited for others when the leader was deposed.
            if not _is_deposed(world, outcome, lookahead):
                raise Excluded(
                    f"produce {seen.operation} was refused with {seen.error}, possible was "
                    f"{_told(outcome)}",
                    is_pending=outcome.acknowledged is None,
                )
        world.answer(replace(outcome, acknowledged=False, error=seen.error))
    elif seen.error and seen.error != _TIMED_OUT and outcome.error != seen.error:
        if seen.error == _TOO_FEW and _has_too_few(world, outcome, lookahead):
            world.answer(replace(outcome, acknowledged=False, error=seen.error))
            return
        raise Excluded(
            f"produce {seen.operation} ended with {seen.error}, possible was {_told(outcome)}"
        )


def _has_too_few(world: World, outcome: PredictedProduce, lookahead: Lookahead) -> bool:
    """Return whether the ISR was too small when the high watermark reached a produce.

    A leader lets go of its ISR's lock when it has moved the high watermark, and looks at the ISR
    once more to answer. In between a LeaderAndIsr may make it smaller (Partition
    .updateFollowerFetchState and checkEnoughReplicasReachOffset, 2.8.2 and 3.9.1).
    """
    sent = lookahead.produces.get(outcome.operation)
    if sent is None or not outcome.acknowledged:
        return False
    return not has_enough(world, sent.broker, acts.TopicPartition(sent.topic, sent.partition))


def _is_deposed(world: World, outcome: PredictedProduce, lookahead: Lookahead) -> bool:
    """Return whether a leader was deposed once the high watermark had reached a produce.

    Between the two it answers nothing: who moves the high watermark lets go of the ISR's lock, and
    looks whether the broker leads before it completes the produce (Partition
    .updateFollowerFetchState and checkEnoughReplicasReachOffset, 2.8.2, 3.9.1 and 4.0.0).
    """
    sent = lookahead.produces.get(outcome.operation)
    if sent is None or not outcome.acknowledged:
        return False
    replica = world.replica(sent.broker, acts.TopicPartition(sent.topic, sent.partition))
    return replica is not None and replica.role is not Role.LEADER


def _is_unsettled(world: World, operation: str) -> bool:
    """Return whether a leader has appended a produce and not yet moved its high watermark.

    Both belong to one call (kafka.cluster.Partition.appendRecordsToLeader, 1.1.1 and 2.8.2).
    """
    return any(
        operation in (world.get(("appended", broker, partition)) or ())
        for broker in world.broker_ids()
        for partition in world.partitions(broker)
    )


def _told(outcome: PredictedProduce) -> str:
    if outcome.acknowledged is None:
        where = "nowhere yet" if outcome.base_offset < 0 else f"at {outcome.base_offset}"
        return f"that it waits, appended {where}"
    if outcome.acknowledged:
        return f"an acknowledgement at {outcome.base_offset}"
    return outcome.error


def is_farewell(world: World, seen: observations.RequestSeen) -> bool:
    """Return whether a thread that has lost its last partition tells its leader just that.

    It may, between `removeFetcherForPartitions` and `shutdownIdleFetcherThreads` of the request
    that took the partition from it (ReplicaManager.becomeLeaderOrFollower, 1.1.1 to 3.9). What it
    had asked before is answered to nobody: the record in that answer is never appended.
    """
    is_empty = seen.api == FETCH and not seen.partitions and not seen.is_full
    return is_empty and world.thread(seen.follower, seen.source) is None


def is_readable(leader: Broker, seen: observations.RequestSeen) -> bool:
    """Return whether a leader's release has the version of the request."""
    release = leader.generation.versions.release
    return seen.version is None or can_read(release, seen.api, seen.version)
