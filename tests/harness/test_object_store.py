"""Runs and results on a real object store: what comes back is what went, and nothing is lost."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kchaos.checkers.errors import StoreError
from kchaos.checkers.judge import judge
from kchaos.checkers.packs import pack, packed
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.store import Place, StoredPlace, files_in, replace
from kchaos.harness.campaign import children, schedules
from kchaos.harness.campaign.night import Limits, Night
from kchaos.harness.campaign.schedules import DrawnSchedules
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, MACHINE, UNKNOWN, USAGE
from kchaos.harness.report import write_report
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.summary.lines import lines_in
from kchaos.harness.summary.tables import TABLES, append, rows_at
from tests.golden.stored import unpacked
from tests.support.object_store import (
    BUCKET,
    ObjectStore,
    cutting_off,
    environment_for,
    object_store,
)
from tests.support.stored_plays import StoredPlays

pytestmark = pytest.mark.slow
PAGE = Path(__file__).parents[2] / "docs/tables.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with object_store(tmp_path_factory.mktemp("server")) as store:
        yield store


@pytest.fixture
def place(server: ObjectStore, request: Any, monkeypatch: pytest.MonkeyPatch) -> StoredPlace:
    """A folder of this test's own on the store, which the environment names."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return StoredPlace(BUCKET, request.node.name.replace("[", "-").rstrip("]"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RunDirectory]:
    folder = tmp_path_factory.mktemp("runs")
    made = [unpacked(release, folder) for release in ("1.1.1", "2.8.2")]
    for run in made:
        write_judgement(run, judge(run))
        write_report(run)
    return made


def put(runs: list[RunDirectory], place: StoredPlace) -> list[StoredPlace]:
    packs = [place / f"{run.name}.tar.xz" for run in runs]
    for run, there in zip(runs, packs, strict=True):
        pack(run.path, there)
    return packs


def judged(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[Any]]:
    code = kchaos(["judge", "--json", *map(str, arguments)])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def without_place(line: dict[str, Any]) -> dict[str, Any]:
    return line | {"run": None, "report": None}


def test_a_pack_on_the_store_is_judged_as_the_run_is_and_comes_back(
    runs: list[RunDirectory], place: StoredPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    before = packed(runs[0])
    for run in runs:
        assert kchaos(["pack", str(run.path), "--output", f"{place}/"]) == AS_EXPECTED
    printed = capsys.readouterr().out.splitlines()
    there, here = judged(capsys, place, "--no-spark"), judged(capsys, *[run.path for run in runs])
    assert [line["run"] for line in there[1]] == [f"{place}/{run.name}.tar.xz" for run in runs]
    assert there[0] == here[0] == AS_EXPECTED
    assert [*map(without_place, there[1])] == [*map(without_place, here[1])]
    unpacking, judging = printed[2:4]
    assert kchaos([*unpacking.split()[1:], "--output", str(tmp_path)]) == AS_EXPECTED
    assert judging == f"kchaos judge --no-spark {runs[0].name}"
    assert packed(RunDirectory.open(tmp_path / runs[0].name)) == before


@pytest.mark.spark
@pytest.mark.parametrize("tables", ["on-a-disk", "on-the-store"])
def test_each_task_of_spark_fetches_its_packs_and_the_driver_none(
    tables: str,
    spark: Any,
    runs: list[RunDirectory],
    place: StoredPlace,
    server: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    night = place / "night"
    output: Place = place / "judged" if tables == "on-the-store" else tmp_path / "judged"
    packs = put(runs, night)
    (night / "torn.tar.xz").write_new(packs[0].read_bytes()[:5_000])
    # The session began before the store did.
    for name, value in server.environment.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    original = StoredPlace.read_bytes

    def no_pack(self: StoredPlace) -> bytes:
        assert self not in night.objects()
        return original(self)

    monkeypatch.setattr(StoredPlace, "read_bytes", no_pack)
    code, there = judged(capsys, night, "--spark", "--output", output)
    assert code == UNKNOWN
    _, here = judged(capsys, *[run.path for run in runs])
    assert [*map(without_place, there[:2])] == [*map(without_place, here)]
    assert [line["run"] for line in there] == [*map(str, packs), f"{night}/torn.tar.xz"]
    assert (there[2]["safe"], there[2]["expected"]) == (None, False)
    assert "torn.tar.xz cannot be unpacked" in there[2]["unknown"]
    assert len(files_in(output / "batches", ".parquet")) == 3
    assert (place / "judged/_SUCCESS").exists() is (tables == "on-the-store")
    assert judged(capsys, night, "--spark", "--output", output) == (USAGE, [])


@pytest.mark.spark
def test_a_task_that_the_store_refuses_says_so(
    spark: Any,
    runs: list[RunDirectory],
    place: StoredPlace,
    server: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    others = {**server.environment, "AWS_SECRET_ACCESS_KEY": "another"}
    for name, value in others.items():
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    command = ["judge", str(runs[0].path), "--spark", "--output", str(place / "judged")]
    assert kchaos(command) == UNKNOWN
    assert "refuses these credentials" in capsys.readouterr().err.splitlines()[0]
    assert not (place / "judged/_SUCCESS").exists()


def changed_in_the_middle(pack: bytes) -> bytes:
    middle = len(pack) // 2
    return pack[:middle] + bytes([pack[middle] ^ 1]) + pack[middle + 1 :]


SPOILT: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda pack: pack[: len(pack) // 2],
    "changed": changed_in_the_middle,
    "no-pack": lambda _: b"no archive",
    "empty": lambda _: b"",
}
"""What became of a pack, by how."""


def test_what_is_no_whole_pack_is_unknown_and_the_others_are_judged(
    runs: list[RunDirectory], place: StoredPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    whole = put(runs, place)[1]
    bad = {f"{how}-bad": place / f"{how}-bad.tar.xz" for how in SPOILT}
    for how, file in zip(SPOILT, bad.values(), strict=True):
        file.write_new(SPOILT[how](packed(runs[0])))
    code, lines = judged(capsys, place, "--no-spark")
    assert code == UNKNOWN
    of_bad = {line["run"]: line for line in lines if line["unknown"]}
    assert of_bad.keys() == {*map(str, bad.values())}
    for file, line in of_bad.items():
        assert (line["safe"], line["conforms"], line["expected"]) == (None, None, False)
        assert f"{file} cannot be unpacked" in line["unknown"]
    assert [line["expected"] for line in lines if not line["unknown"]] == [True, True]
    assert kchaos(["tables", f"{place}", "--output", str(tmp_path)]) == AS_EXPECTED
    capsys.readouterr()
    told = {line.run: line for line in lines_in(place) if line.unknown}
    assert told.keys() == bad.keys()
    for name, unread in told.items():
        assert unread.safe is None
        assert f"{bad[name]} cannot be unpacked" in str(unread.unknown)
    assert judged(capsys, whole, "--no-spark")[0] == AS_EXPECTED


def test_a_download_that_breaks_off_is_unknown_and_ends_what_would_tell_it_as_a_result(
    runs: list[RunDirectory],
    place: StoredPlace,
    server: ObjectStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    (there,) = put(runs[:1], place)
    assert there.size() > 10_000
    with cutting_off(server.port, 8_000) as port:
        monkeypatch.setenv("AWS_ENDPOINT_URL", environment_for(port)["AWS_ENDPOINT_URL"])
        code, (line,) = judged(capsys, place, "--no-spark")
        assert code == UNKNOWN
        assert (line["safe"], line["conforms"], line["expected"]) == (None, None, False)
        assert str(there) in line["unknown"]
        assert "broke off" in line["unknown"]
        # A row or a line that says unknown would stay when the store answers again.
        tables = tmp_path / "tables"
        assert kchaos(["tables", str(place), "--output", str(tables)]) == MACHINE
        assert [file for file in tables.rglob("*") if file.suffix] == []
        assert kchaos(["summary", str(place), "--output", str(tmp_path)]) == MACHINE


@pytest.mark.parametrize(
    ("changes", "where", "told"),
    [
        ({}, "s3://nobody-made-it/night", "has no bucket nobody-made-it"),
        ({}, f"s3://{BUCKET}/nothing", "holds no run"),
        (
            {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None},
            f"s3://{BUCKET}/night",
            "wants credentials, and none are set: AWS_ACCESS_KEY_ID",
        ),
        ({"AWS_SECRET_ACCESS_KEY": "another"}, f"s3://{BUCKET}/night", "refuses these credentials"),
        (
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},
            f"s3://{BUCKET}/night",
            "(http://127.0.0.1:9) does not answer",
        ),
        ({}, "s3:///night", "is no place such as"),
    ],
    ids=["no-bucket", "no-pack", "no-credentials", "other-credentials", "no-store", "no-place"],
)
def test_what_is_wrong_with_the_store_is_told_before_anything_is_judged_or_played(
    changes: dict[str, str | None],
    where: str,
    told: str,
    place: StoredPlace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in changes.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    usage = told in ("holds no run", "is no place such as")
    assert kchaos(["judge", where]) == (USAGE if usage else MACHINE)
    assert told in capsys.readouterr().err
    if told == "holds no run":
        return
    night = ["nightly", "--kafka", "2.8.2", "--runs", "1", "--output", str(tmp_path / "night")]
    for option in ("--store", "--tables", "--baseline"):
        assert kchaos([*night, option, where]) == (USAGE if usage else MACHINE)
        assert told in capsys.readouterr().err
    assert not (tmp_path / "night").exists()


@pytest.mark.parametrize("command", [["summary"], ["unpack"], ["nightly", "--kafka", "2.8.2"]])
def test_what_goes_to_a_disk_alone_is_not_written_to_a_folder_named_s3(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    there = [] if "nightly" in command else ["s3://nights/run.tar.xz"]
    assert kchaos([*command, *there, "--output", "s3://nights/out"]) == USAGE
    assert "s3://nights/out is on an object store" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == []


def test_nothing_on_the_store_is_written_over(
    runs: list[RunDirectory], place: StoredPlace, capsys: pytest.CaptureFixture[str]
):
    (there,) = put(runs[:1], place)
    before = there.read_bytes()
    assert kchaos(["pack", str(runs[1].path), "--output", str(there)]) == USAGE
    assert f"{there} exists" in capsys.readouterr().err
    with pytest.raises(StoreError, match="exists with other content"):
        there.write_new(b"another")
    there.write_new(before)
    assert there.read_bytes() == before


def rows_in(place: StoredPlace, table: str) -> list[dict[str, Any]]:
    """The rows of a table by DuckDB, as docs/tables.md has it."""
    import duckdb

    text = PAGE.read_text().partition("## On an object store")[2]
    code = text.partition("```python\n")[2].partition("```")[0]
    exec(code.replace("BUCKET/PREFIX", f"{place.bucket}/{place.key}"), {})
    answer = duckdb.table(table).to_arrow_table().to_pylist()
    return sorted(answer, key=lambda row: json.dumps(row, default=str))


DAY = "2026-01-31"


@pytest.mark.parametrize("number", [1, 2, len(TABLES)])
def test_two_jobs_that_add_the_same_run_at_once_lose_no_rows_and_leave_none_twice(
    number: int, runs: list[RunDirectory], place: StoredPlace, monkeypatch: pytest.MonkeyPatch
):
    """One job does all of its work just before the other writes one of its files."""
    first, second = ((DAY, rows_at(run.path)[1]) for run in runs)
    puts: list[Place] = []

    def meeting(file: Place, content: bytes) -> None:
        puts.append(file)
        if len(puts) == number:
            append([first, second], place)
        replace(file, content)

    append([first, second], place)
    monkeypatch.setattr("kchaos.harness.summary.tables.replace", meeting)
    append([second], place)
    assert len(puts) > number
    for name in TABLES:
        once = sorted(row["run"] for _, of_run in (first, second) for row in of_run[name])
        assert sorted(row["run"] for row in rows_in(place, name)) == once
    assert len(puts) == len(set(puts))


def test_rows_of_a_call_that_ends_before_all_are_there_are_not_shown(
    runs: list[RunDirectory], place: StoredPlace, monkeypatch: pytest.MonkeyPatch
):
    def refusing(file: Place, content: bytes) -> None:
        if "/runs/" in str(file):
            raise StoreError("the store refuses")
        replace(file, content)

    other = RunDirectory.open(runs[0].path).name
    day, rows = rows_at(runs[0].path)
    append([(day, rows)], place)
    before = {name: rows_in(place, name) for name in TABLES}
    again = {**rows, "steps": [], "findings": []}
    with monkeypatch.context() as patch:
        patch.setattr("kchaos.harness.summary.tables.replace", refusing)
        with pytest.raises(StoreError, match="refuses"):
            append([(day, again)], place)
    assert {name: rows_in(place, name) for name in TABLES} == before
    assert before["steps"]
    append([(day, again)], place)
    assert [row["run"] for row in rows_in(place, "runs")] == [other]
    assert rows_in(place, "steps") == []


def test_tables_on_the_store_have_the_rows_of_those_on_a_disk_and_none_twice(
    runs: list[RunDirectory], place: StoredPlace, tmp_path: Path
):
    packs = put(runs, place / "packs")
    here, there = tmp_path / "tables", place / "tables"
    assert kchaos(["tables", f"{place}/packs", "--output", str(there)]) == AS_EXPECTED
    before = {name: rows_in(there, name) for name in TABLES}
    assert {row["run"] for row in before["runs"]} == {run.name for run in runs}
    # Another job has other runs, and one of these again.
    other = unpacked("3.9.1", tmp_path / "other")
    write_judgement(other, judge(other))
    append([rows_at(other.path), rows_at(packs[0])], there)
    append([rows_at(packs[1])], there)
    after = {name: rows_in(there, name) for name in TABLES}
    append([rows_at(run.path) for run in [*runs, other]], here)
    for name in TABLES:
        ours = [row for row in after[name] if row["run"] != other.name]
        assert [*map(as_judged, ours)] == [*map(as_judged, before[name])]
        from pyarrow import dataset

        local = dataset.dataset(here / name, partitioning="hive").to_table()
        assert len(after[name]) == len(local), name
    assert min(len(after[name]) for name in ("runs", "findings", "steps", "writes")) >= 3


def as_judged(row: dict[str, Any]) -> dict[str, Any]:
    """Without the time at which a judgement was written: a pack does not keep it."""
    return row | {"judged": None}


@pytest.fixture
def play(runs: list[RunDirectory], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays a night of stored runs; the stand-in is its attribute."""
    monkeypatch.setattr(schedules, "fetch", lambda kafka, **_: SimpleNamespace(release=kafka))

    def play(name: str, *, before: Any = lambda _: None, **more: Any) -> Any:
        folder = tmp_path / name
        play.stored = StoredPlays([run.path for run in runs], folder)  # type: ignore[attr-defined]
        play.stored.before = before  # type: ignore[attr-defined]
        monkeypatch.setattr(children, "Children", lambda **_: play.stored)  # type: ignore[attr-defined]
        night = Night(
            plan=DrawnSchedules(
                kafkas=("2.8.2",), seed=7, mixes={"cuts": 1.0}, steps=2, gated=True
            ),
            folder=folder,
            limits=Limits(for_s=None, runs=4, keep=0, max_bytes=None),
            say=lambda _: None,
            done=lambda _: None,
            **more,
        )
        return night.play(side_by_side=1, options=RunOptions(runs_directory=folder))

    return play


def summary_in(folder: Path) -> dict[str, Any]:
    """What a summary says, but for where its runs and their reports lie.

    A stored run has a seed of its own, which a summary takes from its directory.
    """
    told: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    elsewhere = dict.fromkeys(("place", "link", "seed"))
    return told | {"lines": [line | elsewhere for line in told["lines"]]}


def test_a_night_on_the_store_is_summarised_judged_and_compared_from_there(
    play: Any, place: StoredPlace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made = play("night", store=place / "monday", tables=place / "tables")
    names = {str(each).removeprefix(f"{place}/monday/") for each in (place / "monday").objects()}
    # What is not safe is kept, the first and the third.
    packs = {f"run-{number}.tar.xz" for number in (1, 3)}
    pages = {"summary.html", "summary.md", "summary.json", "junit.xml", "night.json"}
    reports = {f"run-{number}/report.html" for number in (1, 3)}
    assert names == packs | reports | pages | {"night.jsonl"}
    # As of all parts of a night, each in its own folder.
    assert kchaos(["summary", f"{place}", "--output", str(tmp_path / "again")]) == 1
    # Causes are read in run directories, and the store has packs.
    night = summary_in(tmp_path / "night") | {"advice": []}
    assert summary_in(tmp_path / "again") == night
    assert kchaos(["summary", f"{place}/monday"]) == USAGE
    code, lines = judged(capsys, place, "--no-spark")
    assert (code, {line["run"].rpartition("/")[2] for line in lines}) == (AS_EXPECTED, packs)
    assert {row["release"] for row in rows_in(place / "tables", "runs")} == {"1.1.1", "2.8.2"}
    assert made.answer == "fails"
    later = play("next", baseline=place / "monday", fail_on=["new"], store=place / "tuesday")
    assert later.answer == "passes"


def test_a_second_night_in_the_same_place_is_refused_before_it_is_played(
    play: Any, place: StoredPlace
):
    play("night", store=place)
    before = {each: each.read_bytes() for each in place.objects()}
    with pytest.raises(UsageError, match="has a night already"):
        play("another", store=place)
    assert play.stored.played == []
    assert {each: each.read_bytes() for each in place.objects()} == before


def test_a_night_that_the_store_does_not_take_is_put_there_by_the_same_command(
    play: Any, place: StoredPlace, server: ObjectStore, tmp_path: Path
):
    def in_the_way(number: int) -> None:
        if number == 4:
            (place / "run-3.tar.xz").write_new(b"of somebody else")

    with pytest.raises(StoreError, match=r"run-3\.tar\.xz exists with other content"):
        play("night", store=place, before=in_the_way)
    assert place / "night.jsonl" not in place.objects()
    assert (tmp_path / "night/summary.html").is_file()
    (server.folder / BUCKET / place.key / "run-3.tar.xz").unlink()
    play("night", store=place)
    assert play.stored.played == []
    assert {place / "night.jsonl", place / "run-3.tar.xz"} <= {*place.objects()}
