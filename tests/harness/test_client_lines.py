"""Lines of clients' messages from links: digests, short texts, and what was not read."""

import json
import signal
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from kchaos.checkers.evidence.clients import CLIENTS, ClientBatch
from kchaos.checkers.evidence.history import record_payloads
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.run_directory import MANIFEST
from kchaos.clusters.errors import LinkError
from kchaos.clusters.links.client_talk import ClientMessage
from kchaos.clusters.system.interrupts import interrupts_at_gates
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.campaign.campaign import _said_at_times
from kchaos.harness.play.client_lines import ClientLines, batches_of, line_of, lines_of
from kchaos.harness.run import ending
from tests.support.segment_encoder import batch, message, wrapper
from tests.support.stand_ins import play_on

PAIRS = [(b"k", b"a"), (b"k", b"b")]
PAYLOADS = record_payloads(["a", "b"], ["k", "k"])


def the_batch(records: bytes) -> ClientBatch:
    (seen,) = batches_of(records)
    return seen


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_each_codec_is_opened(codec: str) -> None:
    sent = batch(0, PAIRS, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3)
    batch_read = the_batch(sent)

    assert (batch_read.codec, batch_read.payloads, batch_read.not_judged) == (codec, PAYLOADS, "")
    assert (batch_read.producer_id, batch_read.producer_epoch, batch_read.base_sequence) == (
        7,
        1,
        3,
    )
    assert (batch_read.keys, batch_read.values) == (("k", "k"), ("a", "b"))


def test_old_formats_are_read_however_their_offsets_count() -> None:
    alike = b"".join(message(0, key, value, magic=1) for key, value in PAIRS)
    wrapped = wrapper(0, PAIRS, codec="gzip", magic=1)

    assert [each.payloads for each in batches_of(alike)] == [PAYLOADS[:1], PAYLOADS[1:]]
    assert the_batch(wrapped).payloads == PAYLOADS
    assert not any(each.not_judged for each in batches_of(alike + wrapped))


def test_what_cannot_be_opened_is_named() -> None:
    damaged = bytearray(batch(0, PAIRS))
    damaged[-1] ^= 1
    unknown = batch(0, PAIRS, attributes=5)

    assert "CRC" in the_batch(bytes(damaged)).not_judged
    assert the_batch(unknown).not_judged


def test_a_batch_that_a_broker_cut_off_is_left_out() -> None:
    assert [*batches_of(batch(0, PAIRS) + batch(2, PAIRS)[:30])] == [the_batch(batch(0, PAIRS))]


def test_long_and_null_keys_and_values_are_digested_only() -> None:
    batch_read = the_batch(batch(0, [(None, b"x" * 65), (b"k", None)]))

    assert (batch_read.keys, batch_read.values, len(batch_read.payloads)) == ((), (), 2)


def fetched(
    sequence: int, high_watermark: int, records: bytes = b"", aborted: tuple[int, ...] = ()
) -> ClientMessage:
    """An answer of version 4 about t-0; aborted are producers whose transactions began at 5."""
    body = struct.pack(">iiih1sii", sequence, 0, 1, 1, b"t", 1, 0)
    body += struct.pack(">hqqi", 0, high_watermark, high_watermark, len(aborted))
    body += b"".join(struct.pack(">qq", producer, 5) for producer in aborted)
    body += struct.pack(">i", len(records)) + records
    return of_client(sequence, "response", struct.pack(">i", len(body)) + body)


TOPIC_ID = bytes(range(16))


def fetched_by_id(sequence: int) -> ClientMessage:
    """A question of version 13 about partition 0 of a topic that its id alone names."""
    header = struct.pack(">hhih4sb", 1, 13, sequence, 4, b"mine", 0)
    body = struct.pack(">iiiibiib", -1, 500, 1, 1 << 20, 0, 0, -1, 2) + TOPIC_ID
    body += struct.pack(">biiqiqi5b", 2, 0, -1, sequence, -1, -1, 1 << 20, 0, 0, 1, 1, 0)
    content = struct.pack(">i", len(header + body)) + header + body
    return of_client(sequence, "request", content)._replace(api_version=13)


def of_client(sequence: int, direction: Any, content: bytes) -> ClientMessage:
    return ClientMessage(
        sequence=sequence,
        link_sequence=1,
        time=1.0,
        connection=1,
        broker=0,
        direction=direction,
        api_key=ApiKey.FETCH,
        api_version=4,
        correlation_id=sequence,
        client_id="mine",
        address="127.0.0.1:1",
        group="g",
        content=content,
    )


def nobody(_topic: str | bytes) -> None:
    return None


def test_answers_to_fetches_that_say_nothing_new_are_left_out() -> None:
    answers = (
        fetched(0, 1, batch(0, [(None, b"a")])),
        fetched(1, 1),
        fetched(2, 1),
        fetched(3, 2),
        fetched(4, 2, batch(1, PAIRS)),
    )

    lines = [*lines_of(answers, nobody)]

    assert [line.sequence for line in lines] == [0, 3, 4]
    assert lines[0].partitions[0].batches[0].payloads == record_payloads(["a"])


@contextmanager
def written_to(
    path: Path, name_of: Callable[[str | bytes], str | None] = nobody
) -> Iterator[ClientLines]:
    """Lines of clients that a child process writes; it is ended after the block."""
    lines = ClientLines(path, name_of)
    try:
        yield lines
    finally:
        lines.stop()


def numbers(path: Path) -> list[int]:
    """The sequence numbers of the lines in a file."""
    return [json.loads(line)["sequence"] for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_lines_are_written_while_messages_come(tmp_path: Path) -> None:
    path = tmp_path / CLIENTS
    with written_to(path) as lines:
        for sequence in range(2_500):
            lines.take(fetched(sequence, sequence))
        await_until(
            lambda: path.exists() and path.read_bytes().count(b"\n") >= 1_900,
            timeout_s=60.0,
            waiting_for="lines before the end",
            last_seen=lambda: path.stat().st_size,
            remedy="see the error of the child process",
        )
        lines.end()

    assert numbers(path) == [*range(2_500)]


@pytest.mark.slow
def test_a_topic_that_nobody_knows_yet_is_named_when_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / CLIENTS
    named: dict[str | bytes, str] = {}
    asked = threading.Event()

    def name_of(topic: str | bytes) -> str | None:
        asked.set()
        return named.get(topic)

    with written_to(path, name_of) as lines:
        for sequence in range(1_000):
            lines.take(fetched_by_id(sequence))
        assert asked.wait(60.0)
        named[TOPIC_ID] = "t"
        for sequence in range(1_000, 2_000):
            lines.take(fetched_by_id(sequence))
        lines.end()

    told = [json.loads(line)["partitions"][0] for line in path.read_text().splitlines()]
    assert [each["topic"] for each in told] == ["t"] * 2_000


@pytest.mark.slow
def test_what_keeps_lines_from_being_written_is_raised(tmp_path: Path) -> None:
    with written_to(tmp_path) as lines, pytest.raises(IsADirectoryError):
        lines.end()


@pytest.mark.slow
def test_lines_of_a_process_that_was_killed_are_incomplete(tmp_path: Path) -> None:
    with written_to(tmp_path / CLIENTS) as lines:
        lines._child.kill()
        lines.take(fetched(0, 0))
        with pytest.raises(LinkError, match="incomplete"):
            lines.end()


@pytest.mark.slow
def test_ctrl_c_while_lines_are_written_leaves_them_all_in_a_sealed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("_come_to_rest", "collect_decisions", "collect_brokers"):
        monkeypatch.setattr(ending, part, lambda *_: None)
    now = play_on(Mock(has_given_addresses=False), tmp_path)
    path = tmp_path / "run" / CLIENTS
    with written_to(path) as now.client_lines:
        for sequence in range(3):
            now.client_lines.take(fetched(sequence, sequence))
        end = now.client_lines.end

        def interrupted() -> None:
            signal.raise_signal(signal.SIGINT)
            end()

        monkeypatch.setattr(now.client_lines, "end", interrupted)
        with pytest.raises(KeyboardInterrupt), interrupts_at_gates():
            ending.finish(now, started=0.0, failure=None, settle_bound_s=None)

    assert (path.parent / MANIFEST).exists()
    assert numbers(path) == [0, 1, 2]


def test_ctrl_c_while_a_run_is_judged_ends_that() -> None:
    """The signal is only remembered while a live run ends, and judging may take minutes."""
    said = _said_at_times(print)
    with interrupts_at_gates():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            said(1, 2)


def test_an_answer_says_which_transactions_its_consumer_leaves_out() -> None:
    line = line_of(fetched(0, 9, batch(0, [(None, b"a")]), aborted=(7, 8)), nobody)
    assert line.partitions[0].aborted == ((7, 5), (8, 5))
    assert line_of(fetched(0, 9), nobody).partitions[0].aborted == ()


def test_a_line_says_who_asked_and_how() -> None:
    header = struct.pack(">hhih4s", 1, 4, 1, 4, b"mine")
    body = struct.pack(">iiiib", -1, 500, 1, 1 << 20, 1)
    body += struct.pack(">ih1siiqi", 1, 1, b"t", 1, 3, 7, 1 << 20)
    content = struct.pack(">i", len(header + body)) + header + body

    line = line_of(of_client(1, "request", content), nobody)

    assert line.not_judged == ""
    assert line.isolation_level == 1
    assert (line.partitions[0].partition, line.partitions[0].fetch_offset) == (3, 7)
    assert line.who == "client 'mine', group 'g' at 127.0.0.1:1"


def test_a_message_that_makes_no_sense_is_named() -> None:
    line = line_of(of_client(1, "response", struct.pack(">iii", 100, 1, 0)), nobody)

    assert line.not_judged
