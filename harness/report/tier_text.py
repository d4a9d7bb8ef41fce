"""Tiered logs in words: what the remote tier has at the end, and where reads were served from."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import TierReading
from kchaos.harness.report.replicas import PartitionView
from kchaos.harness.report.tier_drawing import drawn_readings, source_of


def tier_sections(
    evidence: RunEvidence, views: Sequence[PartitionView]
) -> Iterator[tuple[str, list[str]]]:
    """Yield heading and lines of the last snapshot's remote tier, and of each reading."""
    for view in views:
        if view.is_final and (view.remote or view.remote_problem):
            lines = [view.remote_problem] if view.remote_problem else []
            for segment in view.remote:
                chain = (
                    " ".join(f"{epoch}:{start}" for epoch, start in segment.epochs or ()) or "none"
                )
                where = f"by broker {segment.broker}, {segment.state}, epochs {chain}"
                lines.append(
                    f"{segment.name} {where}" + ("" if segment.batches else ", not in the store")
                )
            yield f"Remote tier of {view.name}", lines
    drawn, problem = drawn_readings(evidence)
    if problem:
        yield "Readings of tiered logs", [problem]
    elif drawn:
        yield "Readings of tiered logs", [in_words(reading) for reading in evidence.tier_readings]


def in_words(reading: TierReading) -> str:
    """Describe a reading as stretches of offsets, by their source."""
    sources = {
        offset: source_of(reading, fetch)
        for fetch in reading.fetches
        for offset in [record.offset for record in fetch.records] or [fetch.offset]
    }
    stretches = []
    for source, group in groupby(sorted(sources), key=lambda offset: sources[offset]):
        offsets = list(group)
        span = f"{offsets[0]}-{offsets[-1]}" if offsets[1:] else f"{offsets[0]}"
        stretches.append(f"{span} {source}")
    return (
        f"{reading.operation}, broker {reading.broker}, {reading.manner}: "
        f"{', '.join(stretches) or 'nothing'}"
    )
