"""Cause of the first unsafe state, in sentences made from the evidence alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.follow.search import CLOCKS_AGREE_S
from kchaos.checkers.model.values.prediction import Unavoidable
from kchaos.harness.report.cause.control_requests import late_request
from kchaos.harness.report.cause.differences import DIFFERING, difference
from kchaos.harness.report.cause.epoch_caches import contradicted_batches
from kchaos.harness.report.cause.losses import loss, metadata_lost
from kchaos.harness.report.cause.registrations import fenced_leader, uninformed_broker
from kchaos.harness.report.cause.stopped_replication import offline_partition, stopped_replication
from kchaos.harness.report.cause.story import CauseStep, Story, story_of, worst_of
from kchaos.harness.report.cause.tiers import tier_reads
from kchaos.harness.report.cause.transactions import transaction
from kchaos.harness.report.cause.truncations import below_high_watermark
from kchaos.harness.report.cause.unavoidable import decisive_step
from kchaos.harness.report.leadership import Decisions, decisions_of
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.moments import FaultSpan, faults_of
from kchaos.harness.report.replicas import PartitionView, partition_views
from kchaos.harness.report.rounds import observed_rounds

NOT_KNOWN = (
    "The cause is not known: no evidence of this run links a message or a decision to the finding."
)
"""The sentence of a finding without a cause; after it stands what is known, the finding itself."""


def cause_of(
    loaded: Loaded,
    *,
    views: Sequence[PartitionView],
    decisions: Decisions,
    rounds: Sequence[AskedRound],
    faults: Sequence[FaultSpan],
) -> tuple[CauseStep, ...]:
    """Return the cause of the worst safety finding, oldest step first; none without a finding.

    Each sentence says what a file of the run holds: a decision, a batch, a question for a leader
    epoch with its answer. A kind of finding that this does not explain, or evidence that is too
    thin, gets the sentence `NOT_KNOWN`, and the finding.
    """
    finding = worst_of(loaded)
    if finding is None:
        return ()
    partition = (finding.topic, finding.partition)
    of_partition = [view for view in views if (view.topic, view.partition) == partition]
    if finding.kind == "metadata-lost":
        return _explained(finding, metadata_lost(loaded, finding))
    explain = _EXPLAINED_BY.get(finding.kind)
    needs_offsets = explain in _OF_OFFSETS
    if explain is None or not of_partition or (needs_offsets and finding.first_offset < 0):
        return _unexplained(finding)
    story = story_of(
        loaded, finding, of_partition[-1], decisions=decisions, rounds=rounds, faults=faults
    )
    return _explained(finding, explain(story), decisive_step(loaded))


def cause_of_run(loaded: Loaded) -> tuple[CauseStep, ...]:
    """Return the same, reading all that it needs from the run."""
    return cause_of(
        loaded,
        views=partition_views(loaded),
        decisions=decisions_of(loaded),
        rounds=observed_rounds(loaded),
        faults=faults_of(loaded),
    )


def _explained(
    finding: Finding, steps: Iterable[CauseStep], since: Unavoidable | None = None
) -> tuple[CauseStep, ...]:
    in_order = _with_one_fatal(_by_time(steps), since)
    # The finding alone is no cause.
    return in_order if len(in_order) > 1 else _unexplained(finding)


def _unexplained(finding: Finding) -> tuple[CauseStep, ...]:
    known = CauseStep(section="findings", text=f"What is known: {finding.message}.")
    return CauseStep(text=NOT_KNOWN, section="time"), known


def _with_one_fatal(
    steps: tuple[CauseStep, ...], since: Unavoidable | None
) -> tuple[CauseStep, ...]:
    """Return the steps with one decisive fact: the first, or the last until the harm was done.

    Where no evidence names one, that is the step before the model's clusters could be healed no
    more. Where the model does not know it either, none is decisive.
    """
    fatal = [step for step in steps if step.is_fatal]
    if not fatal and since is not None and since.time is not None:
        until = since.time + CLOCKS_AGREE_S
        fatal = [each for each in steps if each.time is not None and each.time <= until][-1:]
    return tuple(replace(step, is_fatal=step in fatal[:1]) for step in steps)


def _by_time(steps: Iterable[CauseStep]) -> tuple[CauseStep, ...]:
    """Return the steps by time; a step without a time stays behind its predecessor.

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


_OF_OFFSETS = (difference, loss, below_high_watermark, tier_reads, contradicted_batches)
_EXPLAINED_BY: Mapping[str, Callable[[Story], Iterator[CauseStep]]] = {
    "committed-loss": loss,
    "stale-request-accepted": late_request,
    "epoch-cache-mismatch": contradicted_batches,
    "generation-not-initialised": uninformed_broker,
    "fenced-leader": fenced_leader,
    "truncated-below-high-watermark": below_high_watermark,
    "high-watermark-regression": below_high_watermark,
    "last-replica-loss": loss,
    **dict.fromkeys(("tier-unreadable", "tier-other-lineage", "tier-orphan"), tier_reads),
    **dict.fromkeys(DIFFERING, difference),
    "offline-partition": offline_partition,
    **dict.fromkeys(
        ("hanging-transaction", "committed-as-aborted", "aborted-as-committed"), transaction
    ),
    **dict.fromkeys(
        (
            *("replication-stopped", "fetch-loop", "fetcher-ended"),
            *("under-min-isr", "out-of-sync"),
        ),
        stopped_replication,
    ),
}
