"""A night: played until its budget is used up, told in a summary, and little of it kept."""

import errno
import fcntl
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.results import write_judgement
from kchaos.checkers.run_directory import MANIFEST
from kchaos.clusters.disk import mounting
from kchaos.harness.campaign import campaign, children, night, schedules
from kchaos.harness.campaign.corpus import read_corpus
from kchaos.harness.campaign.night import Limits, Night, seed_in
from kchaos.harness.campaign.schedules import DrawnSchedules, Due
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.commands.cli_options import bytes_in, seconds_in
from kchaos.harness.exits import USAGE
from kchaos.harness.run.runner import delete_run, link_latest
from kchaos.harness.seeds import own_version
from kchaos.harness.summary.lines import LINES, LOCK, append_line, read_lines, was_killed
from tests.golden.stored import unpacked
from tests.support.run_lines import found
from tests.support.stored_plays import StoredPlays

pytestmark = pytest.mark.slow

PLAN = DrawnSchedules(kafkas=("2.8.2",), seed=7, mixes={"cuts": 1.0}, steps=2, gated=True)


@pytest.fixture(autouse=True)
def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "fetch", lambda kafka, **_: SimpleNamespace(release=kafka))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("stored")
    made = [unpacked(release, folder) for release in ("1.1.1", "2.8.2")]
    for run in made:
        write_judgement(run, k.judge(run))
    return [run.path for run in made]


@pytest.fixture
def play(runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays a night of stored runs into `tmp_path`/night; the stand-in is its attribute."""
    folder = tmp_path / "night"
    stored = StoredPlays(runs, folder)
    monkeypatch.setattr(children, "Children", lambda **_: stored)

    def play(**more: Any) -> Any:
        given: dict[str, Any] = {
            "plan": PLAN,
            "folder": folder,
            "limits": Limits(for_s=None, runs=4, keep=None, max_bytes=None),
            "say": lambda _: None,
            "done": lambda _: None,
        }
        night = Night(**{**given, **more})
        return night.play(side_by_side=1, options=k.RunOptions(runs_directory=folder))

    play.stored, play.folder = stored, folder  # type: ignore[attr-defined]
    return play


def kept(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("run-*"))


def test_a_night_has_seeds_lines_a_summary_and_an_answer(play: Any):
    summary = play()
    assert [line.seed for line in play.stored.played] == [7, 8, 9, 10]
    assert summary.answer == "fails"
    assert {path.name for path in play.folder.iterdir() if path.suffix} == {
        *("night.json", "night.jsonl", "summary.html", "summary.md", "summary.json", "junit.xml")
    }
    lines = list(read_lines(play.folder / LINES))
    assert [(line.acts, line.kafka, line.safe) for line in lines[:2]] == [
        (2, "2.8.2", False),
        (2, "2.8.2", True),
    ]
    assert json.loads((play.folder / "night.json").read_text())["seed"] == 7


def test_a_night_with_a_corpus_runs_mutants_of_what_it_kept(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("kchaos.harness.campaign.corpus.FIRST_RUNS", 1)
    corpus, said = tmp_path / "corpus.json", list[str]()
    limits = Limits(for_s=None, runs=8, keep=None, max_bytes=None)
    play(corpus=corpus, limits=limits)
    cases = [scenario.case for scenario in play.stored.played]
    assert "mutated" not in cases[0]
    assert 2 < sum("mutated" in case for case in cases) < 8
    content = read_corpus(corpus)
    assert content.counts("2.8.2", "zookeeper").runs == 8
    assert 0 < len(content.kept) < 8

    shutil.rmtree(play.folder)
    play(corpus=corpus, limits=limits, say=said.append)
    assert any(f"has {len(content.kept)} schedules" in text for text in said)
    assert read_corpus(corpus).counts("2.8.2", "zookeeper").runs == 16


def test_a_night_with_another_version_of_a_corpus_ends_before_its_first_run(
    play: Any, tmp_path: Path
):
    corpus = tmp_path / "corpus.json"
    corpus.write_text('{"version": 9}')
    with pytest.raises(k.UsageError, match="version 9"):
        play(corpus=corpus)
    assert play.stored.played == []


def test_the_time_of_drawing_is_told_apart_and_counts_for_the_budget(
    play: Any, monkeypatch: pytest.MonkeyPatch
):
    now = [0.0]

    def drawn(*arguments: Any, **named: Any) -> k.Scenario:
        now[0] += 13
        return k.draw(*arguments, **named)

    def before(_number: int) -> None:
        now[0] += 50

    monkeypatch.setattr(schedules, "draw", drawn)
    for module in (campaign, night):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    play.stored.before = before
    # After two of them 61 s are left, which is less than one of them has taken.
    play(limits=Limits(for_s=187.0, runs=4, keep=None, max_bytes=None))
    lines = list(read_lines(play.folder / LINES))
    assert [(line.wall_s, line.drawn_s) for line in lines] == [(50, 13)] * 2


def test_the_same_values_give_the_same_schedules_and_each_kafka_every_seed():
    plan = replace(PLAN, kafkas=("a", "b"), seed=3, mixes={"x": 1, "y": 2})
    releases = {"a": "2.8.2", "b": "3.9.1"}
    first, again = plan.due(releases), plan.due(releases)
    drawn = [next(first) for _ in range(60)]
    assert drawn == [next(again) for _ in range(60)]
    assert [(each.seed, each.kafka) for each in drawn[:4]] == [
        (3, "a"),
        (3, "b"),
        (4, "a"),
        (4, "b"),
    ]
    assert 20 < [each.mix for each in drawn].count("y") < 60


def test_a_night_with_kraft_has_the_mixes_that_are_drawn_there():
    mixes = {"formats": 1.0, "mixed": 1.0}
    with_kraft = replace(PLAN, kafkas=("a",), mixes=mixes, mode="kraft").due({"a": "3.9.1"})
    either = replace(PLAN, mixes=mixes).due({"2.8.2": "2.4.1"})

    assert {next(with_kraft).mix for _ in range(20)} == {"mixed"}
    assert {next(either).mix for _ in range(20)} == {"formats", "mixed"}
    with pytest.raises(k.UsageError, match=r"none of the mixes is for 4\.4\.0: formats: b"):
        replace(PLAN, mixes={"formats": 1.0}).mixes_of("4.4.0")


def test_shards_share_all_seeds_and_no_seed():
    seeds = []
    for part in (1, 2, 3):
        due = replace(PLAN, seed=10, shard=(part, 3)).due({"2.8.2": "2.8.2"})
        seeds.append([next(due).seed for _ in range(4)])
    assert sorted(seed for part in seeds for seed in part) == list(range(10, 22))


def test_only_runs_in_which_something_is_wrong_stay(play: Any):
    play(limits=Limits(for_s=None, runs=4, keep=0, max_bytes=None))
    assert kept(play.folder) == ["run-1", "run-3"]
    told = json.loads((play.folder / "summary.json").read_text())
    assert [line["run"] for line in told["lines"]] == ["run-1", "run-2", "run-3", "run-4"]


def test_a_nights_tables_have_also_the_runs_that_were_deleted(play: Any, tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    limits = Limits(for_s=None, runs=4, keep=0, max_bytes=None)
    play(limits=limits, tables=tmp_path / "tables")
    files = (tmp_path / "tables/runs").glob("day=*/*.parquet")
    assert sum(parquet.ParquetFile(file).metadata.num_rows for file in files) == 4


def test_the_newest_good_runs_stay_as_many_as_asked(play: Any):
    play(limits=Limits(for_s=None, runs=6, keep=1, max_bytes=None))
    assert kept(play.folder) == ["run-1", "run-3", "run-5", "run-6"]


def test_latest_leads_to_a_run_that_is_there(play: Any):
    play(limits=Limits(for_s=None, runs=4, keep=None, max_bytes=None))
    link_latest(play.folder, play.folder / "run-4")
    delete_run(play.folder / "run-2")
    assert (play.folder / "latest").resolve().name == "run-4"
    delete_run(play.folder / "run-4")
    assert (play.folder / "latest").resolve().name in ("run-1", "run-3")
    for number in (1, 3):
        delete_run(play.folder / f"run-{number}")
    assert not (play.folder / "latest").is_symlink()


def test_what_is_too_large_goes_but_for_the_last_that_shows_a_bug(play: Any):
    summary = play(limits=Limits(for_s=None, runs=9, keep=None, max_bytes=1))
    assert kept(play.folder) == ["run-1"]
    assert "more than --max-size" in summary.warnings[0]


def test_a_play_that_could_not_end_in_time_is_not_begun(play: Any, monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])

    def took(number: int) -> None:
        now[0] += 100 if number == 1 else 40

    play.stored.before = took
    play(limits=Limits(for_s=230, runs=None, keep=None, max_bytes=None))
    assert len(play.stored.played) == 2


def test_what_plays_when_the_budget_is_used_up_is_ended(play: Any, monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(campaign, "_LOOK_S", 0.01)

    killed_before = play.folder / "killed-before"
    killed_before.mkdir(parents=True)
    (killed_before / "run.json").write_text("{}")

    def hang(number: int) -> None:
        if number == 2:
            (begun := play.folder / "begun-and-stopped").mkdir()
            (begun / "run.json").write_text("{}")
            now[0] = 1000.0
            assert play.stored.stopped.wait(30)
            raise KeyboardInterrupt

    play.stored.before = hang
    summary = play(limits=Limits(for_s=500, runs=None, keep=None, max_bytes=None))
    assert "ended without a result: seed 8 on 2.8.2 (cuts)" in summary.warnings[0]
    assert [line.run for line in summary.lines] == ["run-1", "killed-before"]
    # It is played again; what was killed before stays, and is told by each summary.
    left = {path.name for path in play.folder.iterdir() if (path / "run.json").is_file()}
    assert left == {"run-1", "killed-before"}


def test_a_night_that_goes_on_says_so_until_it_ends(play: Any):
    seen: list[tuple[bool, bool]] = []

    def look(_number: int) -> None:
        seen.append(((play.folder / LOCK).stat().st_size > 0, was_killed(play.folder)))

    play.stored.before = look
    play(limits=Limits(for_s=None, runs=2, keep=None, max_bytes=None))
    assert seen == [(True, False)] * 2
    assert (play.folder / LOCK).stat().st_size == 0
    assert not was_killed(play.folder)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        k.MachineError("no memory"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_what_ends_a_night_leaves_what_there_is(play: Any, error: BaseException):
    def fail(number: int) -> None:
        if number == 3:
            raise error

    play.stored.before = fail
    with pytest.raises(type(error)):
        play()
    told = json.loads((play.folder / "summary.json").read_text())
    assert [line["run"] for line in told["lines"]] == ["run-1", "run-2"]
    assert "the night ended early" in told["warnings"][0]
    assert play.stored.stopped.is_set()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The folder of the night on a disk of its own, with room for two runs or three."""
    folder = tmp_path / "night"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"this machine lets us mount nothing: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.needs("namespaces")
def test_a_disk_that_is_full_in_the_middle_of_a_night_ends_it_and_no_run_that_ended_is_lost(
    play: Any, small_disk: Path
):
    limits = Limits(for_s=None, runs=20, keep=None, max_bytes=None)
    with pytest.raises(OSError, match="No space left on device"):
        play(limits=limits)
    ended = [line.run for line in read_lines(small_disk / LINES)]
    assert 1 < len(ended) < 20
    # The stand-in leaves what a play leaves: a run without its manifest, of that schedule.
    half = small_disk / f"run-{len(ended) + 1}"
    (half / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(half / "judgements", ignore_errors=True)
    shutil.copy(small_disk / f"run-{len(ended)}" / "run.json", half / "run.json")

    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    more = Limits(for_s=None, runs=len(ended) + 1, keep=None, max_bytes=None)
    summary = play(limits=more)
    assert [line.run for line in summary.lines] == [*ended, f"run-{len(ended) + 2}"]
    seeds = [line.seed for line in read_lines(small_disk / LINES)]
    assert seeds == [7 + number for number in range(len(ended) + 1)]


def test_a_full_disk_for_tables_leaves_the_summary_and_all_rows(play: Any, tmp_path: Path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "runs").write_text("where a folder belongs")
    limits = Limits(for_s=None, runs=2, keep=0, max_bytes=None)
    said: list[str] = []
    with pytest.raises(OSError, match="tables"):
        play(limits=limits, tables=tmp_path / "tables", say=said.append)
    told = json.loads((play.folder / "summary.json").read_text())
    assert [line["run"] for line in told["lines"]] == ["run-1", "run-2"]
    assert "the same command adds them" in said[-1]
    assert kept(play.folder) == ["run-1"]
    # There is room again: the same command plays nothing, and adds the rows of deleted runs.
    (tmp_path / "tables" / "runs").unlink()
    play(limits=limits, tables=tmp_path / "tables")
    assert len(play.stored.played) == 2
    (file,) = (tmp_path / "tables/runs").glob("day=*/*.parquet")
    assert parquet.ParquetFile(file).metadata.num_rows == 2
    assert not (play.folder / ".rows").exists()


def test_a_night_notes_the_rules_of_the_model_in_force(play: Any):
    play(limits=Limits(for_s=None, runs=1, keep=None, max_bytes=None))
    (line,) = read_lines(play.folder / LINES)
    assert "KIP-101" in (line.rules or {})["in_force"]


def test_what_a_baseline_found_is_due_before_anything_else(play: Any, tmp_path: Path):
    bug = found("divergence", fingerprint="f1")
    red = PLAN.line_of(Due(seed=99, kafka="2.8.2", release="2.8.2", mix="cuts"))
    red = replace(red, run="red", safe=False, findings=(bug,), played_by=own_version())
    others = [
        replace(red, run="of-another-version", seed=98, played_by="another"),
        replace(red, run="longer", seed=97, acts=40),
        replace(red, run="elsewhere", seed=96, kafka="1.1.1"),
    ]
    file = tmp_path / "before.jsonl"
    for line in (replace(red, run="older", seed=95), *others, red):
        append_line(file, replace(line, started_at=1.79e9 + (line.seed or 0)))

    play(baseline=file)

    assert [line.seed for line in play.stored.played] == [99, 7, 8, 9]


def test_a_night_goes_on_where_it_ended(play: Any):
    play(limits=Limits(for_s=None, runs=2, keep=None, max_bytes=None))
    summary = play(limits=Limits(for_s=None, runs=4, keep=None, max_bytes=None))
    assert [line.seed for line in play.stored.played] == [7, 8, 9, 10]
    assert len(summary.lines) == 4
    assert seed_in(play.folder) == 7


def test_a_play_that_fails_is_unknown_and_the_night_goes_on(play: Any):
    def fail(number: int) -> None:
        if number == 2:
            raise RuntimeError("a run ended with exit code 70")

    play.stored.before = fail
    summary = play(fail_on=["unknown"])
    assert summary.answer == "unknown"
    assert [line.unknown for line in summary.failing] == [
        "the run failed: a run ended with exit code 70"
    ]
    assert len(summary.lines) == 4


def test_another_night_in_the_folder_is_refused_and_stays(play: Any):
    play()
    before = (play.folder / "night.json").read_bytes()
    other = replace(PLAN, kafkas=("3.9.1",))
    with pytest.raises(k.UsageError, match="has another night \\(kafkas"):
        play(plan=other)
    assert (play.folder / "night.json").read_bytes() == before


def test_two_nights_at_once_in_a_folder_are_refused(play: Any):
    play.folder.mkdir()
    with (play.folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(k.UsageError, match="another kchaos runs a night"):
            play()
    assert play.stored.played == []


def test_a_budget_that_is_too_short_for_one_run_is_refused(play: Any):
    with pytest.raises(k.UsageError, match="--for 10s is too short"):
        play(limits=Limits(for_s=10, runs=None, keep=None, max_bytes=None))
    assert not play.folder.exists()


def test_slow_disks_are_refused_before_the_first_play_where_no_disk_can_be_slow(
    play: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mounting, "_DEVICE", play.folder / "no-fuse")
    with pytest.raises(k.MachineError, match=r"the mix slow-disks cannot be run here: .*no-fuse"):
        play(plan=replace(PLAN, mixes={"cuts": 1000.0, "slow-disks": 1.0}))
    assert not play.folder.exists()


def test_a_mix_that_is_not_drawn_for_a_release_is_named_before_the_first_play():
    plan = replace(PLAN, kafkas=("0.10.2.2",), mixes={"cuts": 1000.0, "upgrades": 1.0})
    assert [*plan.begins(["0.10.2.2"])] == [
        "0.10.2.2: the mix upgrades is left out: it begins on the release line before, and none "
        "is known"
    ]
    assert {*plan.mixes_of("0.10.2.2")} == {"cuts"}


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--for", "soon"],
        ["--for", ""],
        ["--runs", "1", "--shard", "2/5"],
        ["--runs", "1", "--shard", "6/5", "--seed", "1"],
        ["--runs", "1", "--max-size", "big"],
        ["--runs", "1", "--keep", "some"],
        ["--runs", "1", "--mix", "nothing"],
        ["--runs", "1", "--mix", "cuts=many"],
        ["--runs", "1", "--fail-on", "new"],
    ],
)
def test_bad_options_are_refused_before_anything_is_made(options: list[str], tmp_path: Path):
    folder = tmp_path / "night"
    assert kchaos(["nightly", "--kafka", "2.8.2", "--output", str(folder), *options]) == USAGE
    assert not folder.exists()


def test_durations_and_sizes_are_read():
    assert [seconds_in(text) for text in ("2h", "1h30m", "45s")] == [7200, 5400, 45]
    assert [bytes_in(text) for text in ("3K", "500M", "2G")] == [3 << 10, 500 << 20, 2 << 30]
