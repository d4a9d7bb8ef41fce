"""Log cleaning: what it may remove, and what of leader epochs is rebuilt of what it left."""

from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.history import record_payloads
from kchaos.checkers.model import predict
from kchaos.checkers.segments.batch import join_payload_digests
from tests.support.model_timelines import (
    cluster,
    kill,
    payloads,
    ranges,
    replica,
    start,
    state,
    terminate,
)

LOST = m.LoseEpochs(broker=1, topic="t", partition=0)


def write(operation: str, *keys: str, codec: str = "none") -> m.Produce:
    return m.Produce(
        operation=operation,
        broker=1,
        topic="t",
        partition=0,
        records=tuple(f"{operation}-{key}" for key in keys),
        keys=keys,
        acks=1,
        codec=codec,
    )


def cleaned(until: int, *kept: tuple[int, int]) -> m.LogCleaned:
    return m.LogCleaned(broker=1, topic="t", partition=0, cleaned_until=until, kept=kept)


def led_by_1(release: str = "1.1.1", **configuration: Any) -> list[m.Event]:
    return [*cluster(release, controller=0, replicas=(1,), **configuration), state(1, 0, (1,))]


def after(*events: m.Event, release: str = "1.1.1", **configuration: Any) -> m.PredictedReplica:
    timeline = [*led_by_1(release, **configuration), *events, m.Snapshot(label="after")]
    return replica(predict(timeline), 1)


ONCE, AGAIN = write("once", "a", "b"), write("again", "a", "b")
NEXT_EPOCH = [*kill(1), state(-1, 1, (1,)), *start(1, "1.1.1", czxid=201), state(1, 2, (1,))]


def test_records_that_were_written_again_go_with_their_batch():
    remaining = after(ONCE, AGAIN, cleaned(4, (2, 3)))

    assert ranges(remaining) == [(2, 3, 0)]


def test_what_a_cleaner_left_stays_although_it_might_have_gone():
    remaining = after(ONCE, AGAIN, cleaned(4, (0, 3)))

    assert ranges(remaining) == [(0, 1, 0), (2, 3, 0)]


def test_a_record_that_was_never_written_again_may_not_go():
    remaining = after(write("once", "a"), write("other", "c"), AGAIN, cleaned(4, (2, 3)))

    assert ranges(remaining) == [(1, 1, 0), (2, 3, 0)]


def test_a_record_that_comes_again_beyond_what_was_cleaned_may_not_go():
    assert ranges(after(ONCE, AGAIN, cleaned(2))) == [(0, 1, 0), (2, 3, 0)]


def test_a_record_that_comes_again_where_the_cleaner_stopped_may_not_go():
    again = write("once more", "a")

    assert ranges(after(write("once", "a"), again, cleaned(1))) == [(0, 0, 0), (1, 1, 0)]
    assert ranges(after(write("once", "a"), again, cleaned(2))) == [(1, 1, 0)]


def test_a_record_without_a_key_may_not_go():
    keyless = m.Produce(operation="p", broker=1, topic="t", partition=0, records=("x",), acks=1)

    assert ranges(after(keyless, AGAIN, cleaned(3, (1, 2)))) == [(0, 0, 0), (1, 2, 0)]


def test_a_batch_that_keeps_records_keeps_its_offsets():
    remaining = after(write("once", "a", "c"), AGAIN, cleaned(4, (1, 3)))

    left = record_payloads(("once-c",), ("c",))
    assert ranges(remaining) == [(0, 1, 0), (2, 3, 0)]
    assert payloads(remaining)[0] == join_payload_digests([(left[0], 1)])


def test_a_batch_that_was_cleaned_before_is_cleaned_again():
    remaining = after(
        write("once", "a", "c"), AGAIN, cleaned(4, (1, 3)), write("third", "c"), cleaned(5, (2, 4))
    )

    assert ranges(remaining) == [(2, 3, 0), (4, 4, 0)]


def test_messages_of_magic_1_go_one_by_one_and_a_wrapper_is_refused():
    old = {"message_format": "0.10.2"}
    plain = after(write("once", "a", "c"), AGAIN, cleaned(4, (1, 3)), **old)

    assert ranges(plain) == [(1, 1, -1), (2, 2, -1), (3, 3, -1)]
    with pytest.raises(ModelError, match="the wrapper at offset 0 was cleaned: use magic 2"):
        after(write("once", "a", "c", codec="gzip"), AGAIN, cleaned(4, (1, 3)), **old)


@pytest.mark.parametrize(
    ("cleans", "entries"), [(False, ((0, 0), (2, 1), (4, 3))), (True, ((0, 0), (4, 3)))]
)
def test_an_epoch_whose_records_are_gone_is_not_rebuilt(
    cleans: bool, entries: tuple[tuple[int, int], ...]
):
    remaining = after(
        write("first", "x"),
        *NEXT_EPOCH,
        ONCE,
        *kill(1),
        state(-1, 3, (1,)),
        *start(1, "1.1.1", czxid=301),
        state(1, 4, (1,)),
        AGAIN,
        *([cleaned(5, (0, 0), (3, 4))] if cleans else []),
        *kill(1),
        LOST,
        *start(1, "1.1.1", czxid=401),
    )

    assert remaining.epoch_entries == entries


def test_after_a_clean_stop_no_epoch_is_rebuilt():
    remaining = after(ONCE, *terminate(1), LOST, *start(1, "1.1.1", czxid=201))

    assert remaining.epoch_entries == ()


def test_who_runs_no_such_log_cleans_none():
    with pytest.raises(ModelError, match="broker 1 runs no cleaner over a log of t"):
        after(ONCE, *kill(1), cleaned(2))
