"""Registrations in a cause: a broker that nobody told of its replicas, or that lost its own."""

from collections.abc import Iterator, Sequence

from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.findings import Finding
from kchaos.checkers.observations import Broker
from kchaos.harness.report.cause.story import CauseStep, Story
from kchaos.harness.report.cause.wording import acting_text, finding_step


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


def untold_broker(story: Story, finding: Finding | None = None) -> Iterator[CauseStep]:
    """Yield a registered broker that no request informed of its replicas, and what it lacked."""
    finding = finding or story.finding
    own = [
        (time, registered)
        for time, registered in story.registered
        if registered.broker in finding.brokers
    ]
    for time, registered in own[-2:]:
        yield CauseStep(
            time=time,
            section="brokers",
            brokers=(registered.broker,),
            is_fatal=registered is own[-1][1],
            text=f"Broker {registered.broker} registered as generation {registered.czxid}"
            f"{acting_text(story, time)}.",
        )
    yield finding_step(finding)
