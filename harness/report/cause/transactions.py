"""A transaction that ended otherwise than its client was told."""

from collections.abc import Iterator

from kchaos.checkers.evidence.clients import client_exchanges
from kchaos.checkers.formats.error_codes import error_name
from kchaos.checkers.rules.offsets import in_words
from kchaos.harness.report.cause.story import MOST_ROUNDS, CauseStep, Story
from kchaos.harness.report.cause.wording import finding_step


def transaction(story: Story) -> Iterator[CauseStep]:
    """Yield a transaction that contradicts its client's answer: batch, markers and end."""
    finding, evidence = story.finding, story.loaded.evidence
    named = finding.evidence.get("operation")
    written = next((each for each in evidence.operations if each.operation == named), None)
    if written is None or written.producer is None or evidence.clients is None:
        return
    producer = written.producer.producer_id
    partition = story.partition
    markers = [
        marker
        for marker in evidence.markers or ()
        if (marker.topic, marker.partition) == partition and marker.producer_id == producer
    ]
    ends = [
        (asked, answer)
        for asked, answer in client_exchanges(evidence.clients.lines)
        if asked.api == "EndTxn" and asked.producer_id == producer
    ]
    written_at = written.ended_at or written.invoked_at
    is_after = any(
        marker.answered_at is not None and marker.answered_at <= written.invoked_at
        for marker in markers
    )
    yield CauseStep(
        time=written_at,
        section="time",
        brokers=(written.broker,),
        is_fatal=finding.kind == "hanging-transaction" and is_after,
        text=f"{'Only after that broker' if is_after else 'Broker'} {written.broker} got "
        f"{in_words(written.base_offset, written.last_offset)} in a transaction of producer "
        f"{producer}, and appended that.",
    )
    for marker in markers[-MOST_ROUNDS:]:
        is_unasked = not any(asked.time < marker.asked_at for asked, _answer in ends)
        by_itself = " No client had requested that." if is_unasked else ""
        yield CauseStep(
            time=marker.answered_at or marker.asked_at,
            section="time",
            brokers=(marker.broker,),
            is_fatal=is_unasked and not is_after,
            text=f"The coordinator had broker {marker.broker} write a marker that "
            f"{'commits' if marker.is_commit else 'aborts'} the transaction of producer "
            f"{producer}.{by_itself}",
        )
    for asked, answer in ends[-MOST_ROUNDS:]:
        outcome = "got no answer" if answer is None else "got the answer that it would be so"
        if answer is not None and answer.error_code:
            outcome = f"was answered {error_name(answer.error_code)}"
        yield CauseStep(
            time=asked.time,
            section="time",
            brokers=(asked.broker,),
            text=f"The client asked its coordinator, broker {asked.broker}, to "
            f"{'commit' if asked.committed else 'abort'} the transaction, and {outcome}.",
        )
    yield finding_step(finding)
