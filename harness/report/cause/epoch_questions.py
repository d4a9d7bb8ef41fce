"""Questions for leader epochs in a cause: what was asked and answered, or never asked."""

from collections.abc import Collection, Iterator, Sequence

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.harness.report.cause.story import MOST_ROUNDS, CauseStep, Story, batches_of


def questions_since(story: Story, began: float, followers: Collection[int]) -> Iterator[AskedRound]:
    """Yield these followers' answered questions for a leader epoch's end, in order."""
    for each in story.rounds:
        if (
            each.is_answered
            and each.time is not None
            and each.time >= began
            and each.follower in followers
            and (each.requested_epoch >= 0 or each.by_fetch)
        ):
            yield each


def never_asked(story: Story, followers: Sequence[int], began: float) -> Iterator[CauseStep]:
    """Yield a follower that did not ask for an epoch's end in a run in which others did."""
    others_asked = any(
        each.follower not in followers and each.requested_epoch >= 0 and not each.by_fetch
        for each in story.rounds
    )
    for broker in followers if others_asked else ():
        later = [
            each
            for each in story.rounds
            if each.follower == broker and (each.time is None or each.time >= began)
        ]
        if not later:
            yield CauseStep(
                time=story.follows_since(broker, began),
                section="rounds",
                brokers=(broker,),
                text=f"After that broker {broker} asked nobody where a leader epoch ends, and so "
                "truncated nothing by an answer.",
            )


def repeated_questions(story: Story, asked: Sequence[AskedRound]) -> Iterator[CauseStep]:
    """Yield the last questions, consecutive equal ones as one."""
    alike: list[list[AskedRound]] = []
    for each in asked:
        if alike and question_text(alike[-1][0], story) == question_text(each, story):
            alike[-1].append(each)
        else:
            alike.append([each])
    for same in alike[-MOST_ROUNDS:]:
        again = f" This came {len(same)} times." if len(same) > 1 else ""
        yield CauseStep(
            time=same[0].time,
            section="rounds",
            brokers=(same[0].leader, same[0].follower),
            is_fatal=len(same) > 1,
            text=f"{question_text(same[0], story)}{again}",
        )
        yield from _unknown_to_the_follower(story, same)


def _unknown_to_the_follower(story: Story, same: Sequence[AskedRound]) -> Iterator[CauseStep]:
    """Yield that no truncation can follow from a repeated answer."""
    answer = same[0]
    log = [
        batch
        for replica in story.replicas
        if replica.broker == answer.follower
        for batch in batches_of(replica)
    ]
    end = log[-1].last_offset + 1 if log else 0
    known = {batch.leader_epoch for batch in log}
    if len(same) > 1 and answer.answered_epoch not in known and end <= (answer.end_offset or 0):
        yield CauseStep(
            section="replicas",
            text=f"The log of broker {answer.follower} ends at {end} and has no record of leader "
            f"epoch {answer.answered_epoch}, so it could truncate nothing by that answer.",
        )


def question_text(each: AskedRound, story: Story) -> str:
    """Describe a question with its answer, or a fetch answered with a diverging epoch."""
    end = f"leader epoch {each.answered_epoch} ends at {each.end_offset}"
    if each.by_fetch:
        return (
            f"Broker {each.follower} fetched from broker {each.leader}, which answered that their "
            f"logs diverge: {end}."
        )
    asked = f"Broker {each.follower} asked where leader epoch {each.requested_epoch} ends"
    if each.end_offset == -1:
        return f"{asked}; broker {each.leader} answered that it does not know that epoch."
    if each.answered_epoch is None:
        # Version 0 of OffsetForLeaderEpoch names no epoch in its answer.
        return f"{asked}; broker {each.leader} answered {each.end_offset}{beyond(each, story)}."
    return f"{asked}; broker {each.leader} answered that {end}."


def beyond(each: AskedRound, story: Story) -> str:
    """Return why an answer is the start of another leader epoch, if the leader's log shows it."""
    log = [
        batch
        for replica in story.replicas
        if replica.broker == each.leader
        for batch in batches_of(replica)
    ]
    next_epoch = [batch for batch in log if batch.leader_epoch > each.requested_epoch]
    if any(batch.leader_epoch == each.requested_epoch for batch in log) or not next_epoch:
        return ""
    if next_epoch[0].base_offset != each.end_offset:
        return ""
    return (
        f", where its leader epoch {next_epoch[0].leader_epoch} begins, since it has no record of "
        f"leader epoch {each.requested_epoch}"
    )
