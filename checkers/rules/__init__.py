"""The rules: pure functions from one partition at one snapshot to findings.

`SAFETY_RULES` look at one side. Given the observed replicas they say what is wrong on disk; given
the predicted ones, the same functions say what the model expects to be wrong. `CONFORMANCE_RULES`
compare the two sides. `apply_rules` runs all of them, whoever has put the evidence together.

Safety is judged at the last snapshot, after everything was healed and settled, since an in-sync
follower may lag at any other moment. What bytes say against themselves, and what went backwards
from one snapshot to the next, is judged at every snapshot, and so is conformance.
"""

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.as_sent import as_sent
from kchaos.checkers.rules.backwards import (
    high_watermark_regression,
    truncated_below_high_watermark,
)
from kchaos.checkers.rules.broker_epochs import (
    generation_not_initialised,
    late_requests_as_predicted,
    stale_request_accepted,
)
from kchaos.checkers.rules.conformance import (
    decisions_allowed,
    observations_as_predicted,
    produces_as_predicted,
    replicas_as_predicted,
    rounds_as_predicted,
)
from kchaos.checkers.rules.divergence import divergence
from kchaos.checkers.rules.down_conversion import not_down_converted
from kchaos.checkers.rules.dropped import dropped_while_waiting
from kchaos.checkers.rules.foreign import foreign_batches
from kchaos.checkers.rules.hole import hole
from kchaos.checkers.rules.loss import loss
from kchaos.checkers.rules.missing_tail import missing_tail
from kchaos.checkers.rules.on_disk import as_read, checkpoints_readable, epoch_cache_mismatch
from kchaos.checkers.rules.settled import not_settled
from kchaos.checkers.rules.tiers import tier_as_predicted, tier_orphan, tier_reads
from kchaos.checkers.rules.transactions import committed_reads, transactions_ended

SafetyRule = Callable[[PartitionEvidence, Side], Iterable[Finding]]
ConformanceRule = Callable[[PartitionEvidence], Iterable[Finding]]

SAFETY_RULES: tuple[SafetyRule, ...] = (
    divergence,
    hole,
    missing_tail,
    loss,
    not_settled,
    dropped_while_waiting,
    high_watermark_regression,
    truncated_below_high_watermark,
    epoch_cache_mismatch,
    as_read,
    not_down_converted,
    checkpoints_readable,
    as_sent,
    foreign_batches,
    stale_request_accepted,
    generation_not_initialised,
    tier_reads,
    tier_orphan,
    transactions_ended,
    committed_reads,
)
CONFORMANCE_RULES: tuple[ConformanceRule, ...] = (
    replicas_as_predicted,
    observations_as_predicted,
    produces_as_predicted,
    rounds_as_predicted,
    decisions_allowed,
    late_requests_as_predicted,
    tier_as_predicted,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Findings of the rules for one partition at one snapshot, or for a whole run.

    Attributes:
        findings: On safety, on conformance, and on neither.
        predicted_findings: What the safety rules say of the predicted replicas.
        crashes: Tracebacks of rules that failed: what they would have said is unknown.
    """

    findings: tuple[Finding, ...] = ()
    predicted_findings: tuple[Finding, ...] = ()
    crashes: tuple[str, ...] = ()


def apply_rules(
    evidence: PartitionEvidence, *, safety_rules: Iterable[SafetyRule] = SAFETY_RULES
) -> Judged:
    """Return the findings of all rules; list a rule that raises under `crashes`."""
    findings: list[Finding] = []
    predicted: list[Finding] = []
    crashes: list[str] = []

    def collect(into: list[Finding], judge: Callable[[], Iterable[Finding]]) -> None:
        try:
            into.extend(judge())
        except Exception:  # noqa: BLE001 - a rule's own fault makes the run unknown
            crashes.append(traceback.format_exc())

    for rule in safety_rules:
        collect(findings, partial(rule, evidence, OBSERVED))
        if evidence.predicted is not None:
            collect(predicted, partial(rule, evidence, PREDICTED))
    for conformance_rule in CONFORMANCE_RULES:
        collect(findings, partial(conformance_rule, evidence))
    return Judged(
        findings=tuple(findings), predicted_findings=tuple(predicted), crashes=tuple(crashes)
    )


def joined(parts: Iterable[Judged]) -> Judged:
    """Return the findings of all parts together, in an order that does not depend on theirs."""
    parts = list(parts)
    return Judged(
        findings=tuple(sorted((f for part in parts for f in part.findings), key=_order)),
        predicted_findings=tuple(
            sorted((f for part in parts for f in part.predicted_findings), key=_order)
        ),
        crashes=tuple(sorted(crash for part in parts for crash in part.crashes)),
    )


def _order(finding: Finding) -> tuple[object, ...]:
    return (
        finding.topic,
        finding.partition,
        finding.snapshot,
        finding.kind,
        finding.brokers,
        finding.first_offset,
        finding.last_offset,
        finding.message,
    )
