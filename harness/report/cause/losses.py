"""Promised records that are gone: who acknowledged them, who was elected, what was cut."""

from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import LoseTail, WipeLogDirectory
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.prediction import Truncation
from kchaos.checkers.observations import Act
from kchaos.checkers.outcome import brokers_text
from kchaos.checkers.rules.offsets import in_words
from kchaos.harness.report.cause.elections import election_step, uncleanly
from kchaos.harness.report.cause.isr_changes import joined_later
from kchaos.harness.report.cause.story import (
    MOST_CUTS,
    MOST_OPERATIONS,
    MOST_STEPS,
    CauseStep,
    Story,
    Term,
    batches_of,
    own_term,
)
from kchaos.harness.report.cause.tiers import let_go
from kchaos.harness.report.cause.wording import cut_step, finding_step, isr_text
from kchaos.harness.report.loading import Loaded

_MOST_ELECTIONS = 3


def loss(story: Story) -> Iterator[CauseStep]:
    """Yield why promised records are lost: acknowledgements, elections and truncations."""
    lost = _named(story.finding.evidence.get("operations"))
    done = [
        each
        for each in story.operations
        if each.promised
        and each.outcome == "ok"
        and story.covers(each.base_offset, each.last_offset)
        and (not lost or each.operation in lost)
    ]
    if not done:
        return
    ended = min(each.ended_at or each.invoked_at for each in done)
    promised = [
        CauseStep(
            time=each.ended_at or each.invoked_at,
            section="time",
            brokers=(each.broker,),
            text=_promised(each, story),
        )
        for each in done[:MOST_OPERATIONS]
    ]
    # A former leader may have acknowledged them after the next election.
    begun = [own_term(each, story) for each in done]
    since = min((term.time for term in begun if term is not None), default=ended)
    later = [term for term in story.terms if term.time > min(since, ended) and term not in begun]
    acknowledged_by = {each.broker for each in done}
    others = [term for term in later if term.leader not in acknowledged_by]
    # With more than one election the evidence does not say at which the records were lost.
    joined = [*joined_later(story, others, ended)]
    is_told = lost_on_disk(story) or any(step.is_fatal for step in joined)
    unclean = [term for term in later if uncleanly(story, term)]
    decided = next((each for each in (others, unclean) if len(each) == 1), [])
    decided = [] if is_told else decided
    cut_off = [
        cut
        for cut in story.truncations
        if cut.target_offset <= story.finding.last_offset < cut.log_end_offset_before
    ]
    elected = [] if is_told else others
    bereft = [cut for term in elected for cut in cut_off if _is_bereft_by(cut, term, story)][-1:]
    decided = [] if bereft else decided
    cut_off = [*bereft, *(cut for cut in cut_off if cut not in bereft)][:MOST_CUTS]
    besides = [*taken_from_disk(story), *joined]
    # Where not all have room, unclean elections come first.
    others_told = len(promised) + len(cut_off) + len(besides)
    room = max(1, min(_MOST_ELECTIONS, MOST_STEPS - 1 - others_told))
    shown = sorted(later, key=lambda term: not uncleanly(story, term))[:room]
    elections = [election_step(story, term, is_fatal=term in decided) for term in shown]
    # What has no time of its own stays behind the last of these.
    yield from sorted([*promised, *besides, *elections], key=lambda step: step.time or 0.0)
    for cut in cut_off:
        rest = f"{_mark(cut, story)}; with that it lost the records"
        yield cut_step(story, cut, rest, is_fatal=cut in bereft)
    if "retention" in story.finding.evidence:
        yield from let_go(story)
    else:
        yield _left_of(story)


def _is_bereft_by(cut: Truncation, term: Term, story: Story) -> bool:
    """Return whether a leader was elected without the lost records because of its truncation."""
    time, elected = story.cut_at(cut), story.replica_at(term.leader, term.time)
    if cut.broker != term.leader or time is None or time > term.time or elected is None:
        return False
    return elected.log_end_offset <= story.finding.first_offset


def _mark(cut: Truncation, story: Story) -> str:
    """Return that a truncation went to the high watermark, where no answer named its offset."""
    answers = {each.end_offset for each in story.rounds if each.follower == cut.broker}
    is_at_mark = cut.target_offset == cut.high_watermark and cut.target_offset not in answers
    return ", its high watermark" if is_at_mark else ""


def _left_of(story: Story) -> CauseStep:
    """Return the replicas' final records at the lost offsets."""
    first, last = story.finding.first_offset, story.finding.last_offset
    offsets = in_words(first, last)
    holders = {
        replica.broker
        for replica in story.replicas
        if any(
            batch.base_offset <= last and batch.last_offset >= first
            for batch in batches_of(replica)
        )
    }
    kept = holders - _brokers(story.finding.evidence.get("held_instead"))
    held = [f"batches at {offsets} are on {brokers_text(sorted(kept))}"] if kept else []
    if holders - kept:
        what = "probe records" if _are_probes(story) else "other records"
        hold = "hold" if len(holders - kept) > 1 else "holds"
        held.append(f"{brokers_text(sorted(holders - kept))} {hold} {what} at {offsets}")
    return CauseStep(
        section="replicas",
        text=f"In the end no in-sync replica has these records; {', and '.join(held)}."
        if held
        else f"In the end no replica has a record at {offsets}.",
    )


def _are_probes(story: Story) -> bool:
    """Return whether all records at the lost offsets were written while the run settled."""
    finding = story.finding
    spans = {
        (batch.base_offset, batch.last_offset)
        for replica in story.replicas
        for batch in batches_of(replica)
        if batch.base_offset <= finding.last_offset and batch.last_offset >= finding.first_offset
    }
    probes = {
        (each.base_offset, each.last_offset)
        for each in story.loaded.evidence.client_operations
        if each.is_probe and (each.topic, each.partition) == (finding.topic, finding.partition)
    }
    return bool(spans) and spans <= probes


def _named(operations: object) -> set[str]:
    """Return the operations in a finding, ignoring values of another form."""
    given = operations if isinstance(operations, list | tuple) else ()
    names = [each.get("operation") for each in given if isinstance(each, Mapping)]
    return {name for name in names if isinstance(name, str)}


def _brokers(by_broker: object) -> set[int]:
    """Return the brokers in a finding's evidence, ignoring values of another form."""
    given = by_broker if isinstance(by_broker, Mapping) else ()
    return {int(broker) for broker in given if str(broker).isdecimal()}


def _promised(done: Operation, story: Story) -> str:
    offsets = in_words(done.base_offset, done.last_offset)
    if done.function == "read":
        return f"A client read {offsets} from broker {done.broker}, below the high watermark."
    ended = done.ended_at or done.invoked_at
    decided = [state for time, state in story.states if time <= ended]
    acknowledged = f"Broker {done.broker} acknowledged {offsets} with acks=all"
    if not decided:
        return f"{acknowledged}."
    now, own = decided[-1], own_term(done, story)
    isr = f"the ISR was {isr_text(now.isr)}"
    if own is None or now.leader == done.broker:
        return f"{acknowledged}; {isr}."
    leader = "without a leader" if now.leader < 0 else f"with leader {now.leader}"
    return (
        f"{acknowledged}, as leader of leader epoch {own.leader_epoch}. Leader epoch "
        f"{now.leader_epoch} had begun {leader}; {isr}."
    )


def taken_from_disk(story: Story) -> Iterator[CauseStep]:
    """Yield the step of a fault that removed some of the finding's offsets from a log's end."""
    partition = story.partition
    for timed in story.loaded.evidence.events:
        lost = timed.event
        if not isinstance(lost, LoseTail) or (lost.topic, lost.partition) != partition:
            continue
        if lost.log_end_offset <= story.finding.last_offset:
            yield CauseStep(
                time=timed.time,
                section="time",
                brokers=(lost.broker,),
                is_fatal=story.finding.kind in ("committed-loss", "last-replica-loss"),
                text=f"The fault LoseTail took the end of broker {lost.broker}'s log, from offset "
                f"{lost.log_end_offset} on.",
            )


def metadata_lost(loaded: Loaded, finding: Finding) -> Iterator[CauseStep]:
    """Yield the faults that emptied the disks of controllers, of which the last one decides."""
    voters = loaded.evidence.metadata_logs.voters
    wiped = [
        (line.time, begun.act.broker)
        for line, begun in lines_of(loaded.evidence.observed, Act)
        if isinstance(begun.act, WipeLogDirectory) and begun.act.broker in voters
    ]
    for time, node in wiped:
        yield CauseStep(
            time=time,
            section="time",
            brokers=(node,),
            is_fatal=(time, node) == wiped[-1],
            text=f"The fault WipeLogDirectory took all that controller {node} had on disk.",
        )
    yield finding_step(finding)


def lost_on_disk(story: Story) -> bool:
    """Return whether a fault removed anything from a disk."""
    return any(
        isinstance(begun.act, LoseTail | WipeLogDirectory)
        for _, begun in lines_of(story.loaded.evidence.observed, Act)
    )
