"""Records that a consumer got, and whether a scenario can have written them."""

import pytest

from kchaos.clusters.ask.client import ConsumerRecord
from kchaos.harness.errors import ScenarioError
from kchaos.harness.steps.clients import _text


def record(
    offset: int = 3, key: bytes | None = None, value: bytes | None = b"m-0"
) -> ConsumerRecord:
    return ConsumerRecord(offset=offset, key=key, value=value)


def test_a_scenarios_record_is_written_down_as_its_text() -> None:
    assert _text(record(), offset=3) == "m-0"


@pytest.mark.parametrize(
    "strange", [record(offset=4), record(key=b"k"), record(value=None), record(value=b"\xff")]
)
def test_what_no_scenario_writes_is_refused_and_never_taken_for_something_else(
    strange: ConsumerRecord,
) -> None:
    with pytest.raises(ScenarioError, match="at offset 3 was to be: read only"):
        _text(strange, offset=3)
