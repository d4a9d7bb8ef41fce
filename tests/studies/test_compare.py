"""`kchaos compare`: the table, JSON, exit codes, and what is refused."""

import json
from pathlib import Path

import pytest

from kchaos.harness.commands.cli import run
from kchaos.studies.commands.compare import exit_code_for, text_of, to_json
from kchaos.studies.documents import (
    DOCUMENTS,
    Cell,
    Claim,
    Column,
    Comparison,
    Document,
    Result,
    Row,
    SearchBounds,
)

pytestmark = pytest.mark.slow

QUICK = ["--schedules", "0", "--most-states", "0"]


def small(result: Result = Result.RIGHT, holds: bool | None = True) -> Comparison:
    cells = {
        "one": Cell(result=Result.RIGHT, text="right, 1 round", numbers={"rounds": 1}),
        "other": Cell(result=result, text="wrong, 2 rounds", detail=("it asks", "it is lost")),
    }
    return Comparison(
        document="KIP-0",
        title="which of two",
        columns=(Column(key="one", title="the first"), Column(key="other", title="the second")),
        rows=(Row(name="scenario 1", question="Who is right?", cells=cells),),
        claims=(Claim(said="one round", seen="1 round", holds=holds),),
        notes=("nothing else",),
    )


def test_the_text_has_columns_rows_claims_notes_and_how_it_went_wrong():
    text = text_of(small(Result.WRONG))
    assert max(map(len, text.splitlines())) <= 80
    assert "scenario 1     right, 1 round" in text
    assert "confirmed “one round”: 1 round" in text
    assert "scenario 1, other:\n   1. it asks\n   2. it is lost" in text
    assert "scenario 1, one:" not in text


@pytest.mark.parametrize(
    ("comparison", "code"),
    [
        (small(), 0),
        (small(Result.WRONG), 0),
        (small(holds=False), 0),
        (small(Result.UNKNOWN), 2),
        (small(holds=None), 2),
    ],
)
def test_only_what_a_bound_left_open_is_unknown(comparison: Comparison, code: int):
    assert exit_code_for(comparison) == code
    assert to_json(comparison)["complete"] is (code == 0)


def test_an_unknown_document_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]):
    assert run(["compare", "KIP-1"]) == 64
    assert f"known: {', '.join(DOCUMENTS)}" in capsys.readouterr().err


def test_a_run_is_refused_where_a_document_takes_none_or_it_is_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    nothing = str(tmp_path / "nothing")
    assert run(["compare", "KAFKA-7601", "--run", nothing]) == 64
    assert "KAFKA-7601 is compared over its own scenarios" in capsys.readouterr().err
    assert run(["compare", "KIP-279", "--run", nothing]) == 64
    assert "is no run directory" in capsys.readouterr().err


def test_json_is_one_object_on_standard_output_and_progress_is_not(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["compare", "kip-279", "--json", *QUICK]) == 0
    told = capsys.readouterr()
    read = json.loads(told.out)
    assert read["document"] == "KIP-279"
    assert read["rows"][0]["cells"]["alt. 1"]["numbers"]["rounds"] == 2
    assert "the document's scenarios" in told.err


def test_ctrl_c_ends_it_with_its_own_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def interrupted(bounds: SearchBounds, say: object) -> Comparison:
        raise KeyboardInterrupt

    document = Document(name="KIP-279", title="", compare=interrupted)
    monkeypatch.setattr("kchaos.studies.commands.compare.document_named", lambda name: document)
    assert run(["compare", "KIP-279"]) == 130
    assert "Traceback" not in capsys.readouterr().err
