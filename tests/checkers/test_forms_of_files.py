"""What of a run is damaged, or of another form, is named with its file."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers import opening, run_directory
from kchaos.checkers.errors import CheckError, RunDirectoryError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.results import read_judgement, write_judgement
from kchaos.checkers.run_directory import FORMAT, JUDGEMENTS, MANIFEST, RunDirectory
from kchaos.harness.report import text_report
from tests.golden.stored import unpacked
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of


def test_what_was_read_is_what_the_seal_is_compared_with(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    evidence = RunEvidence(run).read()
    assert evidence.files.broken_seal() == ()

    file = run.path / "history.jsonl"
    file.write_text(file.read_text().replace("both-0", "both-9", 1))
    changed = RunEvidence(run).read()

    assert changed.files.broken_seal() == (
        "history.jsonl is not what was sealed: its SHA-256 differs",
    )


@pytest.mark.parametrize("name", ["run.json", "manifest.json"])
def test_a_run_or_seal_of_another_format_is_refused_by_its_number(name: str, tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    file = run.path / name
    content = json.loads(file.read_text())

    for written in (FORMAT + 1, FORMAT - 1, 1, 0, True, None, str(FORMAT)):
        file.write_text(json.dumps(content | {"format": written}))
        with pytest.raises(
            RunDirectoryError, match=f"{name} has format .* reads format {FORMAT} alone"
        ):
            RunDirectory.open(run.path).verify()


@pytest.fixture
def compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunDirectory:
    """Return a sealed run whose lines are compressed."""
    monkeypatch.setattr(run_directory, "MOST_PLAIN_BYTES", 100)
    return clean_snapshot(clean_run(tmp_path / "run")).seal()


def test_a_run_with_compressed_lines_is_judged_as_one_without(
    compressed: RunDirectory, tmp_path: Path
):
    plain = clean_snapshot(clean_run(tmp_path / "plain")).seal()

    assert (compressed.path / "history.jsonl.gz").is_file()
    assert not (compressed.path / "history.jsonl").exists()
    assert [*compressed.read_lines("history.jsonl")] == [*plain.read_lines("history.jsonl")]
    assert RunEvidence(compressed).read().files.broken_seal() == ()
    assert (judge(compressed).conforms, judge(compressed).safe) == (True, True)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda content: content[:-20], "history.jsonl.gz cannot be read as gzip: Compressed file"),
        (lambda content: content[:40] + b"!" + content[41:], "cannot be read as gzip: "),
        (lambda _: b"no gzip", "history.jsonl.gz cannot be read as gzip: Not a gzipped file"),
        (lambda _: gzip.compress(bytes(2000)), "history.jsonl.gz has a line of 1000 bytes or more"),
    ],
)
def test_damaged_compressed_lines_are_named(
    damage: Callable[[bytes], bytes],
    expected: str,
    compressed: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(opening, "MOST_LINE_BYTES", 1000)
    file = compressed.path / "history.jsonl.gz"
    file.write_bytes(damage(file.read_bytes()))

    with pytest.raises(CheckError, match=expected):
        [*RunEvidence(compressed).history]


def test_lines_that_compress_too_well_are_refused(
    compressed: RunDirectory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(opening, "MOST_LINES_BYTES", 100)

    with pytest.raises(CheckError, match=r"history\.jsonl\.gz has lines of more than 100 bytes"):
        [*RunEvidence(compressed).history]


def test_a_line_of_a_compressed_file_is_named_with_the_file(compressed: RunDirectory):
    file = compressed.path / "history.jsonl.gz"
    first, *others = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join([first, b"[]\n", *others])))

    with pytest.raises(CheckError, match=r"history\.jsonl\.gz:2 holds no JSON object"):
        [*RunEvidence(compressed).history]


def _rewrite(file: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    text = file.read_text()
    lines = [json.loads(line) for line in ([text] if file.suffix == ".json" else text.splitlines())]
    for line in lines:
        change(line)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _sealed_again(run: RunDirectory) -> RunDirectory:
    (run.path / MANIFEST).unlink()
    run.seal()
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("actions.jsonl", "began"),
        ("history.jsonl", "probe"),
        ("history.jsonl", "timestamp_ms"),
        ("links.jsonl", "sequence"),
        ("snapshots/final/snapshot.json", "zxid"),
        ("run.json", "jars"),
        ("run.json", "started_at"),
    ],
)
def test_a_run_that_lacks_what_is_written_of_every_run_is_unknown_and_names_it(
    name: str, field: str, tmp_path: Path
):
    run = unpacked("1.1.1", tmp_path)
    _rewrite(run.path / name, lambda value: value.pop(field, None))

    results = judge(_sealed_again(run))

    assert (results.conforms, results.safe, results.crashes) == (None, None, ())
    assert field in str(results.unknown)
    assert name in str(results.unknown)


@pytest.mark.slow
def test_each_field_of_a_broker_in_a_snapshot_must_be_there(tmp_path: Path):
    run = unpacked("2.0.1", tmp_path)
    name = "snapshots/level/snapshot.json"
    _rewrite(run.path / name, lambda value: value["brokers"]["1"].update(read_from=None))
    _rewrite(run.path / name, lambda value: value["brokers"]["2"].pop("files"))

    said = str(judge(_sealed_again(run)).unknown)

    assert f"{name} lacks 'brokers: 1: read_from'" in said
    assert f"{name} lacks 'brokers: 2: files'" in said


def test_an_act_or_a_field_of_it_that_this_model_does_not_know_is_unknown_and_named(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    action = {"event": "PauseBroker", "broker": 1, "mode": 1}
    number = len((build.run.path / "actions.jsonl").read_text().splitlines()) + 1
    build.run.append("actions.jsonl", {"time": 1.0, "zxid": 0, "step": 0, "action": action})

    said = unknown_of(judge(build.seal()))

    assert f"actions.jsonl:{number}: action: PauseBroker has no field mode" in said


@pytest.mark.slow
def test_a_judgement_comes_back_as_it_was_written(tmp_path: Path):
    run = unpacked("2.0.1", tmp_path)
    results = judge(run)
    folder = write_judgement(run, results)

    assert read_judgement(run, folder.name) == results


def test_a_judgement_that_this_kchaos_cannot_read_is_refused_with_what_to_do(tmp_path: Path):
    run = unpacked("2.0.1", tmp_path)
    folder = write_judgement(run, judge(run))
    (folder / "findings.jsonl").write_text('{"kind": "of-a-later-kchaos", "message": ""}\n')

    with pytest.raises(
        CheckError, match=r"findings\.jsonl:1: .*of-a-later-kchaos.*judge again: kchaos judge"
    ):
        text_report(run)
    assert run.path.joinpath(JUDGEMENTS, "0001", "results.json").is_file()
