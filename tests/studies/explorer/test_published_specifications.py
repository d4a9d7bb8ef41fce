"""The explorer finds exactly the states that TLC finds in the published specifications."""

from dataclasses import replace

import pytest

from kchaos.studies.explorer import System, explore
from tests.support.published_specifications import (
    Bounds,
    kip_101,
    kip_279,
    truncate_to_high_watermark,
)

pytestmark = pytest.mark.slow

BOUNDS = Bounds(replicas=2, log_size=3, max_records=3, max_leader_epoch=3)


@pytest.mark.parametrize(
    ("system", "generated", "distinct", "depth"),
    [
        (kip_279(BOUNDS), 656_561, 225_761, 24),
        (kip_279(BOUNDS, is_symmetric=True), 328_283, 112_881, 24),
        (replace(kip_101(BOUNDS), invariants={}), 620_705, 229_695, 24),
        (replace(truncate_to_high_watermark(BOUNDS), invariants={}), 769_511, 276_363, 29),
    ],
    ids=["kip-279", "kip-279-symmetry", "kip-101", "truncate-to-high-watermark"],
)
def test_the_whole_space_has_the_size_that_tlc_counts(
    system: System, generated: int, distinct: int, depth: int
):
    explored = explore(system, most_states=1_000_000)
    assert (explored.generated, explored.distinct, explored.depth) == (generated, distinct, depth)
    assert explored.is_complete
    assert explored.violation is None


@pytest.mark.parametrize(
    ("system", "depth"),
    [(truncate_to_high_watermark(BOUNDS), 10), (kip_101(BOUNDS), 12)],
    ids=["truncate-to-high-watermark", "kip-101"],
)
def test_the_strong_isr_breaks_where_tlc_finds_it_broken(system: System, depth: int):
    explored = explore(system, most_states=1_000_000)
    assert explored.violation is not None
    assert explored.violation.invariant == "StrongIsr"
    assert (explored.depth, len(explored.violation.states)) == (depth, depth)
    assert len(explored.violation.trace) == depth - 1
    assert not explored.is_complete
