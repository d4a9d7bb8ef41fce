"""The safety findings of a run as clauses of a sentence: what happened to its replicas."""

from collections.abc import Iterable, Sequence

from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.rules.offsets import merged

_MOST_RANGES = 3

# The first kinds are the worst. {brokers}, {partition}, {offsets} and {until} come from the
# findings; those of a kind and partition are told together.
SENTENCES = {
    "committed-loss": "promised records of {partition} are lost at {offsets}",
    "last-replica-loss": "promised records of {partition} that whole copies held are lost at "
    "{offsets}",
    "lost-write": "polls passed by acknowledged records of {partition} at {offsets}",
    "lost-marker": "the end of a transaction in {partition} is lost",
    "committed-as-aborted": "committed transactions of {partition} are aborted at {offsets}",
    "aborted-as-committed": "aborted transactions of {partition} are committed at {offsets}",
    "aborted-read": "aborted records of {partition} were given to read_committed clients at "
    "{offsets}",
    "hanging-transaction": "{partition} has a transaction that never ends, at {offsets}",
    "divergence": "{brokers} hold different records of {partition} at {offsets}",
    "hole": "the log of {partition} on {brokers} has a hole at {offsets}",
    "missing-tail": "{brokers} in the ISR of {partition} do not hold {offsets}",
    "not-as-sent": "{brokers} hold records of {partition} that no producer sent, at {offsets}",
    "corrupt-batch": "{brokers} hold bytes of {partition} that are no batch",
    "corrupt-checkpoint": "a checkpoint file on {brokers} is not well-formed",
    "epoch-cache-mismatch": "the leader epochs of {partition} on {brokers} disagree with its "
    "batches",
    "truncated-below-high-watermark": "{brokers} truncated {partition} below the high watermark",
    "high-watermark-regression": "the high watermark of {partition} went back on {brokers}",
    "offline-partition": "{partition} has no working leader",
    "replication-stopped": "replication of {partition} does not recover on {brokers}",
    "fetch-loop": "{brokers} fetch the same offset of {partition} {until}",
    "fetcher-ended": "an error ended the replication of {partition} on {brokers}",
    "out-of-sync": "{brokers} stayed out of the ISR of {partition} for no reason",
    "fenced-leader": "{brokers} was elected for {partition} while it was fenced",
    "nobody-decides": "no controller decides anything",
    "metadata-lost": "most controllers have lost the metadata of topics with records",
    "two-controllers": "{brokers} went on to lead the controllers after being replaced",
    "deletion-does-not-end": "the deletion of {partition} does not end",
    "reassignment-does-not-end": "the reassignment of {partition} does not end",
    "under-min-isr": "{partition} has fewer in-sync replicas than min.insync.replicas",
    "generation-not-initialised": "{brokers} never got the first LeaderAndIsr",
    "stale-request-accepted": "{brokers} obeyed a control request of an earlier broker epoch",
    "not-down-converted": "an old client cannot read {partition}",
    "tier-unreadable": "records of {partition} cannot be read from the remote tier",
    "tier-other-lineage": "the remote tier of {partition} returns other records than the log",
    "tier-orphan": "the remote tier has records of {partition} that no client can reach",
    "inconsistent-offsets": "clients saw different records of {partition} at {offsets}",
    "duplicate": "clients saw a record of {partition} twice, at {offsets}",
    "G1a": "a client read an aborted record of {partition} at {offsets}",
    "precommitted-read": "a client read a record of {partition} before it was committed, at "
    "{offsets}",
    "G1c": "transactions of clients depend on each other in a circle",
    "poll-skip": "a consumer of {partition} passed over records at {offsets}",
    "int-poll-skip": "one read of {partition} passed over records at {offsets}",
    "nonmonotonic-poll": "a consumer of {partition} went back at {offsets}",
    "int-nonmonotonic-poll": "one read of {partition} went back at {offsets}",
    "nonmonotonic-send": "records of {partition} are not in the order of their client, at "
    "{offsets}",
    "int-nonmonotonic-send": "records of one send to {partition} are not in its order, at "
    "{offsets}",
    "unseen": "no client has read acknowledged records of {partition} at {offsets}",
}


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
