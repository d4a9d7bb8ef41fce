from typing import Any, cast

import pytest
from kafka.errors import NotEnoughReplicasError, for_code

from kchaos.checkers.formats.error_codes import ErrorCode, appended_nothing, error_name
from kchaos.checkers.model import events
from kchaos.clusters.api import Cluster
from kchaos.clusters.ask.client import ConsumerRecord, Produced
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.clients import Clients
from kchaos.harness.play.recorder import Recorder
from kchaos.harness.steps.clients import _text


class Lines:
    def __init__(self) -> None:
        self.ended: list[dict[str, Any]] = []

    def history(self, operation: str, kind: str, **detail: Any) -> None:
        self.ended.append({"operation": operation, "type": kind, **detail})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        # A leader that is deposed while acks=all is waited for has the record.
        (ErrorCode.NOT_LEADER_FOR_PARTITION, "info"),
        (ErrorCode.NOT_ENOUGH_REPLICAS, "fail"),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "info"),
        (ErrorCode.REQUEST_TIMED_OUT, "info"),
        (ErrorCode.OFFSET_OUT_OF_RANGE, "info"),
        (ErrorCode.UNKNOWN_SERVER_ERROR, "info"),
    ],
)
def test_a_produce_has_failed_only_where_the_broker_appended_nothing(error: ErrorCode, kind: str):
    lines = Lines()
    clients = Clients(cast(Cluster, None), cast(Recorder, lines))
    request = events.Produce(
        operation="n", broker=0, topic="t", partition=0, records=("n-0",), acks=-1
    )
    clients._write_answer(request, Produced(error_code=error.value, base_offset=-1), {})
    assert lines.ended == [
        {"operation": "n", "type": kind, "error": error.name, "error_code": error.value}
    ]


def test_a_broker_that_does_not_lead_appended_nothing_of_what_it_need_not_wait_for():
    assert appended_nothing(ErrorCode.NOT_LEADER_FOR_PARTITION, acks=1)
    assert not appended_nothing(ErrorCode.NOT_LEADER_FOR_PARTITION, acks=-1)


def test_an_error_without_a_name_here_is_told_by_its_number():
    assert error_name(9999) == "error 9999"


def test_errors_have_the_numbers_that_a_client_knows_them_by():
    renamed = {"UNKNOWN_SERVER_ERROR", "NONE", "MESSAGE_TOO_LARGE", "INVALID_TOPIC_EXCEPTION"}
    renamed.add("INVALID_REPLICA_ASSIGNMENT")
    assert for_code(ErrorCode.NOT_ENOUGH_REPLICAS) is NotEnoughReplicasError
    names = {code.name: for_code(code).message for code in ErrorCode}
    assert {name for name, known in names.items() if name != known} == renamed


# -- Records that a consumer got, and whether a scenario can have written them --


def record(
    offset: int = 3, key: bytes | None = None, value: bytes | None = b"m-0"
) -> ConsumerRecord:
    return ConsumerRecord(offset=offset, key=key, value=value)


def test_a_scenarios_record_is_written_down_as_its_text():
    assert _text(record(), offset=3) == "m-0"


@pytest.mark.parametrize(
    "strange", [record(offset=4), record(key=b"k"), record(value=None), record(value=b"\xff")]
)
def test_what_no_scenario_writes_is_refused_and_never_taken_for_something_else(
    strange: ConsumerRecord,
):
    with pytest.raises(ScenarioError, match="at offset 3 was to be: read only"):
        _text(strange, offset=3)
