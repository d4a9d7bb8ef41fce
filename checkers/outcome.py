"""The safety findings of a run as clauses of a sentence: what happened to its replicas."""

from collections.abc import Iterable, Sequence

from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.rules.offsets import merged

_MOST_RANGES = 3

SENTENCES = {kind.name: kind.sentence for kind in KINDS.values() if kind.sentence}
"""A clause for each kind about safety, the worst first; a kind and partition have it once."""


def worst_first(findings: Iterable[Finding]) -> Sequence[Finding]:
    """Return the safety findings, the worst kind first."""
    order = list(SENTENCES)
    about_safety = [each for each in findings if each.question is Question.SAFETY]
    return sorted(about_safety, key=lambda finding: order.index(finding.kind))


def facts_of(findings: Iterable[Finding]) -> Sequence[str]:
    """Return the safety findings as clauses, worst first, grouped by kind and partition."""
    together: dict[tuple[str, str], list[Finding]] = {}
    for finding in worst_first(findings):
        together.setdefault((finding.kind, partition_of(finding)), []).append(finding)
    return [_fact(kind, partition, same) for (kind, partition), same in together.items()]


def _fact(kind: str, partition: str, findings: Sequence[Finding]) -> str:
    brokers = sorted({broker for finding in findings for broker in finding.brokers})
    with_offsets = [finding for finding in findings if finding.first_offset >= 0]
    text = SENTENCES[kind].format(
        brokers=brokers_text(brokers),
        partition=partition or "a partition",
        offsets=_offsets_text(with_offsets),
        until=_until(findings),
    )
    return text if len(brokers) != 1 else _singular(text)


def _until(findings: Sequence[Finding]) -> str:
    """Return the duration of loops, from their findings."""
    told = [str(each.evidence.get("until", "again and again")) for each in findings]
    return " and ".join(dict.fromkeys(told))


def brokers_text(brokers: Sequence[int]) -> str:
    """Return broker ids for people: "broker 1", "brokers 0 and 1"."""
    if not brokers:
        return "brokers"
    names = [str(broker) for broker in brokers]
    if len(names) == 1:
        return f"broker {names[0]}"
    return f"brokers {', '.join(names[:-1])} and {names[-1]}"


def partition_of(finding: Finding) -> str:
    """Return the finding's partition as Kafka names its directory; "" if it has none."""
    return f"{finding.topic}-{finding.partition}" if finding.topic else ""


def _offsets_text(findings: Sequence[Finding]) -> str:
    if not findings:
        return "its end"
    ranges = merged((finding.first_offset, finding.last_offset) for finding in findings)
    shown = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    if len(shown) > _MOST_RANGES:
        shown = [f"{ranges[0][0]} to {ranges[-1][1]}, with gaps"]
    *others, end = shown
    if others:
        return f"offsets {', '.join(others)} and {end}"
    return f"offset{'s' if ' ' in end else ''} {end}"


def _singular(text: str) -> str:
    """Return the text with singular verbs, for a single broker."""
    for plural, singular in (
        (" hold ", " holds "),
        (" do not ", " does not "),
        (" fetch ", " fetches "),
    ):
        text = text.replace(plural, singular, 1)
    return text
