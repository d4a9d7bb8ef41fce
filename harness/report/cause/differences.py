"""Replicas that differ: who wrote what, what was asked and cut off, who is in sync."""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.outcome import brokers_text
from kchaos.checkers.rules.offsets import in_words
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.report.cause.elections import uncleanly
from kchaos.harness.report.cause.epoch_questions import never_asked, question_text, questions_since
from kchaos.harness.report.cause.isr_changes import together_in_sync
from kchaos.harness.report.cause.losses import taken_from_disk
from kchaos.harness.report.cause.story import (
    MOST_OPERATIONS,
    CauseStep,
    Story,
    Term,
    batches_of,
    own_term,
)
from kchaos.harness.report.cause.topics import made_again
from kchaos.harness.report.cause.truncations import cut_nothing, cut_too_little, kept_after
from kchaos.harness.report.cause.wording import acting_text, cut_step

_MOST_EPOCHS = 3
DIFFERING = ("divergence", "hole", "missing-tail")


def difference(story: Story) -> Iterator[CauseStep]:
    """Yield why replicas differ: writers, questions, truncations and the ISR."""
    again = [*made_again(story, story.finding.brokers)]
    yield from again
    written = [*_written_by(story)]
    yield from written
    began = max((step.time for step in written if step.time is not None), default=float("-inf"))
    yield from taken_from_disk(story)
    followers = _followers(story, began)
    asked = next(questions_since(story, began, followers), None)
    if asked is None:
        yield from never_asked(story, followers, began)
        for follower in followers:
            yield from cut_too_little(story, follower)
            yield from cut_nothing(story, follower, began, is_fatal=not again)
    else:
        decides = not any(step.is_fatal for step in again)
        yield from _answered(story, asked, decides=decides)
    if story.finding.kind == "hole":
        yield from _holes(story)
    since = began if asked is None or asked.time is None else max(began, asked.time)
    yield from together_in_sync(story, since)


def _written_by(story: Story) -> Iterator[CauseStep]:
    """Yield the leader while the finding's records were written, or their writer."""
    epochs = sorted(
        {
            batch.leader_epoch
            for replica in story.replicas
            for batch in batches_of(replica)
            if story.covers(batch.base_offset, batch.last_offset)
        }
    )
    terms = [(epoch, story.term(epoch)) for epoch in epochs[:_MOST_EPOCHS]]
    led = [(epoch, term) for epoch, term in terms if term is not None]
    for epoch, term in led:
        yield CauseStep(
            time=term.time,
            section="replicas",
            brokers=(term.leader,),
            text=f"Broker {term.leader} led in leader epoch {epoch}"
            f"{acting_text(story, term.time)}; its records at {_written(story, term)}"
            f"{uncleanly(story, term)}.",
        )
        yield from _own_cut(story, term)
    if not led or -1 in epochs:
        # Batches of magic 0 and 1 name no leader epoch.
        yield from _appended(story, {*epochs} if led else set())


def _own_cut(story: Story, term: Term) -> Iterator[CauseStep]:
    """Yield the truncation by which a leader lost what it wrote itself at the finding's offsets."""
    if _leader_s_own(story, term):
        return
    finding = story.finding
    for cut in story.truncations:
        reaches = cut.target_offset <= finding.last_offset < cut.log_end_offset_before
        time = story.cut_at(cut)
        if reaches and cut.broker == term.leader and (time is None or time >= term.time):
            rest = f", and with that its own records of leader epoch {term.leader_epoch}"
            yield cut_step(story, cut, rest)
            return


def _answered(story: Story, asked: AskedRound, *, decides: bool) -> Iterator[CauseStep]:
    """Yield an epoch-end question, and the records that the follower kept wrongly.

    Unless it `decides` something before it is why the replicas differ.
    """
    kept = [*(kept_after(story, asked) if asked.end_offset != -1 else ())]
    kept = kept or [*cut_too_little(story, asked.follower)]
    kept = kept or [*cut_nothing(story, asked.follower, asked.time or float("-inf"))]
    is_beyond = (asked.end_offset or 0) > story.finding.last_offset
    yield CauseStep(
        time=asked.time,
        section="rounds",
        brokers=(asked.leader, asked.follower),
        is_fatal=decides
        and story.finding.kind in ("divergence", "hole")
        and (is_beyond or bool(kept)),
        text=question_text(asked, story),
    )
    yield from kept


def _followers(story: Story, began: float) -> Sequence[int]:
    """Return the finding's followers when the ISR became complete, or at the end."""
    brokers = set(story.finding.brokers)
    states = [state for time, state in story.states if time >= began]
    again = [
        state
        for before, state in pairwise(states)
        if brokers <= set(state.isr) and not brokers <= set(before.isr)
    ]
    again += [state for _time, state in story.states[-1:]]
    leader = again[0].leader if again else -1
    return [broker for broker in story.finding.brokers if broker != leader]


def _appended(story: Story, led_epochs: Collection[int]) -> Iterator[CauseStep]:
    """Yield the leaders that appended to the finding's offsets, by their responses.

    Those of the leader epochs that were told already are left out.
    """
    of_term: dict[Term, list[Operation]] = {}
    for done in story.operations:
        if done.function != "produce" or done.outcome != "ok":
            continue
        own = own_term(done, story)
        if own is None or own.leader_epoch in led_epochs:
            continue
        if story.covers(done.base_offset, done.last_offset):
            of_term.setdefault(own, []).append(done)
    for own, operations in [*of_term.items()][:MOST_OPERATIONS]:
        first, last = operations[0], max(each.last_offset for each in operations)
        ended = first.ended_at or first.invoked_at
        without = " Its batch names no leader epoch." if led_epochs else ""
        yield CauseStep(
            time=ended,
            section="time",
            brokers=(own.leader,),
            text=f"Broker {own.leader} led in leader epoch {own.leader_epoch}, and appended "
            f"what a client sent at {in_words(first.base_offset, last)}"
            f"{acting_text(story, ended, about=own.leader)}"
            f"{uncleanly(story, own)}.{_deposed(story, own, ended)}{without}",
        )


def _deposed(story: Story, own: Term, time: float) -> str:
    """Return that the next leader epoch had begun when an earlier leader appended."""
    later = [state for at, state in story.states if at <= time][-1:]
    if not later or later[0].leader_epoch <= own.leader_epoch:
        return ""
    leader = "without a leader" if later[0].leader < 0 else f"with leader {later[0].leader}"
    return f" Leader epoch {later[0].leader_epoch} had begun {leader}."


def _written(story: Story, term: Term) -> str:
    """Return the offsets of a leader epoch on the replicas, and who agrees with its leader."""
    of_epoch = _of_epoch(story, term)
    first = min(batch.base_offset for _broker, batch in of_epoch)
    last = max(batch.last_offset for _broker, batch in of_epoch)
    own = _leader_s_own(story, term)
    holders = sorted({broker for broker, batch in of_epoch if not own or _identity(batch) in own})
    offsets = in_words(first, last)
    alone = " alone" if len(holders) == 1 else ""
    return f"{offsets} are on {brokers_text(holders)}{alone}"


def _leader_s_own(story: Story, term: Term) -> set[tuple[object, ...]]:
    """Return the batches of a leader epoch that its own leader still has, by their identity."""
    return {_identity(batch) for broker, batch in _of_epoch(story, term) if broker == term.leader}


def _of_epoch(story: Story, term: Term) -> list[tuple[int, Batch]]:
    """Return the brokers and batches of a leader epoch at the finding's offsets."""
    return [
        (replica.broker, batch)
        for replica in story.replicas
        for batch in batches_of(replica)
        if batch.leader_epoch == term.leader_epoch
        and story.covers(batch.base_offset, batch.last_offset)
    ]


def _identity(batch: Batch) -> tuple[object, ...]:
    """Return the fields in which copies of a batch agree."""
    return batch.base_offset, batch.last_offset, batch.payload or batch.crc


def _holes(story: Story) -> Iterator[CauseStep]:
    """Yield where the log of a broker goes on after its hole."""
    for replica in story.replicas:
        later = [
            each for each in batches_of(replica) if each.base_offset > story.finding.last_offset
        ]
        if replica.broker in story.finding.brokers and later:
            yield CauseStep(
                section="replicas",
                text=f"Broker {replica.broker} has no batch at {story.finding.first_offset} to "
                f"{story.finding.last_offset}; its next batch begins at {later[0].base_offset}, "
                f"in leader epoch {later[0].leader_epoch}.",
            )
