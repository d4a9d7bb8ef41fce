"""Registrations in a cause: an uninformed broker, or one that lost its own."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.findings import Finding
from kchaos.checkers.observations import Broker
from kchaos.harness.report.cause.elections import election_step
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.cause.wording import acting_text, finding_step, logged_at

_NOT_EMPTY = "Controller to broker state change requests batch is not empty"
"""Of ControllerBrokerRequestBatch.newBatch, which ends what the controller was about to send."""


def not_registered(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a broker whose registration ended and whose process went on."""
    processes = {
        seen.broker: seen.pid for _, seen in lines_of(story.loaded.evidence.observed, Broker)
    }
    for broker in concerned:
        ended = story.unregistered.get(broker)
        if ended is not None and processes.get(broker) is not None:
            elected = [who for time, who in story.controllers if time < ended]
            controller = elected[-1] if elected else None
            yield CauseStep(
                time=ended,
                section="brokers",
                brokers=(broker,),
                is_fatal=True,
                text=f"The registration of {'controller' if broker == controller else 'broker'} "
                f"{broker} ended{acting_text(story, ended)}. Its process ran on, and it never "
                "registered again.",
            )


def fenced_leader(story: Story) -> Iterator[CauseStep]:
    """Yield the registration of a broker that was elected while it was fenced, and the election."""
    for elected in [term for term in story.terms if term.leader in story.finding.brokers][-1:]:
        yield from _registered(story, elected.leader)[-1:]
        yield election_step(story, elected, is_fatal=True)
    yield finding_step(story.finding)


def uninformed_broker(story: Story, finding: Finding | None = None) -> Iterator[CauseStep]:
    """Yield a registered broker that no request informed of its replicas, and what it lacked."""
    finding = finding or story.finding
    steps = [step for broker in finding.brokers for step in _registered(story, broker)[-2:]]
    failed = [*_batch_not_sent(story)]
    yield from steps[:-1]
    yield from (replace(step, is_fatal=not failed) for step in steps[-1:])
    yield from failed
    yield finding_step(finding)


def _registered(story: Story, broker: int) -> list[CauseStep]:
    """Return a broker's registrations, oldest first."""
    return [
        CauseStep(
            time=time,
            section="brokers",
            brokers=(broker,),
            text=f"Broker {broker} registered as generation {registered.czxid}"
            f"{acting_text(story, time)}.",
        )
        for time, registered in story.registered
        if registered.broker == broker
    ]


def _batch_not_sent(story: Story) -> Iterator[CauseStep]:
    """Yield a controller's log line about requests that it could not begin (KAFKA-12315)."""
    for controller in dict.fromkeys(broker for _, broker in story.controllers):
        lines = story.loaded.evidence.server_logs.get(controller, ())
        first = [number for number, line in enumerate(lines, start=1) if _NOT_EMPTY in line][:1]
        for number in first:
            yield CauseStep(
                time=logged_at(story, controller, number),
                section="brokers",
                brokers=(controller,),
                is_fatal=True,
                text=f'Controller {controller} says in its own log: "{_NOT_EMPTY}".',
            )
