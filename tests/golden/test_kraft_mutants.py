"""A stored KRaft run that is changed in one place, and sealed again, is not as predicted there."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.cross_checks.metadata import metadata_disagreements
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.rules.quorum import answers_of_controllers
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import read_segment
from tests.golden.stored import KRAFT, unpacked
from tests.mutants.segment_edits import split, with_field

pytestmark = pytest.mark.slow
RUN = "3.9.1-leader-killed"


def _segment(run: Path, broker: int) -> Path:
    (segment,) = run.glob(f"snapshots/final/broker-{broker}/t-0/*.log")
    return segment


def _without_the_last_batch(run: Path) -> None:
    segment = _segment(run, 2)
    content = segment.read_bytes()
    last = read_segment(content, base_offset=0, file=segment.name).batches[-1]
    segment.write_bytes(content[: last.position])


def _first_batch_in_epoch_1(run: Path) -> None:
    segment = _segment(run, 2)
    first, *others = split(segment.read_bytes())
    segment.write_bytes(b"".join([with_field(first, "partitionLeaderEpoch", lambda _: 1), *others]))


def _epoch_begins_later(run: Path) -> None:
    (file,) = run.glob("snapshots/final/broker-2/t-0/leader-epoch-checkpoint")
    lines = file.read_text().splitlines()
    epoch, offset = lines[-1].split()
    file.write_text("\n".join([*lines[:-1], f"{epoch} {int(offset) + 1}"]) + "\n")


def _change_message(run: Path, direction: str, change: Callable[[dict[str, Any]], bool]) -> None:
    """Change the last Fetch, or answer to one, of t-0 that `change` takes."""
    lines = (run / "links.jsonl").read_text().splitlines()
    for number, line in reversed([*enumerate(lines)]):
        message = json.loads(line)
        if message["api"] != "Fetch" or message["direction"] != direction:
            continue
        entries = (message["detail"] or {}).get("partitions") or ()
        if any(entry["topic"] == "t" and change(entry) for entry in entries):
            lines[number] = json.dumps(message)
            (run / "links.jsonl").write_text("\n".join(lines) + "\n")
            return
    raise AssertionError("no message was changed")


def _later_fetch(run: Path) -> None:
    """The first Fetch of broker 0 when it is back, with leader epoch 1."""

    def change(entry: dict[str, Any]) -> bool:
        is_wanted = entry["fetch_offset"] == 5 and entry["last_fetched_epoch"] == 0
        entry["fetch_offset"] += is_wanted
        return bool(is_wanted)

    _change_message(run, "request", change)


def _smaller_high_watermark(run: Path) -> None:
    def change(entry: dict[str, Any]) -> bool:
        entry["high_watermark"] -= 1
        return True

    _change_message(run, "response", change)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_without_the_last_batch, "broker 2 held of t-0 batches"),
        (_first_batch_in_epoch_1, "broker 2 held of t-0 batches 0-2 of epoch 1"),
        (_epoch_begins_later, "broker 2 held of t-0 leader epochs [(0, 0), (1, 6)]"),
        (_later_fetch, "t-0: fetched from 6, possible was 5"),
        (_smaller_high_watermark, "holds high watermark 9 of t-0, possible was one of [5, 7, 8]"),
    ],
)
def test_a_changed_run_is_not_as_predicted_at_that_place(
    change: Callable[[Path], None], place: str, tmp_path: Path
):
    run = unpacked(RUN, tmp_path, runs=KRAFT)
    (run.path / MANIFEST).unlink()
    change(run.path)
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path))

    assert results.conforms is False
    unlike = [each.message for each in results.findings if each.kind == "not-as-predicted"]
    assert any(place in message for message in unlike), unlike


def _change_last(run: Path, api: str, direction: str, change: Callable[[Any], None]) -> None:
    lines = (run / "links.jsonl").read_text().splitlines()
    for number, line in reversed([*enumerate(lines)]):
        message = json.loads(line)
        if (message["api"], message["direction"]) == (api, direction):
            change(message["detail"])
            lines[number] = json.dumps(message)
            (run / "links.jsonl").write_text("\n".join(lines) + "\n")
            return
    raise AssertionError(f"there is no {direction} of {api}")


def _answer(**fields: Any) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        _change_last(
            run, "AlterPartition", "response", lambda detail: detail["partitions"][0].update(fields)
        )

    return change


def _named_before_read(run: Path) -> None:
    _change_last(
        run,
        "BrokerHeartbeat",
        "request",
        lambda detail: detail.update(current_metadata_offset=1000),
    )


@pytest.mark.parametrize("name", ["4.0.2-zombie", "4.3.1-fenced"])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_answer(isr=[1]), "with the ISR [1] at partition epoch"),
        (_answer(partition_epoch=99), "at partition epoch 99; possible was"),
        (_answer(error_code=74), "with FENCED_LEADER_EPOCH; possible was"),
        (_answer(error_code=42), "with INVALID_REQUEST; possible was"),
    ],
)
def test_an_answer_that_no_controller_could_give_is_a_finding(
    name: str, change: Callable[[Path], None], told: str, tmp_path: Path
):
    run = unpacked(name, tmp_path, runs=KRAFT)
    assert [*answers_of_controllers(RunEvidence(run))] == []
    change(run.path)

    (found,) = answers_of_controllers(RunEvidence(RunDirectory(run.path)))

    assert (found.kind, found.topic, found.partition) == ("decision-not-allowed", "t", 0)
    assert told in found.message


def test_a_heartbeat_that_names_more_than_its_broker_has_read_leaves_the_run_unknown(
    tmp_path: Path,
):
    run = unpacked(RUN, tmp_path, runs=KRAFT)
    assert [*metadata_disagreements(RunEvidence(run))] == []
    _named_before_read(run.path)

    (told,) = metadata_disagreements(RunEvidence(RunDirectory(run.path)))

    assert "names offset 1000 of the metadata log" in told
