"""Control requests in a cause: those that came late, and those that a broker refused."""

from collections.abc import Iterator, Sequence

from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.formats.error_codes import ErrorCode, error_name
from kchaos.checkers.model.follow.observations import ControlAnswered, ControlSent
from kchaos.checkers.model.values.events import PartitionState
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.cause.wording import isr_text


def obeyed_before(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a late request on the partition that a broker or its controller obeyed."""
    partition = story.partition
    sources = {
        each.evidence.get("source")
        for each in story.loaded.findings
        if each.kind == "stale-request-accepted" and (each.topic, each.partition) == partition
    }
    late = [
        request
        for request in story.loaded.evidence.control or ()
        if request.source in sources and {request.target, request.broker} & set(concerned)
    ]
    for request in late[-1:]:
        yield from _obeyed_late(story, request, is_fatal=True)


def not_accepted(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a leader or a follower that never accepted the last leader epoch, with its answer."""
    last = story.terms[-1] if story.terms else None
    if last is None:
        return
    accepted: dict[int, PartitionState] = {}
    refused: dict[int, tuple[float, ControlSent, int]] = {}
    for time, request, state, error in _leader_and_isr(story):
        if not error:
            accepted[request.broker] = state
        elif state.leader_epoch == last.leader_epoch:
            # What it answers to a repetition says only that it has seen the first.
            refused.setdefault(request.broker, (time, request, error))
    for broker in dict.fromkeys((last.leader, *concerned)):
        own = accepted.get(broker)
        is_told = own is not None or broker in refused
        if own is not None and own.leader_epoch >= last.leader_epoch:
            continue
        if not is_told or broker in story.unregistered:
            continue
        time, text = (
            last.time,
            f"No LeaderAndIsr of leader epoch {last.leader_epoch} was answered by broker {broker}",
        )
        if broker in refused:
            time, request, error = refused[broker]
            text = (
                f"Broker {broker} refused the LeaderAndIsr of leader epoch {last.leader_epoch} "
                f"from controller {request.controller} ({error_name(error)}"
                f"{_ids_text(story, request, error)})"
            )
        yield CauseStep(
            time=time,
            section="brokers",
            brokers=(broker,),
            is_fatal=broker == last.leader or broker in refused,
            text=f"{text}; {_accepted_text(own)}.",
        )


def _accepted_text(accepted: PartitionState | None) -> str:
    """Describe the last LeaderAndIsr that a broker accepted."""
    if accepted is None:
        return "it accepted none of this topic"
    return (
        f"the last that it accepted was of leader epoch {accepted.leader_epoch}, with ISR "
        f"{isr_text(accepted.isr)}"
    )


def _ids_text(story: Story, request: ControlSent, error: int) -> str:
    """Describe the topic ids of a refusal: the request's, and the last one on disk."""
    if error != ErrorCode.INCONSISTENT_TOPIC_ID:
        return ""
    evidence = story.loaded.evidence
    requested = request.topic_ids.get(story.finding.topic, "")
    label = evidence.snapshots[-1].label if evidence.snapshots else ""
    try:
        own = evidence.copied.topic_id(label, request.broker, story.partition)
    except CheckpointError:
        own = ""
    if not requested or own in ("", requested):
        return ""
    return f": the request names topic id {requested}, and its partition.metadata {own}"


def _leader_and_isr(story: Story) -> Iterator[tuple[float, ControlSent, PartitionState, int]]:
    """Yield each answered LeaderAndIsr of the partition, with the error of its response."""
    partition = story.partition
    sent: dict[object, tuple[ControlSent, PartitionState]] = {}
    for message in story.loaded.evidence.links or ():
        said = message.said
        if message.wall_time_s < story.since:
            continue
        if isinstance(said, ControlSent):
            for state in said.states:
                if (state.topic, state.partition) == partition:
                    sent[said.number, said.api, said.broker] = (said, state)
        elif isinstance(said, ControlAnswered):
            number = (said.number, said.api, said.broker)
            if number in sent:
                error = said.error_code or said.errors.get(partition, 0)
                yield message.wall_time_s, *sent[number], error


def late_request(story: Story) -> Iterator[CauseStep]:
    """Yield a late request, with the generation of its sender's view and that of its receiver."""
    partition = story.partition
    accepted = [
        request
        for request in story.loaded.evidence.control or ()
        if request.is_late
        and request.target in story.finding.brokers
        and not request.error_for(partition)
    ]
    for request in accepted[:1]:
        yield from _obeyed_late(story, request, is_fatal=True)


def _obeyed_late(story: Story, request: ControlRequest, *, is_fatal: bool) -> Iterator[CauseStep]:
    for time, registered in story.registered:
        if registered.broker != request.broker:
            continue
        if registered.czxid == request.meant_for:
            yield CauseStep(
                time=time,
                section="brokers",
                brokers=(request.broker,),
                text=f"Broker {request.broker} registered as generation {request.meant_for}; "
                f"the {request.api} was made for that one.",
            )
        elif registered.czxid == request.in_force:
            yield CauseStep(
                time=time,
                section="brokers",
                brokers=(request.broker,),
                text=f"Broker {request.broker} registered anew, as generation {request.in_force}.",
            )
    carried = (
        f"no broker epoch, which version {request.version} does not have"
        if request.broker_epoch is None
        else f"broker epoch {request.broker_epoch}"
    )
    yield CauseStep(
        time=request.time,
        section="brokers",
        brokers=(request.target,),
        is_fatal=is_fatal,
        text=f"The {request.api} reached broker {request.target} only then. It carried "
        f"{carried}, and the broker accepted it.",
    )
