"""A follower that is refused the same offset again and again, by the answers at the links."""

from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.observations import Healed, Injected
from kchaos.checkers.outcome import facts_of
from kchaos.checkers.rules.fetch_loops import ANSWERS, fetch_loops
from tests.support.run_builder import RunBuilder

OUT_OF_RANGE = 1


def answer(
    build: RunBuilder,
    *,
    error: int,
    last_offset: int | None = None,
    diverging: dict[str, int] | None = None,
) -> None:
    said = {
        "topic": "t",
        "partition": 0,
        "error_code": error,
        "high_watermark": -1 if error else 3,
        "base_offset": last_offset,
        "last_offset": last_offset,
        "diverging_epoch": diverging,
    }
    build.link(
        source=1,
        target=0,
        api_key=1,
        api="Fetch",
        direction="response",
        detail={"error_code": 0, "partitions": [said]},
    )


def found(build: RunBuilder) -> list[Finding]:
    return [*fetch_loops(RunEvidence(build.seal()))]


@pytest.fixture
def build(tmp_path: Path) -> RunBuilder:
    return RunBuilder(tmp_path / "run", release="3.9.1")


def test_a_loop_that_a_record_ends_is_told_so(build: RunBuilder):
    for _ in range(ANSWERS):
        answer(build, error=OUT_OF_RANGE)
    answer(build, error=0, last_offset=3)

    (finding,) = found(build)

    assert finding.brokers == (1,)
    assert (finding.topic, finding.partition) == ("t", 0)
    assert finding.message.endswith("until a record was written")
    assert facts_of([finding]) == [
        "broker 1 fetches the same offset of t-0 until a record was written"
    ]


@pytest.mark.parametrize(
    ("gets_a_record", "end"), [(True, "until a record was written"), (False, " s")]
)
def test_where_to_truncate_is_told_before_the_record(
    gets_a_record: bool, end: str, build: RunBuilder
):
    """A record gave the leader an epoch that it had lost; the follower truncates first."""
    for _ in range(ANSWERS):
        answer(build, error=OUT_OF_RANGE)
    answer(build, error=0, diverging={"epoch": 0, "end_offset": 3})
    if gets_a_record:
        answer(build, error=0, last_offset=3)

    (finding,) = found(build)

    assert finding.message.endswith(end)


def test_a_loop_that_ends_without_a_record_is_told_with_its_time(build: RunBuilder):
    for _ in range(ANSWERS):
        answer(build, error=OUT_OF_RANGE)
    answer(build, error=0)

    (finding,) = found(build)

    assert finding.message.endswith(" s")
    assert " for " in finding.message


def test_a_loop_at_the_end_goes_on_to_the_end(build: RunBuilder):
    for _ in range(ANSWERS + 3):
        answer(build, error=OUT_OF_RANGE)

    (finding,) = found(build)

    assert finding.evidence["answers"] == ANSWERS + 3
    assert facts_of([finding]) == ["broker 1 fetches the same offset of t-0 to the end of the run"]


@pytest.mark.parametrize("between", [ANSWERS // 2, ANSWERS - 1])
def test_fewer_in_a_row_are_no_loop(between: int, build: RunBuilder):
    for number in range(ANSWERS + between):
        answer(build, error=0 if number == between else OUT_OF_RANGE)

    assert found(build) == []


def test_what_is_refused_while_a_fault_acts_is_not_counted(build: RunBuilder):
    build.observe(Injected(name="hold", fault="Hold", lasting=True, before={}, effect={}))
    for _ in range(ANSWERS):
        answer(build, error=OUT_OF_RANGE)
    build.observe(Healed(name="hold"))
    for _ in range(ANSWERS - 1):
        answer(build, error=OUT_OF_RANGE)

    assert found(build) == []
