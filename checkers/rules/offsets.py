"""Ranges of offsets: (first, last), both inclusive."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from kchaos.checkers.evidence.partition import BatchEvidence

Range = tuple[int, int]


def in_words(first: int, last: int) -> str:
    """Return the range for people: "offset 1", "offsets 1 to 3"."""
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Return the same offsets as the fewest ranges, ascending."""
    result: list[Range] = []
    for first, last in sorted(ranges):
        if result and first <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(last, result[-1][1]))
        else:
            result.append((first, last))
    return result


def without(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """Return the offsets of `ranges` that are not in `taken`."""
    left: list[Range] = []
    cuts = merged(taken)
    for begin, last in merged(ranges):
        first = begin
        first = begin
        for cut in cuts[bisect_left(cuts, begin, key=itemgetter(1)) :]:
            if cut[0] > last:
                break
            if first < cut[0]:
                left.append((first, cut[0] - 1))
            first = cut[1] + 1
        if first <= last:
            left.append((first, last))
    return left


def common(ranges: Iterable[Range], other: Iterable[Range]) -> list[Range]:
    """Return the offsets in both."""
    all_of_one = merged(ranges)
    return without(all_of_one, without(all_of_one, other))


def covered(batches: Sequence[BatchEvidence]) -> list[Range]:
    """Return the offsets that the batches span."""
    return merged((batch.base_offset, batch.last_offset) for batch in batches)


def inside(batches: Sequence[BatchEvidence], within: Range) -> list[BatchEvidence]:
    """Return the batches, which are in offset order, that have an offset in the range."""
    start = bisect_left(batches, within[0], key=lambda batch: batch.last_offset)
    end = bisect_right(batches, within[1], lo=start, key=lambda batch: batch.base_offset)
    return list(batches[start:end])


def headers(batches: Sequence[BatchEvidence], within: Range) -> list[dict[str, object]]:
    """Return the headers of the batches in the range, abridged if there are many."""
    all_headers = [batch.header() for batch in inside(batches, within)]
    return all_headers if len(all_headers) <= 20 else [*all_headers[:10], *all_headers[-10:]]
