"""A partition that does not go on: no leader, or replication that has stopped."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.findings import Finding
from kchaos.harness.report.cause.control_requests import not_accepted, obeyed_before
from kchaos.harness.report.cause.elections import election_step
from kchaos.harness.report.cause.epoch_questions import beyond, repeated_questions
from kchaos.harness.report.cause.isr_changes import dropped, isr_not_changed
from kchaos.harness.report.cause.registrations import not_registered, uninformed_broker
from kchaos.harness.report.cause.story import MOST_STEPS, CauseStep, Story
from kchaos.harness.report.cause.tiers import rebuilt_from_tier
from kchaos.harness.report.cause.topics import made_again
from kchaos.harness.report.cause.wording import acting_text, finding_step, isr_text, logged_at

_OWN_WORDS = (
    r"Exiting because log truncation is not allowed for partition {name}\b[^(]*",
    r"Unable to start fetching {name} with topic ID [^(]*",
    r"Error while processing LeaderAndIsr request [^(]*for partition {name}\b",
)
"""Log line of a broker that gives a replica up: ReplicaFetcherThread.handleOffsetOutOfRange up to
1.1, AbstractFetcherThread, StateChangeLogger's lines of ReplicaManager."""


_UNREAD = re.compile(
    r"Error getting request for apiKey: (LEADER_AND_ISR|UPDATE_METADATA|STOP_REPLICA), "
    r"apiVersion: (\d+)"
)
"""Log line about a controller's request in a version that the broker does not know (RequestContext.
parseRequest, 1.0.0 to 3.8.0); it closes the connection then."""


def stopped_replication(story: Story) -> Iterator[CauseStep]:
    """Yield why replication stopped: leader, responses, and the broker's log."""
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
        *made_again(story, concerned),
        *_moved(story),
        *obeyed_before(story, concerned),
        *repeated_questions(story, asked),
        *rebuilt_from_tier(story),
        *not_registered(story, concerned),
        *_unaware(story, concerned),
        *not_accepted(story, concerned),
        *isr_not_changed(story, concerned),
        *_unread(story, concerned),
        *_logged(story, concerned),
        *dropped(story),
    ]
    if not any(step.is_fatal for step in steps):
        steps = [*_ended_by_an_answer(story, asked, steps)]
    # A loop whose beginning nothing else explains is decided by the answers that it goes round on.
    is_loop = story.finding.kind == "fetch-loop" and not any(step.is_fatal for step in steps)
    began_at = story.finding.evidence.get("from")
    time = began_at if isinstance(began_at, float) and is_loop else None
    steps.append(replace(finding_step(story.finding), is_fatal=is_loop, time=time))
    # Where not all have room, what was only decided is left out first.
    room = max(0, MOST_STEPS - len(steps))
    yield from [election_step(story, term) for term in terms[len(terms) - min(room, len(terms)) :]]
    yield from steps


def _ended_by_an_answer(
    story: Story, asked: Sequence[AskedRound], steps: Sequence[CauseStep]
) -> Iterator[CauseStep]:
    """Yield the steps; the last answer with the start of another epoch decides, or a dead thread.

    A follower keeps what lies below such an answer, and its thread ends by what it fetches next.
    """
    answers = {each.time for each in asked if beyond(each, story)}
    last = max((step.time for step in steps if step.time in answers and step.time), default=None)
    for step in steps:
        is_last = step.section == "rounds" and step.time == last
        yield replace(step, is_fatal=is_last if last else step.section == "brokers")


def offline_partition(story: Story) -> Iterator[CauseStep]:
    """Yield a partition without a leader, or with one that does not know of its leadership."""
    concerned = _concerned(story)
    unaware = [*_unaware(story, concerned)]
    if not unaware:
        yield from stopped_replication(story)
        return
    time, state = story.states[-1]
    yield CauseStep(
        time=time,
        section="time",
        brokers=(state.leader,),
        text=f"Broker {state.leader} is the leader by the last decision, in leader epoch "
        f"{state.leader_epoch}, with ISR {isr_text(state.isr)}.",
    )
    yield from unaware


def _unaware(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a replica's broker that no request informed of it, of the first finding of one."""
    replicas = {*concerned, *(each.broker for each in story.replicas)}
    for finding in story.loaded.findings:
        is_of_partition = (finding.topic, finding.partition) == story.partition
        is_named = is_of_partition and {*finding.brokers} & replicas
        if finding.kind == "generation-not-initialised" and is_named and story.states:
            yield from uninformed_broker(story, finding)
            last = story.states[-1][1]
            if last.leader < 0 or last.leader in finding.brokers:
                return
            isr = f"the ISR {isr_text(last.isr)}"
            waits = f"is in {isr}, so writes with acks=all wait for it"
            joins = f"so it does not come into {isr}"
            yield CauseStep(
                section="time",
                brokers=(last.leader,),
                text=f"Broker {finding.brokers[0]} fetches nothing"
                f"{f' and {waits}' if finding.brokers[0] in last.isr else f', {joins}'}.",
            )
            return


def _concerned(story: Story) -> Sequence[int]:
    """Return the brokers that may explain why a partition's replication stopped.

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


def _moved(story: Story) -> Iterator[CauseStep]:
    """Yield moves of the last leader's replica between log directories before the loop."""
    if story.finding.kind != "fetch-loop" or not story.states:
        return
    until = story.finding.evidence.get("from")
    for time, moved in story.loaded.evidence.moved_replicas:
        is_own = (moved.broker, moved.partition) == (story.states[-1][1].leader, story.partition)
        if is_own and time > story.since and isinstance(until, float) and time <= until:
            yield CauseStep(
                time=time,
                section="time",
                brokers=(moved.broker,),
                is_fatal=True,
                text=f"Leader {moved.broker} replaced its replica with the copy in another log "
                f"directory{acting_text(story, time)}, by its own log. The copy has no leader "
                "epoch in which nothing was written.",
            )


def _unread(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield a broker that could not read its controller's requests, which have a newer protocol."""
    for broker in concerned:
        lines = story.loaded.evidence.server_logs.get(broker, ())
        unread = dict.fromkeys(match.groups() for line in lines if (match := _UNREAD.search(line)))
        if unread:
            named = " and ".join(f"{api} of version {version}" for api, version in unread)
            yield CauseStep(
                section="brokers",
                brokers=(broker,),
                is_fatal=True,
                text=f"Broker {broker} could not read {named}, by its own log: its controller "
                "speaks a protocol that it does not know. So the broker learned nothing from it.",
            )


def _found_at(story: Story, finding: Finding) -> float | None:
    """Return the time of the log line that a finding names."""
    file, _, number = str(finding.evidence.get("place", "")).rpartition(":")
    if not file.endswith("/server.log") or not number.isdecimal():
        return None
    return logged_at(story, finding.brokers[0], int(number))


def _logged(story: Story, concerned: Sequence[int]) -> Iterator[CauseStep]:
    """Yield the lines of a broker's log about giving up the partition's replica."""
    ended = [
        each
        for each in story.loaded.findings
        if each.kind in ("fetcher-ended", "thread-ended") and set(each.brokers) & set(concerned)
    ]
    if story.finding in ended:
        return  # It is told as the finding.
    if ended:
        yield replace(finding_step(ended[0]), time=_found_at(story, ended[0]), section="brokers")
        return
    topic, number = story.partition
    name = f"(?:{re.escape(f'{topic}-{number}')}|{re.escape(f'[{topic},{number}]')})"
    wanted = re.compile("|".join(words.format(name=name) for words in _OWN_WORDS))
    for broker in concerned:
        lines = [
            (number, match.group().strip())
            for number, line in enumerate(story.loaded.evidence.server_logs.get(broker, ()), 1)
            if (match := wanted.search(line))
        ]
        for number, words in lines[-1:]:
            yield CauseStep(
                time=logged_at(story, broker, number),
                section="brokers",
                brokers=(broker,),
                is_fatal=True,
                text=f'Broker {broker} says in its own log: "{words}".',
            )
