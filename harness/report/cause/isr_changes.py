"""Changes of the ISR in a cause: who joined, who was dropped, what a leader asked for in vain."""

from collections.abc import Iterator, Sequence

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.formats.error_codes import error_name
from kchaos.checkers.model.follow.observations import IsrAsked
from kchaos.checkers.outcome import brokers_text
from kchaos.checkers.rules.offsets import in_words
from kchaos.harness.report.cause.elections import uncleanly
from kchaos.harness.report.cause.story import CauseStep, Story, Term
from kchaos.harness.report.cause.wording import acting_text, isr_text


def together_in_sync(story: Story, since: float) -> Iterator[CauseStep]:
    """Yield the time from which the differing brokers were in sync, if they were."""
    brokers = set(story.finding.brokers)
    named = brokers_text(sorted(brokers))
    counted = f"{named} counts as in sync" if len(brokers) == 1 else f"{named} count as in sync"
    for time, state in story.states:
        if brokers <= set(state.isr) and time >= since:
            yield CauseStep(
                time=time,
                section="time",
                brokers=(state.leader,),
                text=f"The ISR became {isr_text(state.isr)}: {counted}.",
            )
            return


def joined_later(story: Story, elected: Sequence[Term], promised_at: float) -> Iterator[CauseStep]:
    """Yield the step by which the first of later leaders joined the ISR after the promise."""
    for term in elected:
        members = [(time, state) for time, state in story.states if time < term.time]
        before = [state for time, state in members if time <= promised_at]
        if not before or term.leader in before[-1].isr or uncleanly(story, term):
            continue
        joined = [
            (time, state)
            for time, state in members
            if time > promised_at and term.leader in state.isr
        ]
        for time, state in joined[:1]:
            without = _without_the_records(story, term.leader, state.leader, time)
            yield CauseStep(
                time=time,
                section="time",
                brokers=(term.leader,),
                is_fatal=bool(without),
                text=f"Broker {term.leader} came into the ISR only after that: it became "
                f"{isr_text(state.isr)}{acting_text(story, time)}.{without}",
            )
            return


def _without_the_records(story: Story, follower: int, leader: int, time: float) -> str:
    """Return ends of a follower's log and its leader's high watermark, if the records lie above."""
    followed, led = story.replica_at(follower, time), story.replica_at(leader, time)
    first = story.finding.first_offset
    if followed is None or led is None or followed.log_end_offset > first:
        return ""
    return (
        f" Its log ended at {followed.log_end_offset}, and the high watermark of leader {leader} "
        f"was {led.high_watermark}: it joined without {in_words(first, story.finding.last_offset)}."
    )


def isr_not_changed(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield the last leader's last unanswered request for a change of the ISR."""
    if not story.states or set(concerned) <= set(story.states[-1][1].isr):
        return
    partition = story.partition
    since, state = story.states[-1]
    asked: tuple[LinkMessage, IsrAsked] | None = None
    answer = ""
    for message in story.loaded.evidence.links or ():
        is_of_leader = message.source == state.leader and message.api == "AlterPartition"
        if is_of_leader and message.direction == "response" and asked is not None:
            same = (message.connection, message.correlation_id)
            if same == (asked[0].connection, asked[0].correlation_id):
                answer = _answer_of(message, partition)
        said = message.said
        if is_of_leader and isinstance(said, IsrAsked) and partition in said.isrs:
            asked, answer = (message, said), "gave no answer that a link saw"
    if asked is None or asked[0].wall_time_s < since:
        return
    message, said = asked
    wanted = said.isrs[partition]
    yield CauseStep(
        time=message.wall_time_s,
        section="brokers",
        brokers=(state.leader,),
        is_fatal=True,
        text=f"Leader {state.leader} asked its controller for ISR {isr_text(wanted.isr)} in leader "
        f"epoch {wanted.leader_epoch}; the controller {answer}. It has not asked again.",
    )


def _answer_of(message: LinkMessage, partition: TopicPartition) -> str:
    """Describe an AlterPartition response about a partition."""
    detail = message.detail or {}
    of_partition = [
        entry.get("error_code")
        for entry in detail.get("partitions") or ()
        if (entry.get("topic"), entry.get("partition")) == partition
    ]
    code = detail.get("error_code") or (of_partition[0] if of_partition else None)
    if code is None:
        return "answered nothing about the partition"
    return f"answered {error_name(code)}" if code else "agreed"


def dropped(story: Story) -> Iterator[CauseStep]:
    """Yield followers that left the ISR while they waited for their leader."""
    if not story.finding.evidence.get("dropped"):
        return
    partition = story.partition
    for drop in story.loaded.evidence.dropped(partition):
        if drop.broker not in story.finding.brokers:
            continue
        back = ""
        if drop.ended_at is not None:
            back = f", and was out for {drop.ended_at - drop.dropped_at:.1f} s"
        yield CauseStep(
            time=drop.dropped_at,
            section="time",
            brokers=(drop.leader, drop.broker),
            is_fatal=True,
            text=f"Broker {drop.broker} had waited {drop.dropped_at - drop.kept_from:.1f} s for "
            f"leader {drop.leader} to read its fetch{acting_text(story, drop.dropped_at)}. "
            f"It left the ISR{back}.",
        )
