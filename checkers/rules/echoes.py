"""Consequences of the observation that no state explains, told with it and not as findings."""

from collections.abc import Iterable
from dataclasses import replace

from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.rules.foreign import is_of_the_model

_MOST_TOLD = 20


def with_consequences(
    findings: Iterable[Finding], prediction: Prediction | None
) -> tuple[Finding, ...]:
    """Return the findings; consequences of an unexplained observation say so in their evidence.

    After that observation the rest is predicted as if the cluster had been left alone. A difference
    from it is no fact of its own. What a snapshot shows that was explained before is one. Of a
    suspect nothing follows: the search was given up there.
    """
    findings = tuple(findings)
    if prediction is None or prediction.emptied_by is None:
        return findings
    explained = frozenset(prediction.emptied_by.explained)
    consequences = [finding for finding in findings if _follows(finding, explained)]
    told = [] if prediction.limit else consequences
    return tuple(
        _with(finding, told) if _is_observation(finding) else finding
        for finding in findings
        if not _follows(finding, explained)
    )


def _with(observation: Finding, consequences: list[Finding]) -> Finding:
    if not consequences:
        return observation
    told = [
        f"{consequence.snapshot}: {consequence.message}"
        for consequence in consequences[:_MOST_TOLD]
    ]
    number = len(consequences)
    follow = "1 difference later follows" if number == 1 else f"{number} differences later follow"
    return replace(
        observation,
        message=f"{observation.message}; {follow} from it",
        evidence={**observation.evidence, "consequences": told, "number": number},
    )


def _is_observation(finding: Finding) -> bool:
    return finding.evidence.get("what") == "observation"


def _follows(finding: Finding, explained: frozenset[tuple[str, int]]) -> bool:
    """Return whether a finding compares a snapshot with what is predicted after the observation."""
    if not is_of_the_model(finding) or finding.kind != "not-as-predicted" or not finding.snapshot:
        return False
    if finding.evidence.get("what") in ("observation", "high-watermark-observed"):
        return False
    brokers = finding.brokers or {
        broker for label, broker in explained if label == finding.snapshot
    }
    return not brokers or not explained.issuperset((finding.snapshot, broker) for broker in brokers)
