"""A tiered partition as KIP-405 prints it, and the witness that a step left it so."""

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier_tables import tables_of
from kchaos.checkers.witness import witness_of
from tests.support.tiered_run import STARTED, checkpoint, tiered_run

ABOUT = TopicPartition("t", 0)
SEG_3_5 = ("3: msg 3 LE-1", "4: msg 4 LE-1", "5: msg 5 LE-2")
CHAIN = ("epochs: LE-0, 0", "epochs: LE-1, 3", "epochs: LE-2, 5")
TABLE = {
    "broker 0": ("6: msg 6 LE-2", "7: msg 7 LE-3"),
    "broker 0 epochs": ("LE-0, 0", "LE-1, 3", "LE-2, 5", "LE-3, 7"),
    "remote": ("seg-3-5", *SEG_3_5, *CHAIN),
    "metadata": ("seg-3-5", "LE-1, 3", "LE-2, 5"),
}


def test_each_column_is_written_as_the_page_prints_it_with_epochs_counted(tmp_path: Path):
    run = tiered_run(tmp_path / "run")
    assert tables_of(RunEvidence(run), ABOUT) == {"step-1": TABLE}


def test_an_epoch_that_only_a_stored_checkpoint_names_is_not_counted(tmp_path: Path):
    run = tiered_run(tmp_path / "run")
    (stored,) = (run.path / "snapshots").rglob("remote/**/*.leader_epoch_checkpoint")
    stored.write_text(checkpoint(((0, 0), (77, 900))))
    table = tables_of(RunEvidence(run), ABOUT)["step-1"]
    assert table["remote"][-2:] == ("epochs: LE-0, 0", "epochs: epoch 77, 900")


def test_a_batch_that_cannot_be_read_says_why_in_its_place(tmp_path: Path):
    run = tiered_run(tmp_path / "run")
    (segment,) = (run.path / "snapshots").rglob("broker-0/t-0/*.log")
    content = bytearray(segment.read_bytes())
    content[22] |= 7  # The codec, in the low bits of the attributes.
    size = 12 + int.from_bytes(content[8:12])
    content[17:21] = crc32c(bytes(content[21:size])).to_bytes(4)
    segment.write_bytes(content)
    first, *others = tables_of(RunEvidence(run), ABOUT)["step-1"]["broker 0"]
    assert first.startswith("6: unreadable, codec 'unknown-7'")
    assert others == ["7: msg 7 LE-3"]


def test_a_copy_that_was_begun_and_a_segment_that_is_gone_say_so(tmp_path: Path):
    begun = tiered_run(tmp_path / "begun", told=(STARTED,))
    gone = tiered_run(tmp_path / "gone", is_stored=False)
    assert tables_of(RunEvidence(begun), ABOUT)["step-1"]["metadata"] == (
        "seg-3-5 (COPY_SEGMENT_STARTED)",
        "LE-1, 3",
        "LE-2, 5",
    )
    remote = tables_of(RunEvidence(gone), ABOUT)["step-1"]["remote"]
    assert remote == ("seg-3-5 is not in the store",)


@pytest.mark.parametrize(
    ("changed", "is_found", "seen"),
    [
        ({}, True, "snapshot step-1 is so"),
        ({"broker 0": ["6: msg 6 LE-2", "7: msg 9 LE-3"]}, False, "broker 0: 6: msg 6 LE-2; 7: "),
        ({"broker 1": ["0: msg 0 LE-0"]}, False, "broker 1: nothing"),
    ],
    ids=["as-printed", "another-record", "no-such-replica"],
)
def test_a_table_is_found_only_if_every_line_of_its_columns_is_there(
    changed: dict[str, Any], is_found: bool, seen: str, tmp_path: Path
):
    columns = {name: list(lines) for name, lines in TABLE.items()} | changed
    wanted = {"table": {"snapshot": "step-1", "partition": "t-0", "columns": columns}}
    witness = witness_of(wanted, RunEvidence(tiered_run(tmp_path / "run")))
    assert witness.found is is_found
    assert seen in witness.seen


def test_a_table_of_a_snapshot_that_was_not_taken_is_not_found(tmp_path: Path):
    wanted = {"table": {"snapshot": "step-9", "partition": "t-0", "columns": {}}}
    witness = witness_of(wanted, RunEvidence(tiered_run(tmp_path / "run")))
    assert (witness.found, witness.seen) == (False, "the run has no snapshot step-9")
