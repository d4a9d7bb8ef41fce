from pathlib import Path

import pytest

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of

SNAPSHOT = "snapshots/final/snapshot.json"
DAMAGED: list[tuple[str, str, str, str]] = [
    (SNAPSHOT, '"time"', '"tim"', "snapshot.json: time missing"),
    (SNAPSHOT, '"is_final"', '"final"', "snapshot.json: is_final missing"),
    (SNAPSHOT, '"brokers"', '"broker"', "snapshot.json: brokers missing"),
    (SNAPSHOT, '"0": {', '"zero": {', "snapshot.json: brokers has 'zero'"),
    (SNAPSHOT, '"leader"', '"lead"', "snapshot.json: states: t-0: leader missing"),
    (SNAPSHOT, '"t-0"', '"t"', "states has 't', which is no partition"),
    (SNAPSHOT, '"final"', '"last"', "is labelled 'last'"),
    (SNAPSHOT, "{", "", "snapshot.json cannot be read as JSON"),
    ("history.jsonl", '"base_offset"', '"base', "history.jsonl:2 is not JSON"),
    ("history.jsonl", '["both-0"', "[0", "history.jsonl:1: records[0] is no text, but 0"),
    ("history.jsonl", '"base_offset":0', '"base_offset":"0"', "2: base_offset is no whole number"),
    ("links.jsonl", '"api_key"', '"key"', "links.jsonl:1: api_key missing"),
    ("actions.jsonl", '{"event"', '{"happened"', "actions.jsonl:1: action: no event is named None"),
    ("outcome.json", '"state"', '"stat"', "outcome.json: settle: state missing"),
    ("outcome.json", '"reasons": []', '"reasons": [1]', "settle: reasons[0] is no object"),
    (
        "outcome.json",
        '"acknowledged": true',
        '"acknowledged": null',
        "settle: probes[0]: acknowledged is no true or false, but None",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "whole", "damaged", "told"), DAMAGED)
def test_damaged_evidence_is_unknown_and_says_where_without_a_traceback(
    name: str, whole: str, damaged: str, told: str, tmp_path: Path
):
    def damage(run: RunDirectory) -> None:
        text = (run.path / name).read_text()
        assert whole in text
        (run.path / name).write_text(text.replace(whole, damaged, 1))

    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.link(api_key=3, api="Metadata")

    results = judge(build.seal(before=damage))

    assert told in unknown_of(results)
    assert results.crashes == ()


@pytest.mark.parametrize(
    ("whole", "damaged", "told"),
    [
        ('"cluster": {', '"cluster": [1], "c": {', "cluster is no object"),
        ('"brokers": [', '"brokers": [1.5, ', r"cluster: brokers\[0\] is no object, but 1.5"),
    ],
)
def test_a_scenario_of_another_shape_is_refused_by_name(
    whole: str, damaged: str, told: str, tmp_path: Path
):
    def damage(run: RunDirectory) -> None:
        text = (run.path / "scenario.json").read_text()
        assert whole in text
        (run.path / "scenario.json").write_text(text.replace(whole, damaged, 1))

    run = clean_snapshot(clean_run(tmp_path / "run")).seal(before=damage)

    with pytest.raises(RunDirectoryError, match=told):
        judge(run)


@pytest.mark.parametrize("name", ["actions.jsonl", "history.jsonl", "links.jsonl"])
def test_a_line_that_was_cut_off_before_the_seal_is_unknown(name: str, tmp_path: Path):
    def cut(run: RunDirectory) -> None:
        content = (run.path / name).read_bytes()
        (run.path / name).write_bytes(content[:-1])

    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.link(api_key=3, api="Metadata")

    results = judge(build.seal(before=cut))

    assert f"{name}:" in unknown_of(results)
    assert "is cut off: it has no newline" in unknown_of(results)
    assert results.crashes == ()


@pytest.mark.parametrize("name", ["history.jsonl", "outcome.json"])
def test_a_folder_where_a_file_should_be_is_unknown(name: str, tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    (run.path / name).unlink()
    (run.path / name).mkdir()

    results = judge(run)

    assert f"{name} cannot be read" in unknown_of(results)
    assert results.crashes == ()


def test_a_manifest_that_does_not_say_what_a_file_was_is_unknown(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    file = run.path / "manifest.json"
    file.write_text(file.read_text().replace('"sha256"', '"sha1"', 1))

    assert "has no size_bytes and sha256" in unknown_of(judge(run))


def test_a_file_where_judgements_belong_is_told(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    (run.path / "judgements").write_text("")
    results = judge(run)

    with pytest.raises(RunDirectoryError, match=r"no judgement can be written to .*judgements"):
        write_judgement(run, results)
