"""Records of a tiered log that readers do not get: what was rebuilt, what is remote and local."""

import re
from collections.abc import Iterator

from kchaos.checkers.evidence.tier import TierReading
from kchaos.checkers.formats.error_codes import ErrorCode, error_name
from kchaos.checkers.model.follow.observations import ResponseSeen
from kchaos.checkers.rules.offsets import in_words
from kchaos.checkers.segments.tier import STARTED
from kchaos.harness.report.cause.elections import election_step
from kchaos.harness.report.cause.story import CauseStep, Story, batches_of
from kchaos.harness.report.cause.wording import finding_step, listed, logged_at
from kchaos.harness.report.tier_drawing import RemoteView

_REBUILT = re.compile(r"Updated the epoch cache from remote tier till offset: (\d+)")
_NOT_REBUILT = re.compile(
    r"Couldn't build the state from remote store.*(previous remote log segment metadata was not "
    r"found)"
)


def tier_reads(story: Story) -> Iterator[CauseStep]:
    """Yield why readers lack records of a broker: its rebuilds, remote and local offsets."""
    rebuilt = [*rebuilt_from_tier(story)]
    yield from rebuilt
    since = rebuilt[0].time or 0.0 if rebuilt else 0.0
    own = [term for term in story.terms if term.leader in story.finding.brokers]
    for term in own[-1:]:
        if term.time > since:
            yield election_step(story, term)
    readings = [
        reading
        for reading in story.loaded.evidence.tier_readings
        if (reading.topic, reading.partition) == story.partition
        and reading.broker in story.finding.brokers
    ]
    at_the_end = readings[-1].time if readings else None
    yield _remote(story, at_the_end)
    for reading in readings[-1:]:
        yield from _local(story, reading)
        yield from _read(story, reading)


def rebuilt_from_tier(story: Story) -> Iterator[CauseStep]:
    """Yield whether a broker was referred to the remote tier, with its log's lines."""
    partition = story.partition
    sent = [
        (message.wall_time_s, message.said)
        for message in story.loaded.evidence.links or ()
        if isinstance(message.said, ResponseSeen)
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
    failed = [
        (number, why[1])
        for number, line in enumerate(log, 1)
        if (why := _NOT_REBUILT.search(line)) and f"{partition.name}," in line
    ]
    if ended:
        (offset,) = _REBUILT.findall(ended[-1])
        yield CauseStep(
            section="brokers",
            text=f"Broker {reply.follower} then took its leader epochs from the remote tier, up to "
            f"offset {offset}, and fetched from there on.",
        )
    elif failed:
        number, words = failed[-1]
        yield CauseStep(
            time=logged_at(story, reply.follower, number),
            section="brokers",
            is_fatal=True,
            text=f"Broker {reply.follower} could not rebuild its log from the remote tier: its own "
            f'log says "{words}".',
        )


def _remote(story: Story, time: float | None) -> CauseStep:
    """Return the segments of the remote tier with the finding's offsets at the end."""
    first, last = story.finding.first_offset, story.finding.last_offset
    holding = [
        segment
        for segment in story.remote
        if segment.start_offset <= last and segment.end_offset >= first
    ]
    held = [
        f"{in_words(segment.start_offset, segment.end_offset)} from broker {segment.broker}"
        f"{_epochs(segment) if story.finding.kind == 'tier-other-lineage' else ''}"
        f"{'' if segment.state == 'COPY_SEGMENT_FINISHED' else ', a copy that did not end'}"
        for segment in holding
    ]
    return CauseStep(
        time=time,
        section="replicas",
        text=f"The remote tier has {listed(held)}."
        if held
        else f"The remote tier has no segment with {in_words(first, last)}.",
    )


def let_go(story: Story) -> Iterator[CauseStep]:
    """Yield copies to the remote tier that failed, and what was deleted there too early."""
    failed = [segment for segment in story.remote if segment.state == STARTED]
    if failed:
        offsets = in_words(failed[0].start_offset, failed[-1].end_offset)
        times = f"{len(failed)} times" if len(failed) > 1 else "once"
        yield CauseStep(
            section="replicas",
            text=f"A copy of {offsets} to the remote tier began and did not end {times}.",
        )
    deleted = [
        in_words(segment.start_offset, segment.end_offset)
        for segment in story.remote
        if segment.state.startswith("DELETE") and segment.end_offset <= story.finding.last_offset
    ]
    text = f"The leader deleted {listed(deleted)} from the remote tier."
    yield CauseStep(section="replicas", is_fatal=True, text=text)
    yield finding_step(story.finding)


def _epochs(segment: RemoteView) -> str:
    epochs = [str(leader_epoch) for leader_epoch, _start_offset in segment.leader_epochs]
    return f" in leader epoch {listed(epochs)}" if epochs else ""


def _local(story: Story, reading: TierReading) -> Iterator[CauseStep]:
    """Yield a broker's reported local log start, if its first batch lies behind it."""
    log = [
        batch
        for replica in story.replicas
        if replica.broker == reading.broker
        for batch in batches_of(replica)
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


def _read(story: Story, reading: TierReading) -> Iterator[CauseStep]:
    """Return the last reading of a broker at the finding's offsets."""
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
        got = listed(sorted(error_name(code) for code in errors))
    text = (
        f"At the end a reader asked broker {reading.broker}, the {reading.source}, for "
        f"{in_words(first, last)}, and got {got}."
    )
    yield CauseStep(time=reading.time, section="replicas", brokers=(reading.broker,), text=text)
