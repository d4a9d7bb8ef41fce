"""What led to the first unsafe state, in sentences made from the evidence alone."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from kchaos.checkers.acts import LoseTail, TopicPartition
from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.evidence.clients import exchanges
from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.evidence.tier import TierReading
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.formats.error_codes import ErrorCode, error_name
from kchaos.checkers.model.follow.observations import ControlAnswered, ControlSent, IsrAsked, Reply
from kchaos.checkers.model.releases.rules.kafka_10706 import KAFKA_10706
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    PartitionState,
)
from kchaos.checkers.outcome import brokers_text, worst_first
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.report.leadership import Decisions, decisions_of
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.moments import Fault, faults_of
from kchaos.harness.report.replaced_entries import Replaced, replaced_entries
from kchaos.harness.report.replicas import PartitionView, ReplicaView, partition_views
from kchaos.harness.report.rounds import observed_rounds
from kchaos.harness.report.tier_drawing import RemoteView

NOT_KNOWN = (
    "The cause is not known: no evidence of this run links a message or a decision to the finding."
)
"""Told of a finding without a cause; after it stands what is known, the finding itself."""
_AIMED_AT = re.compile(r"\b(?:broker|source|target)=(\d+)")
_REBUILT = re.compile(r"Updated the epoch cache from remote tier till offset: (\d+)")
_NOT_REBUILT = re.compile(
    r"Couldn't build the state from remote store.*(previous remote log segment metadata was not "
    r"found)"
)
_OWN_WORDS = (
    r"Exiting because log truncation is not allowed for partition {name}\b[^(]*",
    r"Unable to start fetching {name} with topic ID [^(]*",
    r"Error while processing LeaderAndIsr request [^(]*for partition {name}\b",
)
"""What a broker logs when it gives a replica up: ReplicaFetcherThread.handleOffsetOutOfRange up to
1.1, AbstractFetcherThread, StateChangeLogger's lines of ReplicaManager."""
_MOST_EPOCHS = 3
_MOST_OPERATIONS = 3
_MOST_ELECTIONS = 3
_MOST_FAULTS = 3
_MOST_ROUNDS = 2
_MOST_CUTS = 2
_MOST_STEPS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseStep:
    """One sentence of the cause.

    Attributes:
        time: When it happened, in seconds since 1970; None for a state that lasts.
        section: Id of the section of the page that shows it.
        brokers: The broker where it happened, or of a message its sender and its receiver.
        is_fatal: Whether it is the message or the decision by which the finding came about.
    """

    text: str
    section: str
    time: float | None = None
    brokers: tuple[int, ...] = ()
    is_fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """One leader epoch of a partition, as it was decided."""

    time: float
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Story:
    """The evidence about the finding's partition.

    Attributes:
        states: The partition's states with their times, oldest first.
        replicas: Of the last snapshot.
        registered: The registrations of all brokers with their times, oldest first.
        unregistered: When each broker's registration ended for the last time, unless the broker
            registered again.
        remote: The partition's segments in the remote tier, in the last snapshot.
        controllers: The brokers that became controller with their times, oldest first.
    """

    loaded: Loaded
    finding: Finding
    states: tuple[tuple[float, PartitionState], ...]
    replicas: tuple[ReplicaView, ...]
    rounds: tuple[AskedRound, ...]
    faults: Sequence[Fault]
    decisions: Decisions
    registered: tuple[tuple[float, BrokerRegistered], ...]
    unregistered: Mapping[int, float]
    controllers: tuple[tuple[float, int], ...]
    remote: tuple[RemoteView, ...]

    @property
    def terms(self) -> tuple[_Term, ...]:
        """The leader epochs with a leader, each as it began."""
        begun: dict[int, _Term] = {}
        for time, state in self.states:
            if state.leader >= 0 and state.leader_epoch not in begun:
                begun[state.leader_epoch] = _Term(
                    time=time,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=tuple(state.isr),
                )
        return tuple(begun.values())

    def term(self, leader_epoch: int) -> _Term | None:
        """The leader of a leader epoch; None if no evidence names it."""
        return next((each for each in self.terms if each.leader_epoch == leader_epoch), None)

    def covers(self, first: int, last: int) -> bool:
        """Whether offsets, both inclusive, overlap those of the finding."""
        return first <= self.finding.last_offset and last >= self.finding.first_offset


def cause_of(
    loaded: Loaded,
    *,
    views: Sequence[PartitionView],
    decisions: Decisions,
    rounds: Sequence[AskedRound],
    faults: Sequence[Fault],
) -> tuple[CauseStep, ...]:
    """What led to the worst safety finding, oldest first; nothing for a run without any.

    Each sentence says what a file of the run holds: a decision, a batch, a question for a leader
    epoch with its answer. A kind of finding that this does not explain, or evidence that is too
    thin, gets the sentence `NOT_KNOWN`, and the finding.
    """
    finding = worst_of(loaded)
    if finding is None:
        return ()
    partition = (finding.topic, finding.partition)
    of_partition = [view for view in views if (view.topic, view.partition) == partition]
    teller = _TELLERS.get(finding.kind)
    needs_offsets = teller in (_differing, _loss, _cut, _tiered, _contradicted)
    if teller is None or not of_partition or (needs_offsets and finding.first_offset < 0):
        return _unexplained(finding)
    story = _Story(
        loaded=loaded,
        finding=finding,
        states=tuple(
            (timed.time, state)
            for timed, state in decisions.states
            if (state.topic, state.partition) == partition
        ),
        replicas=of_partition[-1].replicas,
        rounds=tuple(each for each in rounds if (each.topic, each.partition) == partition),
        faults=faults,
        decisions=decisions,
        registered=tuple(
            (timed.time, timed.event)
            for timed in decisions.events
            if isinstance(timed.event, BrokerRegistered)
        ),
        unregistered=_unregistered(decisions),
        controllers=tuple(
            (timed.time, timed.event.broker)
            for timed in decisions.events
            if isinstance(timed.event, ControllerElected)
        ),
        remote=of_partition[-1].remote,
    )
    steps = _by_time(teller(story))
    # The finding alone is no cause.
    return steps if len(steps) > 1 else _unexplained(finding)


def cause_of_run(loaded: Loaded) -> tuple[CauseStep, ...]:
    """The same, with all that it needs read from the run."""
    return cause_of(
        loaded,
        views=partition_views(loaded),
        decisions=decisions_of(loaded),
        rounds=observed_rounds(loaded),
        faults=faults_of(loaded),
    )


def no_way_back(loaded: Loaded) -> CauseStep | None:
    """From which step on healing everything would not have helped; None without a safety finding.

    The model computed it when the run was judged (`checkers.model.follow.unavoidable`).
    """
    finding = worst_of(loaded)
    if finding is None:
        return None
    prediction = loaded.prediction
    if finding.kind not in _MENDABLE:
        why = "the model computes it only where replicas differ or records are lost"
    elif prediction is None or not prediction.states or prediction.limit or prediction.emptied_by:
        why = "the model did not follow this run to its end"
    else:
        why = "in the model's explanation of this run more than one step may have decided it"
        if prediction.never_rests:
            why = "the model's cluster does not come to rest in a state before, once it is healed"
        for since in prediction.unavoidable:
            is_of_partition = (since.topic, since.partition) == (finding.topic, finding.partition)
            meets = since.first_offset <= finding.last_offset
            meets = meets and finding.first_offset <= since.last_offset
            brokers = {*finding.brokers} if finding.kind in _DIFFERING else set()
            if is_of_partition and meets and {*since.brokers} == brokers:
                return CauseStep(
                    time=since.time,
                    section="time",
                    text=f"From here on healing every fault would not have helped: {since.step}.",
                )
    return CauseStep(
        section="time",
        text=f"The step from which on healing would not have helped is not known: {why}.",
    )


def _unexplained(finding: Finding) -> tuple[CauseStep, ...]:
    known = CauseStep(section="findings", text=f"What is known: {finding.message}.")
    return CauseStep(text=NOT_KNOWN, section="time"), known


def _unregistered(decisions: Decisions) -> Mapping[int, float]:
    ended: dict[int, float] = {}
    for timed in decisions.events:
        if isinstance(timed.event, BrokerUnregistered):
            ended[timed.event.broker] = timed.time
        elif isinstance(timed.event, BrokerRegistered):
            ended.pop(timed.event.broker, None)
    return ended


def _by_time(steps: Iterable[CauseStep]) -> tuple[CauseStep, ...]:
    """The sentences in the order of time; one without a time stays behind the one before it.

    What findings say comes last.
    """
    groups: list[tuple[float, list[CauseStep]]] = []
    for step in steps:
        if step.section == "findings":
            groups.append((float("inf"), [step]))
        elif step.time is not None or not groups:
            groups.append((step.time or float("-inf"), [step]))
        else:
            groups[-1][1].append(step)
    groups.sort(key=lambda group: group[0])
    return tuple(step for _, group in groups for step in group)


def worst_of(loaded: Loaded) -> Finding | None:
    """The safety finding with which the report begins; None for a run without any."""
    unsafe = [each for each in loaded.findings if each.question is Question.SAFETY]
    return worst_first(unsafe)[0] if unsafe else None


def _differing(story: _Story) -> Iterator[CauseStep]:
    """Replicas that differ: who wrote what, what was asked and cut off, who is in sync."""
    written = [*_written_by(story)]
    yield from written
    began = max((step.time for step in written if step.time is not None), default=float("-inf"))
    yield from _taken_from_disk(story)
    followers = _followers(story, began)
    asked = next(_asked_since(story, began, followers), None)
    if asked is None:
        yield from _never_asked(story, followers, began)
        for follower in followers:
            yield from _cut_too_little(story, follower)
            yield from _cut_nothing(story, follower)
    else:
        yield from _answered(story, asked)
    if story.finding.kind == "hole":
        yield from _holes(story)
    since = began if asked is None or asked.time is None else max(began, asked.time)
    yield from _together_in_sync(story, since)


def _written_by(story: _Story) -> Iterator[CauseStep]:
    """Who led while the finding's records were written, or who wrote what names no leader epoch."""
    epochs = sorted(
        {
            batch.leader_epoch
            for replica in story.replicas
            for batch in _batches(replica)
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
            text=f"Broker {term.leader} led in leader epoch {epoch}{_acting(story, term.time)}; "
            f"its records at {_written(story, epoch)}{_uncleanly(story, term)}.",
        )
    if not led or -1 in epochs:
        # Batches of magic 0 and 1 name no leader epoch.
        yield from _appended(story, {*epochs} if led else set())


def _asked_since(story: _Story, began: float, followers: Collection[int]) -> Iterator[AskedRound]:
    """The answered questions of these followers for the end of a leader epoch, in their order."""
    for each in story.rounds:
        if (
            each.is_answered
            and each.time is not None
            and each.time >= began
            and each.follower in followers
            and (each.requested_epoch >= 0 or each.by_fetch)
        ):
            yield each


def _answered(story: _Story, asked: AskedRound) -> Iterator[CauseStep]:
    """A question for the end of a leader epoch, and what its asker kept although it had to go."""
    kept = [*(_kept(story, asked) if asked.end_offset != -1 else ())]
    kept = kept or [*_cut_too_little(story, asked.follower)]
    kept = kept or [*_cut_nothing(story, asked.follower)]
    is_beyond = (asked.end_offset or 0) > story.finding.last_offset
    yield CauseStep(
        time=asked.time,
        section="rounds",
        brokers=(asked.leader, asked.follower),
        is_fatal=story.finding.kind in ("divergence", "hole") and (is_beyond or bool(kept)),
        text=_asked(asked, story),
    )
    yield from kept


def _together_in_sync(story: _Story, since: float) -> Iterator[CauseStep]:
    """When the brokers that differ came to count as in sync, if they did."""
    brokers = set(story.finding.brokers)
    named = brokers_text(sorted(brokers))
    counted = f"{named} counts as in sync" if len(brokers) == 1 else f"{named} count as in sync"
    for time, state in story.states:
        if brokers <= set(state.isr) and time >= since:
            yield CauseStep(
                time=time,
                section="time",
                brokers=(state.leader,),
                text=f"The ISR became {_members(state.isr)}: {counted}.",
            )
            return


def _followers(story: _Story, began: float) -> Sequence[int]:
    """Those of the finding that followed when all came to be in sync again, or else in the end."""
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


def _appended(story: _Story, told: Collection[int]) -> Iterator[CauseStep]:
    """Which leaders appended to the finding's offsets, by what clients were answered.

    Those of the leader epochs that were told already are left out.
    """
    of_term: dict[_Term, list[Operation]] = {}
    for done in story.loaded.evidence.operations:
        is_of_partition = (done.topic, done.partition) == (
            story.finding.topic,
            story.finding.partition,
        )
        if not is_of_partition or done.function != "produce" or done.outcome != "ok":
            continue
        own = _own_term(done, story)
        if own is None or own.leader_epoch in told:
            continue
        if story.covers(done.base_offset, done.last_offset):
            of_term.setdefault(own, []).append(done)
    for own, operations in [*of_term.items()][:_MOST_OPERATIONS]:
        first, last = operations[0], max(each.last_offset for each in operations)
        without = " Its batch names no leader epoch." if told else ""
        yield CauseStep(
            time=first.ended_at or first.invoked_at,
            section="time",
            brokers=(own.leader,),
            text=f"Broker {own.leader} led in leader epoch {own.leader_epoch}, and appended "
            f"what a client sent at {_offsets(first.base_offset, last)}"
            f"{_uncleanly(story, own)}.{without}",
        )


def _cut_too_little(story: _Story, follower: int) -> Iterator[CauseStep]:
    """The last truncation of a follower, if it left the offsets that differ where they were."""
    first, last = story.finding.first_offset, story.finding.last_offset
    cuts = () if story.loaded.prediction is None else story.loaded.prediction.truncations
    replica = (follower, story.finding.topic, story.finding.partition)
    own = [cut for cut in cuts if (cut.broker, cut.topic, cut.partition) == replica]
    for cut in own[-1:]:
        if cut.target_offset > last and story.finding.kind == "divergence":
            is_at_mark = cut.target_offset == cut.high_watermark
            yield CauseStep(
                section="replicas",
                text=f"Broker {follower} truncated its log from {cut.log_end_offset_before} to "
                f"{cut.target_offset}{', its high watermark' if is_at_mark else ''}; "
                f"{_offsets(first, last)} stayed.",
            )


def _cut_nothing(story: _Story, follower: int) -> Iterator[CauseStep]:
    """That a follower truncated nothing in the whole run, where the model explains all of it."""
    prediction, finding = story.loaded.prediction, story.finding
    if prediction is None or not prediction.states or prediction.limit or prediction.emptied_by:
        return
    replica = (follower, finding.topic, finding.partition)
    cuts = [(cut.broker, cut.topic, cut.partition) for cut in prediction.truncations]
    if finding.kind == "divergence" and replica not in cuts:
        yield CauseStep(
            section="replicas",
            text=f"As the model explains the run, broker {follower} truncated nothing; "
            f"{_offsets(finding.first_offset, finding.last_offset)} stayed.",
        )


def _never_asked(story: _Story, followers: Sequence[int], began: float) -> Iterator[CauseStep]:
    """That a follower asked nobody where an epoch ends, in a run in which others did."""
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
                section="rounds",
                text=f"After that broker {broker} asked nobody where a leader epoch ends, and so "
                "truncated nothing by an answer.",
            )


def _loss(story: _Story) -> Iterator[CauseStep]:
    """Promised records that are gone: who acknowledged them, who was elected, what was cut."""
    lost = _named(story.finding.evidence.get("operations"))
    done = [
        each
        for each in story.loaded.evidence.operations
        if (each.topic, each.partition) == (story.finding.topic, story.finding.partition)
        and each.promised
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
        for each in done[:_MOST_OPERATIONS]
    ]
    # A former leader may have acknowledged them after the next election.
    begun = [_own_term(each, story) for each in done]
    since = min((term.time for term in begun if term is not None), default=ended)
    later = [term for term in story.terms if term.time > min(since, ended) and term not in begun]
    acknowledged_by = {each.broker for each in done}
    others = [term for term in later if term.leader not in acknowledged_by]
    # With more than one election the evidence does not say at which the records were lost.
    decided = others if len(others) == 1 and not _lost_on_disk(story) else []
    cuts = () if story.loaded.prediction is None else story.loaded.prediction.truncations
    cut_off = [
        cut
        for cut in cuts
        if (cut.topic, cut.partition) == (story.finding.topic, story.finding.partition)
        and cut.target_offset <= story.finding.last_offset < cut.log_end_offset_before
    ][:_MOST_CUTS]
    besides = [*_taken_from_disk(story), *_joined_later(story, others, ended)]
    # Where not all have room, unclean elections come first.
    others_told = len(promised) + len(cut_off) + len(besides)
    room = max(1, min(_MOST_ELECTIONS, _MOST_STEPS - 1 - others_told))
    told = sorted(later, key=lambda term: not _uncleanly(story, term))[:room]
    elections = [_elected(story, term, is_fatal=term in decided) for term in told]
    # What has no time of its own stays behind the last of these.
    yield from sorted([*promised, *besides, *elections], key=lambda step: step.time or 0.0)
    for cut in cut_off:
        yield CauseStep(
            section="replicas",
            text=f"Broker {cut.broker} truncated its log from {cut.log_end_offset_before} to "
            f"{cut.target_offset}: the records left it then.",
        )
    yield _left_of(story)


def _left_of(story: _Story) -> CauseStep:
    """What the replicas have in the end at the offsets of what is lost."""
    first, last = story.finding.first_offset, story.finding.last_offset
    offsets = _offsets(first, last)
    holders = {
        replica.broker
        for replica in story.replicas
        if any(
            batch.base_offset <= last and batch.last_offset >= first for batch in _batches(replica)
        )
    }
    kept = holders - _brokers(story.finding.evidence.get("held_instead"))
    held = [f"batches at {offsets} are on {brokers_text(sorted(kept))}"] if kept else []
    if holders - kept:
        held.append(f"{brokers_text(sorted(holders - kept))} hold other records at {offsets}")
    return CauseStep(
        section="replicas",
        text=f"In the end no in-sync replica has these records; {', and '.join(held)}."
        if held
        else f"In the end no replica has a record at {offsets}.",
    )


def _taken_from_disk(story: _Story) -> Iterator[CauseStep]:
    """What a fault took of the finding's offsets from the end of a log."""
    partition = (story.finding.topic, story.finding.partition)
    for timed in story.loaded.evidence.events:
        lost = timed.event
        if not isinstance(lost, LoseTail) or (lost.topic, lost.partition) != partition:
            continue
        if lost.log_end_offset <= story.finding.last_offset:
            yield CauseStep(
                time=timed.time,
                section="time",
                brokers=(lost.broker,),
                text=f"The fault LoseTail took the end of broker {lost.broker}'s log, from offset "
                f"{lost.log_end_offset} on.",
            )


def _joined_later(
    story: _Story, elected: Sequence[_Term], promised_at: float
) -> Iterator[CauseStep]:
    """How the first of later leaders came into the ISR, if that was after the promise."""
    for term in elected:
        members = [(time, state) for time, state in story.states if time < term.time]
        before = [state for time, state in members if time <= promised_at]
        if not before or term.leader in before[-1].isr or _uncleanly(story, term):
            continue
        joined = [
            (time, state)
            for time, state in members
            if time > promised_at and term.leader in state.isr
        ]
        for time, state in joined[:1]:
            yield CauseStep(
                time=time,
                section="time",
                brokers=(term.leader,),
                text=f"Broker {term.leader} came into the ISR only after that: it became "
                f"{_members(state.isr)}{_acting(story, time)}.",
            )
            return


def _stopped(story: _Story) -> Iterator[CauseStep]:
    """Replication that does not go on: who leads, what was answered, what a broker's log says."""
    concerned = _concerned(story)
    # The election with which a partition begins led to nothing.
    terms = [term for term in story.terms if term.leader_epoch > 0][-2:]
    began = terms[0].time if terms else float("-inf")
    asked = [
        each
        for each in story.rounds
        if each.is_answered
        and each.follower in concerned
        and each.requested_epoch >= 0
        and (each.time or began) >= began
    ]
    steps = [
        *_made_again(story),
        *_obeyed_before(story, concerned),
        *_asked_again(story, asked),
        *_rebuilt(story),
        *_not_registered(story, concerned),
        *_not_accepted(story, concerned),
        *_isr_not_changed(story, concerned),
        *_logged(story, concerned),
        *_dropped(story),
    ]
    steps.append(_said(story.finding))
    # Where not all have room, what was only decided is left out first.
    room = max(0, _MOST_STEPS - len(steps))
    yield from [_elected(story, term) for term in terms[len(terms) - min(room, len(terms)) :]]
    yield from steps


def _offline(story: _Story) -> Iterator[CauseStep]:
    """A partition without a leader, or with one that does not know that it leads."""
    concerned = _concerned(story)
    unaware = [
        each
        for each in story.loaded.findings
        if each.kind == "generation-not-initialised" and set(each.brokers) & set(concerned)
    ]
    if not unaware:
        yield from _stopped(story)
        return
    time, state = story.states[-1]
    yield CauseStep(
        time=time,
        section="time",
        brokers=(state.leader,),
        text=f"Broker {state.leader} is the leader by the last decision, in leader epoch "
        f"{state.leader_epoch}, with ISR {_members(state.isr)}.",
    )
    yield from _untold(story, unaware[0])


def _concerned(story: _Story) -> Sequence[int]:
    """The brokers of which something may be told of a partition that does not go on.

    Besides those of the finding, these are the ISR where its leader waits for them. Where the
    finding names nobody, they are the replicas outside the ISR, or the last leader.
    """
    if not story.states:
        return story.finding.brokers
    last = story.states[-1][1]
    named: Sequence[int] = story.finding.brokers
    if not named and story.finding.kind == "under-min-isr":
        named = sorted({each.broker for each in story.replicas} - set(last.isr))
    elif not named:
        named = (last.leader,) if last.leader >= 0 else ()
    return tuple(dict.fromkeys((*named, *(last.isr if last.leader in named else ()))))


def _made_again(story: _Story) -> Iterator[CauseStep]:
    """That the topic was deleted, and that one of its name was made later."""
    deletions = story.loaded.evidence.deletions.get(story.finding.topic, ())
    for deletion in deletions[-1:]:
        if any(time > deletion.time for time, _state in story.states):
            yield CauseStep(
                time=deletion.time,
                section="time",
                text=f"Topic {story.finding.topic} was deleted{_acting(story, deletion.time)}. It "
                "was made again later.",
            )


def _obeyed_before(story: _Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """A late request about the partition that one of its brokers, or its controller, obeyed."""
    partition = (story.finding.topic, story.finding.partition)
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
        yield from _obeyed_late(story, request, is_fatal=request.api == "StopReplica")


def _isr_not_changed(story: _Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """The last change of the ISR that the last leader asked its controller for, if none came."""
    if not story.states or set(concerned) <= set(story.states[-1][1].isr):
        return
    partition = TopicPartition(story.finding.topic, story.finding.partition)
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
        text=f"Leader {state.leader} asked its controller for ISR {_members(wanted.isr)} in leader "
        f"epoch {wanted.leader_epoch}; the controller {answer}. It has not asked again.",
    )


def _answer_of(message: LinkMessage, partition: TopicPartition) -> str:
    """What an answer to AlterPartition says of a partition, in words."""
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


def _logged(story: _Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """What a broker's own log says when it gives the partition's replica up."""
    told = [
        each
        for each in story.loaded.findings
        if each.kind in ("fetcher-ended", "thread-ended") and set(each.brokers) & set(concerned)
    ]
    if told:
        yield _said(told[0])
        return
    topic, number = story.finding.topic, story.finding.partition
    name = f"(?:{re.escape(f'{topic}-{number}')}|{re.escape(f'[{topic},{number}]')})"
    wanted = re.compile("|".join(words.format(name=name) for words in _OWN_WORDS))
    for broker in concerned:
        lines = [
            match.group().strip()
            for line in story.loaded.evidence.server_logs.get(broker, ())
            if (match := wanted.search(line))
        ]
        if lines:
            yield CauseStep(
                section="brokers",
                brokers=(broker,),
                is_fatal=True,
                text=f'Broker {broker} says in its own log: "{lines[-1]}".',
            )


def _dropped(story: _Story) -> Iterator[CauseStep]:
    """Followers that left the ISR while they waited for their leader."""
    if not story.finding.evidence.get("dropped"):
        return
    partition = TopicPartition(story.finding.topic, story.finding.partition)
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
            f"leader {drop.leader} to read its fetch{_acting(story, drop.dropped_at)}. It left the "
            f"ISR{back}.",
        )


def _asked_again(story: _Story, asked: Sequence[AskedRound]) -> Iterator[CauseStep]:
    """The last questions; those that are alike and follow each other are one."""
    alike: list[list[AskedRound]] = []
    for each in asked:
        if alike and _asked(alike[-1][0], story) == _asked(each, story):
            alike[-1].append(each)
        else:
            alike.append([each])
    for same in alike[-_MOST_ROUNDS:]:
        again = f" This came {len(same)} times." if len(same) > 1 else ""
        yield CauseStep(
            time=same[0].time,
            section="rounds",
            brokers=(same[0].leader, same[0].follower),
            is_fatal=len(same) > 1,
            text=f"{_asked(same[0], story)}{again}",
        )
        yield from _unknown_to_the_follower(story, same)


def _unknown_to_the_follower(story: _Story, same: Sequence[AskedRound]) -> Iterator[CauseStep]:
    """That no truncation can come of an answer that comes again and again."""
    answer = same[0]
    log = [
        batch
        for replica in story.replicas
        if replica.broker == answer.follower
        for batch in _batches(replica)
    ]
    end = log[-1].last_offset + 1 if log else 0
    known = {batch.leader_epoch for batch in log}
    if len(same) > 1 and answer.answered_epoch not in known and end <= (answer.end_offset or 0):
        yield CauseStep(
            section="replicas",
            text=f"The log of broker {answer.follower} ends at {end} and has no record of leader "
            f"epoch {answer.answered_epoch}, so it could truncate nothing by that answer.",
        )


def _not_registered(story: _Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """A broker whose registration ended and whose process went on."""
    processes: dict[int, object] = {}
    for line in story.loaded.evidence.observed:
        broker = line.detail.get("broker")
        if line.kind == "broker" and isinstance(broker, int):
            processes[broker] = line.detail.get("pid")
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
                f"{broker} ended{_acting(story, ended)}. Its process ran on, and it never "
                "registered again.",
            )


def _not_accepted(story: _Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """A leader or a follower that never accepted the last leader epoch, and what it answered."""
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
        if own is None or own.leader_epoch >= last.leader_epoch or broker in story.unregistered:
            continue
        time, text = (
            last.time,
            f"No LeaderAndIsr of leader epoch {last.leader_epoch} was answered by broker {broker}",
        )
        if broker in refused:
            time, request, error = refused[broker]
            text = (
                f"Broker {broker} refused the LeaderAndIsr of leader epoch {last.leader_epoch} "
                f"from controller {request.controller} ({error_name(error)})"
            )
        yield CauseStep(
            time=time,
            section="brokers",
            brokers=(broker,),
            is_fatal=broker == last.leader or broker in refused,
            text=f"{text}; the last that it accepted was of leader epoch {own.leader_epoch}, with "
            f"ISR {_members(own.isr)}.",
        )


def _leader_and_isr(story: _Story) -> Iterator[tuple[float, ControlSent, PartitionState, int]]:
    """Yields each answered LeaderAndIsr about the partition, with the error of its answer."""
    partition = TopicPartition(story.finding.topic, story.finding.partition)
    sent: dict[object, tuple[ControlSent, PartitionState]] = {}
    for message in story.loaded.evidence.links or ():
        said = message.said
        if isinstance(said, ControlSent):
            for state in said.states:
                if (state.topic, state.partition) == partition:
                    sent[said.number, said.api, said.broker] = (said, state)
        elif isinstance(said, ControlAnswered):
            number = (said.number, said.api, said.broker)
            if number in sent:
                error = said.error_code or said.errors.get(partition, 0)
                yield message.wall_time_s, *sent[number], error


def _tiered(story: _Story) -> Iterator[CauseStep]:
    """Records that readers do not get from a broker: what it rebuilt, what is remote and local."""
    rebuilt = [*_rebuilt(story)]
    yield from rebuilt
    since = rebuilt[0].time or 0.0 if rebuilt else 0.0
    own = [term for term in story.terms if term.leader in story.finding.brokers]
    for term in own[-1:]:
        if term.time > since:
            yield _elected(story, term)
    readings = [
        reading
        for reading in story.loaded.evidence.tier_readings
        if (reading.topic, reading.partition) == (story.finding.topic, story.finding.partition)
        and reading.broker in story.finding.brokers
    ]
    at_the_end = readings[-1].time if readings else None
    yield _remote(story, at_the_end)
    for reading in readings[-1:]:
        yield from _local(story, reading)
        yield from _read(story, reading)


def _rebuilt(story: _Story) -> Iterator[CauseStep]:
    """Whether a broker of the finding was sent to the remote tier, and what its log says of it."""
    partition = TopicPartition(story.finding.topic, story.finding.partition)
    sent = [
        (message.wall_time_s, message.said)
        for message in story.loaded.evidence.links or ()
        if isinstance(message.said, Reply)
        and message.said.follower in story.finding.brokers
        and partition in message.said.partitions
        and message.said.partitions[partition].error_code
        == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    ]
    if not sent:
        return
    time, reply = sent[0]
    again = f" This came {len(sent)} times." if len(sent) > 1 else ""
    yield CauseStep(
        time=time,
        section="brokers",
        brokers=(reply.source, reply.follower),
        text=f"Broker {reply.follower} fetched from broker {reply.source}, which answered that the "
        f"offset is in the remote tier (OFFSET_MOVED_TO_TIERED_STORAGE).{again}",
    )
    log = story.loaded.evidence.server_logs.get(reply.follower, ())
    named = f"Topic: {partition.topic}; Partition: {partition.partition};"
    ended = [line for line in log if _REBUILT.search(line) and named in line]
    failed = [line for line in log if _NOT_REBUILT.search(line) and f"{partition.name}," in line]
    if ended:
        (offset,) = _REBUILT.findall(ended[-1])
        yield CauseStep(
            section="brokers",
            text=f"Broker {reply.follower} then took its leader epochs from the remote tier, up to "
            f"offset {offset}, and fetched from there on.",
        )
    elif failed:
        (why,) = _NOT_REBUILT.findall(failed[-1])
        yield CauseStep(
            section="brokers",
            text=f"Broker {reply.follower} could not rebuild its log from the remote tier: its own "
            f'log says "{why}".',
        )


def _remote(story: _Story, time: float | None) -> CauseStep:
    """Which segments of the remote tier have the finding's offsets at the end."""
    first, last = story.finding.first_offset, story.finding.last_offset
    holding = [
        segment
        for segment in story.remote
        if segment.start_offset <= last and segment.end_offset >= first
    ]
    told = [
        f"{_offsets(segment.start_offset, segment.end_offset)} from broker {segment.broker}"
        f"{_epochs(segment) if story.finding.kind == 'tier-other-lineage' else ''}"
        f"{'' if segment.state == 'COPY_SEGMENT_FINISHED' else ', a copy that did not end'}"
        for segment in holding
    ]
    return CauseStep(
        time=time,
        section="replicas",
        text=f"The remote tier has {_listed(told)}."
        if told
        else f"The remote tier has no segment with {_offsets(first, last)}.",
    )


def _epochs(segment: RemoteView) -> str:
    epochs = [str(leader_epoch) for leader_epoch, _start_offset in segment.leader_epochs]
    return f" in leader epoch {_listed(epochs)}" if epochs else ""


def _local(story: _Story, reading: TierReading) -> Iterator[CauseStep]:
    """Where a broker says that its local log begins, if its first batch lies behind that."""
    log = [
        batch
        for replica in story.replicas
        if replica.broker == reading.broker
        for batch in _batches(replica)
    ]
    if log and 0 <= reading.local_start_offset < log[0].base_offset:
        yield CauseStep(
            time=reading.time,
            section="replicas",
            brokers=(reading.broker,),
            is_fatal=reading.local_start_offset <= story.finding.first_offset < log[0].base_offset,
            text=f"Broker {reading.broker} says that its local log begins at "
            f"{reading.local_start_offset}, but its first local batch is at {log[0].base_offset}. "
            "What lies between it seeks locally, and not in the remote tier.",
        )


def _read(story: _Story, reading: TierReading) -> Iterator[CauseStep]:
    """What the last reader of a broker got at the finding's offsets."""
    first, last = story.finding.first_offset, story.finding.last_offset
    errors = {
        fetch.error_code
        for fetch in reading.fetches
        if first <= fetch.offset <= last and fetch.error_code
    }
    got = "nothing"
    if story.finding.kind == "tier-other-lineage":
        got = "other records than its log has there"
    elif errors:
        got = _listed(sorted(error_name(code) for code in errors))
    text = (
        f"At the end a reader asked broker {reading.broker}, the {reading.source}, for "
        f"{_offsets(first, last)}, and got {got}."
    )
    yield CauseStep(time=reading.time, section="replicas", brokers=(reading.broker,), text=text)


def _listed(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def _named(operations: object) -> set[str]:
    """The operations that a finding names; what has another form is passed over."""
    given = operations if isinstance(operations, list | tuple) else ()
    names = [each.get("operation") for each in given if isinstance(each, Mapping)]
    return {name for name in names if isinstance(name, str)}


def _brokers(by_broker: object) -> set[int]:
    """The brokers by which a finding's evidence is told, likewise."""
    given = by_broker if isinstance(by_broker, Mapping) else ()
    return {int(broker) for broker in given if str(broker).isdecimal()}


def _own_term(done: Operation, story: _Story) -> _Term | None:
    """The last leader epoch that the broker of an operation led until the operation ended."""
    ended = done.ended_at or done.invoked_at
    own = [term for term in story.terms if term.leader == done.broker and term.time <= ended]
    return own[-1] if own else None


def _transaction(story: _Story) -> Iterator[CauseStep]:
    """A transaction that ended otherwise than its client was told: its batch, markers and end."""
    finding, evidence = story.finding, story.loaded.evidence
    named = finding.evidence.get("operation")
    written = next((each for each in evidence.operations if each.operation == named), None)
    if written is None or written.producer is None or evidence.clients is None:
        return
    producer = written.producer.producer_id
    partition = (finding.topic, finding.partition)
    markers = [
        marker
        for marker in evidence.markers or ()
        if (marker.topic, marker.partition) == partition and marker.producer_id == producer
    ]
    ends = [
        (asked, answer)
        for asked, answer in exchanges(evidence.clients.lines)
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
        f"{_offsets(written.base_offset, written.last_offset)} in a transaction of producer "
        f"{producer}, and appended that.",
    )
    for marker in markers[-_MOST_ROUNDS:]:
        is_unasked = not any(asked.time < marker.asked_at for asked, _answer in ends)
        by_itself = " No client had asked for that." if is_unasked else ""
        yield CauseStep(
            time=marker.answered_at or marker.asked_at,
            section="time",
            brokers=(marker.broker,),
            is_fatal=is_unasked,
            text=f"The coordinator had broker {marker.broker} write a marker that "
            f"{'commits' if marker.is_commit else 'aborts'} the transaction of producer "
            f"{producer}.{by_itself}",
        )
    for asked, answer in ends[-_MOST_ROUNDS:]:
        told = "got no answer" if answer is None else "was told that it would be so"
        if answer is not None and answer.error_code:
            told = f"was answered {error_name(answer.error_code)}"
        yield CauseStep(
            time=asked.time,
            section="time",
            brokers=(asked.broker,),
            text=f"The client asked its coordinator, broker {asked.broker}, to "
            f"{'commit' if asked.committed else 'abort'} the transaction, and {told}.",
        )
    yield _said(finding)


def _lost_on_disk(story: _Story) -> bool:
    """Whether a fault took something from a disk."""
    acts = [line.detail.get("act") for line in story.loaded.evidence.observed]
    return bool({"LoseTail", "WipeLogDirectory"} & {*acts})


def _cut(story: _Story) -> Iterator[CauseStep]:
    """Records that a replica cut off below a high watermark: who was elected, asked and cut."""
    finding = story.finding
    for term in story.terms[-2:]:
        yield _elected(story, term)
    answers = [
        each
        for each in story.rounds
        if each.is_answered
        and each.follower in finding.brokers
        and (each.end_offset or 0) <= finding.last_offset
        and (each.requested_epoch >= 0 or each.by_fetch)
    ]
    for each in answers[-1:]:
        yield CauseStep(
            time=each.time,
            section="rounds",
            brokers=(each.leader, each.follower),
            is_fatal=True,
            text=_asked(each, story),
        )
    cuts = () if story.loaded.prediction is None else story.loaded.prediction.truncations
    for cut in cuts:
        is_of_partition = (cut.topic, cut.partition) == (finding.topic, finding.partition)
        reaches = cut.target_offset <= finding.last_offset < cut.log_end_offset_before
        if is_of_partition and reaches and cut.broker in finding.brokers:
            yield CauseStep(
                section="replicas",
                text=f"Broker {cut.broker} truncated its log from {cut.log_end_offset_before} to "
                f"{cut.target_offset}; its high watermark was {cut.high_watermark}.",
            )
    yield _said(finding)


def _contradicted(story: _Story) -> Iterator[CauseStep]:
    """Batches that an epoch cache contradicts: the entry of a term without records, kept too long.

    The entry of the next batch takes its place, and with it that of an epoch that has records.
    """
    finding = story.finding
    partition = TopicPartition(finding.topic, finding.partition)
    for broker in finding.brokers[:1]:
        log = story.loaded.evidence.server_logs.get(broker, ())
        replaced = [
            each
            for each in replaced_entries(log, partition)
            if any(story.covers(gone.start_offset, gone.start_offset) for gone in each.removed)
        ]
        for each in replaced[-1:]:
            yield from _term_without_records(story, broker, each)
            gone = [
                f"leader epoch {old.leader_epoch} at {old.start_offset}" for old in each.removed
            ]
            yield CauseStep(
                section="brokers",
                is_fatal=True,
                text=f"The next batch of its log is of leader epoch {each.entry.leader_epoch}, at "
                f"offset {each.entry.start_offset}. Its entry took the place of {_listed(gone)}.",
            )
    yield _would_answer(story)


def _would_answer(story: _Story) -> CauseStep:
    """What the finding says, and what a follower would be answered by that cache."""
    first, last = story.finding.first_offset, story.finding.last_offset
    said = _said(story.finding)
    entries = [
        entry
        for replica in story.replicas
        if replica.broker in story.finding.brokers and replica.on_disk is not None
        for entry in replica.on_disk.epoch_entries or ()
    ]
    before = [leader_epoch for leader_epoch, start_offset in entries if start_offset <= first]
    after = [start_offset for _leader_epoch, start_offset in entries if start_offset > last]
    if not before or not after:
        return said
    asked = f"Where leader epoch {before[-1]} ends, that broker would answer"
    return replace(said, text=f"{said.text} {asked} {after[0]}, and not {first}.")


def _term_without_records(story: _Story, broker: int, replaced: Replaced) -> Iterator[CauseStep]:
    """That a broker led without a record, and how the entry of that term outlived the term."""
    written = {batch.leader_epoch for replica in story.replicas for batch in _batches(replica)}
    for entry in replaced.removed:
        term = story.term(entry.leader_epoch)
        if term is None or term.leader != broker or entry.leader_epoch in written:
            continue
        yield CauseStep(
            time=term.time,
            section="time",
            brokers=(broker,),
            text=f"Broker {broker} was elected in leader epoch {entry.leader_epoch}"
            f"{_acting(story, term.time)}. Its cache has the epoch from offset "
            f"{entry.start_offset} on, and no replica has a record of it.",
        )
        asked = [
            each
            for each in story.rounds
            if each.is_answered
            and each.follower == broker
            and each.requested_epoch == entry.leader_epoch
        ]
        for each in asked[:1]:
            yield CauseStep(
                time=each.time,
                section="rounds",
                brokers=(each.leader, each.follower),
                text=_asked(each, story),
            )
        if replaced.cut_nothing_at == entry.start_offset:
            yield CauseStep(
                section="brokers",
                text=f"Its log ended at {entry.start_offset}, so it truncated nothing, and the "
                f"entry of leader epoch {entry.leader_epoch} stayed. From "
                f"{KAFKA_10706.since[0]} on Kafka drops it (KAFKA-10706).",
            )


def _obeyed(story: _Story) -> Iterator[CauseStep]:
    """A request to an earlier generation: which one it was made for, and which one got it."""
    partition = TopicPartition(story.finding.topic, story.finding.partition)
    accepted = [
        request
        for request in story.loaded.evidence.control or ()
        if request.is_late
        and request.target in story.finding.brokers
        and not request.error_for(partition)
    ]
    for request in accepted[:1]:
        yield from _obeyed_late(story, request, is_fatal=True)


def _obeyed_late(story: _Story, request: ControlRequest, *, is_fatal: bool) -> Iterator[CauseStep]:
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


def _untold(story: _Story, finding: Finding | None = None) -> Iterator[CauseStep]:
    """A broker that nobody told of its replicas: when it registered, and what did not come."""
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
            text=f"Broker {registered.broker} registered as generation {registered.czxid}"
            f"{_acting(story, time)}.",
        )
    yield _said(finding)


def _said(finding: Finding) -> CauseStep:
    return CauseStep(
        section="findings", text=f"{finding.message[:1].upper()}{finding.message[1:]}."
    )


def _uncleanly(story: _Story, term: _Term) -> str:
    """That the leader of a leader epoch was neither in the ISR nor eligible; "" if it was."""
    before = [state for time, state in story.states if time < term.time]
    if not story.decisions.is_kraft:
        # Before KIP-101 a partition without a leader was written with an empty ISR.
        before = [state for state in before if state.isr]
    if not before:
        return ""
    eligible = story.decisions.eligible(before[-1])
    if term.leader in (*before[-1].isr, *eligible):
        return ""
    besides = f", nor eligible as {_members(eligible)} were," if eligible else ""
    return (
        f". It was not in the ISR {_members(before[-1].isr)}{besides} before: the election was "
        "unclean"
    )


def _elected(story: _Story, term: _Term, *, is_fatal: bool = False) -> CauseStep:
    return CauseStep(
        time=term.time,
        section="time",
        brokers=(term.leader,),
        is_fatal=is_fatal,
        text=f"Broker {term.leader} was elected in leader epoch {term.leader_epoch}, with "
        f"ISR {_members(term.isr)}{_acting(story, term.time)}{_uncleanly(story, term)}.",
    )


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _members(isr: Iterable[int]) -> str:
    return f"[{', '.join(map(str, isr))}]"


def _written(story: _Story, epoch: int) -> str:
    """Which offsets of a leader epoch the replicas hold, and who has them."""
    of_epoch = [
        (replica.broker, batch)
        for replica in story.replicas
        for batch in _batches(replica)
        if batch.leader_epoch == epoch and story.covers(batch.base_offset, batch.last_offset)
    ]
    first = min(batch.base_offset for _broker, batch in of_epoch)
    last = max(batch.last_offset for _broker, batch in of_epoch)
    holders = sorted({broker for broker, _batch in of_epoch})
    offsets = _offsets(first, last)
    alone = " alone" if len(holders) == 1 else ""
    return f"{offsets} are on {brokers_text(holders)}{alone}"


def _acting(story: _Story, time: float) -> str:
    """Which faults acted at a time, those on the brokers of the finding first."""
    acting = [
        (fault.what.partition("(")[0], _brokers_of(fault))
        for fault in story.faults
        if fault.lasts and fault.injected <= time <= (fault.healed or float("inf"))
    ]
    acting.sort(key=lambda fault: not set(story.finding.brokers) & set(fault[1]))
    names = [
        *dict.fromkeys(
            f"{name} on {brokers_text(brokers)}" if brokers else name for name, brokers in acting
        )
    ]
    if len(names) > _MOST_FAULTS:
        names[_MOST_FAULTS - 1 :] = [f"{len(names) - _MOST_FAULTS + 1} other faults"]
    return f", while {_listed(names)} acted" if names else ""


def _brokers_of(fault: Fault) -> Sequence[int]:
    """Those that a fault was aimed at."""
    return sorted({int(broker) for broker in _AIMED_AT.findall(fault.what)})


def _asked(each: AskedRound, story: _Story) -> str:
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
        return f"{asked}; broker {each.leader} answered {each.end_offset}{_beyond(each, story)}."
    return f"{asked}; broker {each.leader} answered that {end}."


def _beyond(each: AskedRound, story: _Story) -> str:
    """Why an answer is the start of another leader epoch, if the leader's log shows it."""
    log = [
        batch
        for replica in story.replicas
        if replica.broker == each.leader
        for batch in _batches(replica)
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


def _kept(story: _Story, asked: AskedRound) -> Iterator[CauseStep]:
    """What the follower cut off after the answer, by the prediction, or what it still has."""
    first, last = story.finding.first_offset, story.finding.last_offset
    answer = asked.end_offset or 0
    stays = answer > last and story.finding.kind == "divergence"
    cuts = () if story.loaded.prediction is None else story.loaded.prediction.truncations
    for cut in cuts:
        cut_to = (cut.broker, cut.topic, cut.partition, cut.target_offset)
        if cut_to == (asked.follower, asked.topic, asked.partition, answer):
            yield CauseStep(
                section="replicas",
                text=f"Broker {cut.broker} truncated its log from {cut.log_end_offset_before} to "
                f"{answer}{f'; {_offsets(first, last)} stayed' if stays else ''}.",
            )
            return
    if stays:
        yield CauseStep(
            section="replicas",
            text=f"Broker {asked.follower} kept its records from {first} on, since {answer} lies "
            "after the offsets that differ.",
        )


def _holes(story: _Story) -> Iterator[CauseStep]:
    """Where the log of a broker goes on after its hole."""
    for replica in story.replicas:
        later = [each for each in _batches(replica) if each.base_offset > story.finding.last_offset]
        if replica.broker in story.finding.brokers and later:
            yield CauseStep(
                section="replicas",
                text=f"Broker {replica.broker} has no batch at {story.finding.first_offset} to "
                f"{story.finding.last_offset}; its next batch begins at {later[0].base_offset}, "
                f"in leader epoch {later[0].leader_epoch}.",
            )


def _promised(done: Operation, story: _Story) -> str:
    offsets = _offsets(done.base_offset, done.last_offset)
    if done.function == "read":
        return f"A client read {offsets} from broker {done.broker}, below the high watermark."
    ended = done.ended_at or done.invoked_at
    decided = [state for time, state in story.states if time <= ended]
    acknowledged = f"Broker {done.broker} acknowledged {offsets} with acks=all"
    if not decided:
        return f"{acknowledged}."
    now, own = decided[-1], _own_term(done, story)
    isr = f"the ISR was {_members(now.isr)}"
    if own is None or now.leader == done.broker:
        return f"{acknowledged}; {isr}."
    leader = "without a leader" if now.leader < 0 else f"with leader {now.leader}"
    return (
        f"{acknowledged}, as leader of leader epoch {own.leader_epoch}. Leader epoch "
        f"{now.leader_epoch} had begun {leader}; {isr}."
    )


def _batches(replica: ReplicaView) -> tuple[Batch, ...]:
    return () if replica.on_disk is None else replica.on_disk.batches


_DIFFERING = ("divergence", "hole", "missing-tail")
_MENDABLE = (*_DIFFERING, "committed-loss", "last-replica-loss")
_TELLERS: Mapping[str, Callable[[_Story], Iterator[CauseStep]]] = {
    "committed-loss": _loss,
    "stale-request-accepted": _obeyed,
    "epoch-cache-mismatch": _contradicted,
    "generation-not-initialised": _untold,
    **dict.fromkeys(("truncated-below-high-watermark", "high-watermark-regression"), _cut),
    "last-replica-loss": _loss,
    **dict.fromkeys(("tier-unreadable", "tier-other-lineage", "tier-orphan"), _tiered),
    **dict.fromkeys(_DIFFERING, _differing),
    "offline-partition": _offline,
    **dict.fromkeys(
        ("hanging-transaction", "committed-as-aborted", "aborted-as-committed"), _transaction
    ),
    **dict.fromkeys(
        (
            *("replication-stopped", "fetch-loop", "fetcher-ended"),
            *("under-min-isr", "out-of-sync"),
        ),
        _stopped,
    ),
}
