"""The command line: what it refuses, and with which exit code."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.front.doctor import Examined
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.commands.cli import cli, run
from kchaos.harness.commands.cli_options import has_colour
from tests.support.processes import MARK, marked
from tests.support.report_runs import judged

N20 = ["reproduce", "KAFKA-6361", "--case", "n20", "--no-spark", "--kafka"]
KCHAOS = [sys.executable, "-m", "kchaos"]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["reproduce", "KAFKA-1"], 64, "kchaos list"),
        (["reproduce", "KAFKA-6361", "--case", "n1"], 64, "known: n15"),
        (["reproduce", "KAFKA-6361", "--kafka", "1.1.9.9"], 64, "lines 0.10.2, 0.11.0"),
        (["reproduce", "KAFKA-6361", "--kafka", "2.0"], 64, "did you mean 2.0.1?"),
        (["reproduce", "KAFKA-6361", "--kafka", "v2.8.2"], 64, "did you mean 2.8.2?"),
        (["up", "--kafka", "4.4"], 64, "did you mean 4.4.0?"),
        ([*N20, "2.8.2", "--mode", "kraft"], 64, "2.8.2 does not run with KRaft here"),
        ([*N20, "4.4.0", "--mode", "zookeeper"], 64, "4.4.0 has no ZooKeeper any more"),
        (["reproduce", "KAFKA-6361", "--protocol", "7"], 64, "no known Kafka release"),
        (["reproduce", "KAFKA-6361", "--runs", "0"], 64, "--runs"),
        (["reproduce"], 64, "NAME"),
        (["no-such-command"], 64, "no-such-command"),
        (["replay", "no-such-run"], 64, "no-such-run"),
        (["judge", "no-such-run", "--no-spark"], 64, "no-such-run"),
        (["judge"], 64, "--history FILE"),
        (["judge", "a-run", "--history", "a.edn"], 64, "--history FILE"),
        (["judge", "--history", "no-such.edn"], 64, "no-such.edn cannot be read"),
        (["judge", "a-run", "--no-spark", "--output", "x"], 64, "or --no-spark"),
        (["judge", "--history", "a.edn", "--master", "local"], 64, "judges no histories"),
        (["report", "no-such-run"], 64, "no-such-run"),
        (["report", "--text", "--open"], 64, "give either"),
        ([*N20, "1.1.1", "--protocol", "2.0.0"], 64, "1.1.1 was published and has its own"),
        (["chaos", "--kafka", "1.1.1", "--rate", "5"], 64, "go with --free"),
        (["up", "--kafka", "0.7"], 64, "0.7"),
        (["up", "--kafka", "1.1.1", "--kafka", "2.0.1", "--brokers", "3"], 64, "for each broker"),
        (["up", "--kafka", "3.9.1", "--judge"], 64, "--judge -- ./my_test.sh"),
        (["up", "--kafka", "3.9.1", "./my_test.sh"], 64, "--judge -- ./my_test.sh"),
        (["up", "--kafka", "3.9.1", "--judge", "--", "./gone.sh"], 64, "no program ./gone.sh"),
        (["chaos", "--kafka", "0.7"], 64, "0.7"),
        (["chaos"], 64, "--kafka"),
        (["chaos", "--kafka", "1.1.1", "--mix", "all"], 64, "'zombies'"),
        (["shrink", "no-such-run"], 64, "no-such-run"),
    ],
)
def test_bad_input_is_refused_with_the_remedy(
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "Traceback" not in captured.err
    assert captured.out == ""


ACKNOWLEDGED = "{:process 0, :type :ok, :f :send, :value [[:send 3 [0 7]] [:send 3 [1 8]]]}\n"


@pytest.mark.parametrize(
    ("polled", "code", "answer"),
    [("[0 7] [1 8]", 0, "yes"), ("[1 8]", 1, "no"), ("[0 7] [1 8] [2 9]", 2, "unknown")],
)
def test_a_history_of_clients_is_judged(
    polled: str, code: int, answer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "history.edn"
    poll = f"{{:process 1, :type :ok, :f :poll, :value [[:poll {{3 [{polled}]}}]]}}"
    file.write_text(ACKNOWLEDGED + poll)

    assert run(["judge", "--history", str(file)]) == code
    told = capsys.readouterr().out
    assert told.endswith(f"valid: {answer}\n")
    assert ("lost-write: value 7 was sent to key 3" in told) is (code == 1)

    assert run(["judge", "--json", "--history", str(file)]) == code
    line = json.loads(capsys.readouterr().out)
    assert line["valid"] is {0: True, 1: False, 2: None}[code]


def test_a_broken_distribution_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "kafka" / "libs").mkdir(parents=True)
    arguments = ["reproduce", "KAFKA-6361", "--kafka", str(tmp_path / "kafka")]
    assert run([*arguments, "--runs-dir", str(tmp_path / "runs")]) == 64
    assert str(tmp_path / "kafka") in capsys.readouterr().err


def test_an_empty_cache_offline_is_the_machines_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    arguments = ["reproduce", "KAFKA-6361", "--kafka", "1.1.1", "--offline"]
    assert run([*arguments, "--runs-dir", str(tmp_path / "runs")]) in (64, 69)
    assert "offline" in capsys.readouterr().err


@pytest.mark.parametrize("written", [1, 2, 99])
def test_a_run_of_another_format_is_refused_by_its_number_and_what_to_do(
    written: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "run.json").write_text(f'{{"format": {written}}}')
    assert run(["judge", "--no-spark", str(tmp_path)]) == 64
    said = capsys.readouterr().err
    assert f"run.json has format {written}, and this kchaos reads format 3 alone" in said
    assert f"run its scenario again: kchaos replay {tmp_path}" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt("interrupted; killed: play 1"), "kchaos: interrupted; killed: play 1"),
        (KeyboardInterrupt(), "kchaos: interrupted; everything was healed and stopped"),
    ],
)
def test_an_interrupt_that_says_more_is_not_said_to_have_left_all_healed(
    error: KeyboardInterrupt,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    def interrupted(**_options: object) -> None:
        raise error

    monkeypatch.setattr(cli.commands["list"], "callback", interrupted)
    assert run(["list"]) == 130
    assert capsys.readouterr().err.strip() == said


def test_an_interrupted_run_is_judged_unknown(tmp_path: Path):
    fields = {"entry": "x", "case": "", "release": "1.1.1", "driver": "local", "seed": 0}
    RunDirectory.create(tmp_path / "run", run=fields, scenario={"expectation": None})
    assert run(["judge", "--no-spark", str(tmp_path / "run")]) == 2


def test_the_catalogue_is_listed_as_json_lines(capsys: pytest.CaptureFixture[str]):
    assert run(["list", "--json"]) == 0
    names = [json.loads(line)["entry"] for line in capsys.readouterr().out.splitlines()]
    assert names == list(CATALOGUE)


def test_words_search_the_catalogue(capsys: pytest.CaptureFixture[str]):
    assert run(["list", "leader epoch", "HOLE", "compact", "--json"]) == 0
    found = [json.loads(line)["entry"] for line in capsys.readouterr().out.splitlines()]
    assert found == ["KIP-279-compaction"]
    assert run(["list", "committed-loss", "KIP-903"]) == 0
    title, _, shows, *_ = capsys.readouterr().out.splitlines()
    assert title.startswith("KIP-903: A replica that has lost its disk")
    assert shows == "  red on 3.4.1: committed-loss"
    assert run(["list", "committed-loss", "no such word"]) == 64
    assert "no known bug has committed-loss and no such word" in capsys.readouterr().err


def test_the_help_has_the_commands_of_everybody_first(capsys: pytest.CaptureFixture[str]):
    assert run(["--help"]) == 0
    first, rest = capsys.readouterr().out.partition("Commands:")[2].split("More:")
    names = [[line.split()[0] for line in part.split("\n") if line] for part in (first, rest)]
    assert (len(names[0]), names[0][0], sorted(names[1])) == (15, "doctor", names[1])
    assert sorted([*names[0], *names[1]]) == cli.list_commands(cli.make_context("kchaos", ["list"]))


def test_the_catalogue_fits_80_columns(capsys: pytest.CaptureFixture[str]):
    assert run(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[2 : 2 + len(CATALOGUE)]] == list(CATALOGUE)
    assert run(["show", *CATALOGUE]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_the_help_fits_80_columns_and_cuts_no_sentence_off(capsys: pytest.CaptureFixture[str]):
    for command in ([], *([name] for name in cli.commands)):
        assert run([*command, "--help"]) == 0
        usage, *lines = capsys.readouterr().out.splitlines()
        assert usage.startswith("Usage:")
        assert max(map(len, [usage, *lines])) <= 80
        assert [line for line in lines if line.endswith("...")] == []


def test_the_doctor_s_answers_fit_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    releases = "Kafka " + ", ".join(CATALOGUE)
    answers = [Examined("cache", True, releases, ""), Examined("Docker", None, releases, "get it")]
    monkeypatch.setattr("kchaos.clusters.front.doctor.examine", lambda: answers)
    assert run(["doctor"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    told = " ".join(out.split())
    assert told == f"yes cache: {releases} - Docker: {releases}; get it"


def test_the_list_marks_each_release_line_by_what_shows_there(capsys: pytest.CaptureFixture[str]):
    assert run(["list"]) == 0
    majors, minors, *rows = capsys.readouterr().out.splitlines()
    marks = next(row for row in rows if row.startswith("KAFKA-6361 "))
    assert marks[minors.index("11")] == "✗"
    assert minors[majors.index("2")] == "0"
    assert marks[majors.index("2")] == "✓"
    assert marks[minors.rindex("9")] == "✓"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("kchaos repro", "reproduce"),
        ("kchaos reproduce kafka-63", "KAFKA-6361"),
        ("kchaos show KIP-101-", "KIP-101-2"),
        ("kchaos reproduce KAFKA-6361 --case n1", "n15"),
        ("kchaos reproduce KAFKA-6361 --kafka 0.11", "0.11.0.3"),
        ("kchaos reproduce KAFKA-6361 --kafka 4.4", "4.4.0"),
        ("kchaos chaos --kafka 2.0", "2.0.1"),
        ("kchaos nightly --kafka 2.0", "2.0.1"),
        ("kchaos up --kafka 2.0", "2.0.1"),
        ("kchaos compose --kafka 2.0", "2.0.1"),
        ("kchaos explore --kafka 2.0", "2.0.1"),
    ],
)
def test_a_shell_completes_words_without_an_error(
    words: str, completed: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("_KCHAOS_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert run([]) == 0
    out, err = capfd.readouterr()
    assert f"plain,{completed}" in out.splitlines()
    assert err == ""


def test_help_has_examples_first_and_what_is_of_the_machine_last(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["reproduce", "--help"]) == 0
    told = capsys.readouterr().out
    order = ["kchaos reproduce KAFKA-6361 --kafka 1.1.1", "Run NAME", "--case", "Machine:"]
    places = [told.index(words) for words in [*order, "--driver"]]
    assert places == sorted(places)


def test_no_tab_imports_the_catalogue(tmp_path: Path):
    words = {"COMP_WORDS": "kchaos reproduce KAFKA-63", "COMP_CWORD": "2"}
    command = [sys.executable, "-X", "importtime", "-m", "kchaos"]
    set_up, tab = (
        subprocess.run(
            command,
            env=os.environ | words | {"_KCHAOS_COMPLETE": what, "KCHAOS_CACHE": str(tmp_path)},
            capture_output=True,
            text=True,
            check=True,
        )
        for what in ("bash_source", "bash_complete")
    )
    assert "kchaos.harness.catalogue" in set_up.stderr
    assert tab.stdout == "plain,KAFKA-6361\n"
    assert "kchaos.harness.catalogue" not in tab.stderr
    assert "kchaos.checkers.model" not in tab.stderr


def test_a_misspelt_bug_is_answered_with_those_that_may_be_meant(
    capsys: pytest.CaptureFixture[str],
):
    assert run(["show", "kafka-636"]) == 64
    assert "did you mean KAFKA-6361?" in capsys.readouterr().err


def test_a_run_that_did_not_end_is_listed_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    fields = {"entry": "x", "case": "", "release": "1.1.1", "driver": "local", "seed": 0}
    scenario = {"expectation": None}
    unsealed, unjudged = (
        RunDirectory.create(tmp_path / name, run=fields, scenario=scenario)
        for name in ("unsealed", "unjudged")
    )
    unjudged.seal()
    assert unjudged.is_sealed
    assert not unsealed.is_sealed

    assert run(["runs", "--runs-dir", str(tmp_path)]) == 0

    told = " ".join(capsys.readouterr().out.split())
    assert "unsealed it did not end: nothing is known" in told
    assert "unjudged not judged yet: kchaos judge" in told


def test_runs_are_listed_and_the_newest_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    older, newer = judged(tmp_path / "older"), judged(tmp_path / "newer")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/actions.jsonl").write_text("")
    described = json.loads((newer.path / "run.json").read_text())
    described["started_at"] = 1 + json.loads((older.path / "run.json").read_text())["started_at"]
    (newer.path / "run.json").write_text(json.dumps(described))

    assert run(["runs", "--runs-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    named = [line.split()[-1] for line in lines if not line.startswith("  ")]
    assert named == ["newer", "older", "torn"]
    assert "brokers 0 and 1 hold different records" in "\n".join(lines)

    assert run(["report", "--runs-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(newer.path / "report.html")
    assert run(["report", "--runs-dir", str(tmp_path / "none")]) == 64


def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert has_colour()
    monkeypatch.setenv("TERM", "dumb")
    assert not has_colour()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not has_colour()


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from kchaos.harness.commands.cli import run\n"
        "run(['reproduce', '--help'])\n"
        "heavy = {'kafka', 'kazoo', 'docker', 'pyspark', 'pyarrow', 'pandas', 'jinja2', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.cluster
def test_ctrl_c_leaves_an_unsealed_run_and_no_process(tmp_path: Path):
    runs = tmp_path / "runs"
    environment = {**os.environ, MARK: str(tmp_path)}
    command = [*KCHAOS, "reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1"]
    child = subprocess.Popen(
        [*command, "--runs-dir", str(runs)],
        env=environment,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    for line in child.stderr:
        if "cut off from each other" in line:
            break
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130, said
    assert "interrupted" in said
    assert not RunDirectory.open(runs / "latest").is_sealed
    deadline = time.monotonic() + 10
    while (left := marked(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == []


@pytest.mark.cluster
@pytest.mark.needs("namespaces")
def test_a_full_disk_is_the_machines_fault_and_loses_nothing(tmp_path: Path):
    small = tmp_path / "small"
    small.mkdir()
    command = f"mount -t tmpfs -o size=48k tmpfs {small} && exec "
    command += " ".join([*KCHAOS, "reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1"])
    # Root of a user namespace alone is no root for CRIU.
    script = f"{command} --driver local --runs-dir {small}/runs"
    check = f"({script}); code=$?; ls {small}/runs/latest/; exit $code"
    done = subprocess.run(
        ["unshare", "--mount", "--map-root-user", "sh", "-c", check],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 69, done.stderr
    assert "No space left on device" in done.stderr
    assert "--runs-dir" in done.stderr
    assert "history.jsonl" in done.stdout
