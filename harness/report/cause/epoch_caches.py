"""An epoch cache that contradicts batches: the entry of a term without records, kept too long."""

from collections.abc import Iterator
from dataclasses import replace

from kchaos.checkers.model.releases.rules.kafka_10706 import KAFKA_10706
from kchaos.harness.report.cause.epoch_questions import question_text
from kchaos.harness.report.cause.story import CauseStep, Story, batches_of
from kchaos.harness.report.cause.wording import acting_text, finding_step, listed
from kchaos.harness.report.replaced_entries import Replaced, replaced_entries


def contradicted_batches(story: Story) -> Iterator[CauseStep]:
    """Yield batches that an epoch cache contradicts because of a stale entry without records.

    The entry of the next batch takes its place, and with it that of an epoch that has records.
    """
    finding = story.finding
    partition = story.partition
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
                f"offset {each.entry.start_offset}. Its entry took the place of {listed(gone)}.",
            )
    yield _would_answer(story)


def _would_answer(story: Story) -> CauseStep:
    """Return the finding, and a follower's response from that cache."""
    first, last = story.finding.first_offset, story.finding.last_offset
    said = finding_step(story.finding)
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


def _term_without_records(story: Story, broker: int, replaced: Replaced) -> Iterator[CauseStep]:
    """Yield a broker's term without records, and how the entry of that term outlived it."""
    written = {batch.leader_epoch for replica in story.replicas for batch in batches_of(replica)}
    for entry in replaced.removed:
        term = story.term(entry.leader_epoch)
        if term is None or term.leader != broker or entry.leader_epoch in written:
            continue
        yield CauseStep(
            time=term.time,
            section="time",
            brokers=(broker,),
            text=f"Broker {broker} was elected in leader epoch {entry.leader_epoch}"
            f"{acting_text(story, term.time)}. Its cache has the epoch from offset "
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
                text=question_text(each, story),
            )
        if replaced.cut_nothing_at == entry.start_offset:
            yield CauseStep(
                section="brokers",
                text=f"Its log ended at {entry.start_offset}, so it truncated nothing, and the "
                f"entry of leader epoch {entry.leader_epoch} stayed. From "
                f"{KAFKA_10706.since[0]} on Kafka drops it (KAFKA-10706).",
            )
