"""Control requests that a report shows when there are too many."""

from dataclasses import replace

from kchaos.harness.report.control import ControlRow, most_of

ROW = ControlRow(
    time=1.0,
    request="r",
    partitions="",
    carried="7",
    in_force="7",
    answer="accepted",
    is_late=False,
)
LATE = replace(ROW, carried="3", is_late=True)


def test_late_requests_are_left_out_last() -> None:
    rows = [LATE, replace(ROW, time=2.0), replace(ROW, time=3.0), replace(ROW, time=4.0)]

    assert [row.time for row in most_of(rows, 2)] == [1.0, 4.0]
    assert most_of(rows, 4) == tuple(rows)
