from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.clusters.ask.client import ConsumerRecord, Fetched
from kchaos.harness.gates import gates
from kchaos.harness.steps import tier_reading

RECORD = ConsumerRecord(offset=3, key=None, value=b"m")
NOTHING = Fetched(error_code=0, high_watermark=5, records=())
THERE = Fetched(error_code=0, high_watermark=5, records=(RECORD,))
BEYOND = Fetched(error_code=0, high_watermark=3, records=())


@pytest.mark.parametrize(
    ("answers", "asked", "empty"),
    [
        ((THERE,), 1, 0),
        ((NOTHING, THERE), 2, 1),
        ((NOTHING, NOTHING, NOTHING), 3, 3),
        ((BEYOND,), 1, 0),
    ],
    ids=["records", "the remote read was slow once", "nothing is there", "the end of the log"],
)
def test_a_fetch_that_brings_nothing_below_the_high_watermark_is_asked_again(
    answers: tuple[Fetched, ...], asked: int, empty: int, monkeypatch: pytest.MonkeyPatch
):
    to_come: Iterator[Fetched] = iter(answers)
    given: list[Fetched] = []

    def fetch(*_: object, **__: object) -> Fetched:
        given.append(next(to_come))
        return given[-1]

    monkeypatch.setattr(tier_reading, "fetch", fetch)
    monkeypatch.setattr(gates, "no_exit", lambda _play: None)
    play: Any = SimpleNamespace(
        cluster=SimpleNamespace(brokers={0: SimpleNamespace(client_address=("127.0.0.1", 1))})
    )
    read = tier_reading.TierRead(operation="r", topic="t", partition=0, broker=0)

    assert tier_reading._fetched(play, read, 3) == (answers[-1], empty)
    assert len(given) == asked
