"""Ranges of offsets, which are drawn, beside the sets of their offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kchaos.checkers.rules.offsets import common, merged, without

pytestmark = pytest.mark.slow

RANGES = st.lists(
    st.tuples(st.integers(0, 20), st.integers(0, 5)).map(lambda pair: (pair[0], sum(pair)))
)


@given(RANGES, RANGES)
def test_ranges_are_the_sets_of_their_offsets(
    ranges: list[tuple[int, int]], other: list[tuple[int, int]]
):
    def offsets(ranges: list[tuple[int, int]]) -> set[int]:
        return {offset for first, last in ranges for offset in range(first, last + 1)}

    assert offsets(merged(ranges)) == offsets(ranges)
    assert offsets(without(ranges, other)) == offsets(ranges) - offsets(other)
    assert offsets(common(ranges, other)) == offsets(ranges) & offsets(other)
    assert all(b[0] > a[1] + 1 for a, b in zip(merged(ranges), merged(ranges)[1:], strict=False))
