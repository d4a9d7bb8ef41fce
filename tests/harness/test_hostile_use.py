"""Hostile use by a user, a pipe, a signal or a file: a code and a sentence, never a traceback."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.folders import plain, plain_folder
from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.system.interrupts import check_interrupt, interrupts_at_gates
from kchaos.harness.commands.cli import run as run_command
from kchaos.harness.run.scenario import Scenario
from tests.golden.stored import unpacked

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
KCHAOS = (sys.executable, "-m", "kchaos")
SCENARIO = Scenario(
    entry="x", case="", release="1.1.1", cluster=ClusterSpec(brokers=brokers_of("1.1.1")), steps=()
).to_json()


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def _done(command: Sequence[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = _environment(**more)
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def _run(arguments: Sequence[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return _done([*KCHAOS, *arguments], cwd, **more)


def _shell(line: str, cwd: Path) -> int:
    """The exit code of the first command of a pipe."""
    return _done(["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"], cwd).returncode


@pytest.fixture
def refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Runs a command in this process, and returns what it says when it refuses.

    A process of its own takes more than a second.
    """

    def refuse(*arguments: str) -> str:
        monkeypatch.chdir(tmp_path)
        code = run_command([*arguments])
        told = capsys.readouterr().err
        assert code == 64, told
        return told

    return refuse


@pytest.fixture
def unsealed(tmp_path: Path) -> Path:
    fields = {"entry": "x", "case": "", "release": "1.1.1", "driver": "local", "seed": 0}
    return RunDirectory.create(tmp_path / "run", run=fields, scenario={"expectation": None}).path


@pytest.mark.parametrize("end", ["| true", "| head -c 1", ">&-", "2>&- >&-", "2>&1 | true"])
def test_a_reader_that_goes_away_does_not_change_the_code(unsealed: Path, tmp_path: Path, end: str):
    command = f"{' '.join(KCHAOS)} judge --no-spark --json {unsealed} {end}"
    assert _shell(command, tmp_path) == 2
    assert len(RunDirectory.open(unsealed).judgements()) == 1


def test_an_output_that_takes_no_more_is_the_machines_fault(tmp_path: Path):
    done = _done(["sh", "-c", f"{' '.join(KCHAOS)} --version > /dev/full"], tmp_path)
    assert done.returncode == 69, done.stderr
    assert done.stderr.count("No space left on device") == 1
    assert "Traceback" not in done.stderr


def test_json_tells_why_and_progress_goes_beside_it(unsealed: Path, tmp_path: Path):
    """Nor are warnings that are errors any of the command's."""
    command = ["judge", "--no-spark", "--json", str(unsealed)]
    done = _run(command, tmp_path, PYTHONWARNINGS="error")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    line = json.loads(done.stdout)
    assert line["conforms"] is None
    assert "not sealed" in line["unknown"]
    assert Path(line["report"]).is_file()
    assert {"reason", "witness", "started_at", "played_by", "judged_by"} <= line.keys()
    assert "not sealed" in done.stderr


def _changed(**more: Any) -> str:
    return json.dumps({**SCENARIO, **more})


def _step(kind: str, **fields: Any) -> dict[str, Any]:
    return {"step": kind, **fields}


def _injected(fault: str, **fields: Any) -> dict[str, Any]:
    return _step("Inject", name="n", fault={"fault": fault, **fields})


def _produced(**fields: Any) -> dict[str, Any]:
    return _step("Produce", operation="p", topic="t", partition=0, **fields)


def _of_cluster(**fields: Any) -> dict[str, Any]:
    return {"cluster": {**_CLUSTER, **fields}}


_CLUSTER = SCENARIO["cluster"]
_CREATED = _step("CreateTopic", topic="t", assignment=[[0]])
BAD_SCENARIOS = {
    "steps that are a text": (_changed(steps="x"), "no step"),
    "a step that is a number": (_changed(steps=[5]), "no step"),
    "a step without a name": (_changed(steps=[{}]), "nothing is named None"),
    "a count that is a text": (
        _changed(steps=[_CREATED, _produced(records="many", acks=1)]),
        "steps[1]: Produce: records is no whole number, but 'many'",
    ),
    "a field that no fault has": (
        _changed(steps=[_injected("KillBroker", broker=0, foo=1)]),
        "steps[0]: KillBroker has no field foo",
    ),
    "a step that is misspelt": (
        _changed(steps=[_CREATED | {"step": "CreateTopik"}]),
        "steps[0]: nothing is named 'CreateTopik'; did you mean CreateTopic?",
    ),
    "a field that is misspelt": (
        _changed(steps=[_step("CreateTopic", topik="t", assignment=[[0]])]),
        "steps[0]: CreateTopic has no field topik; did you mean topic?",
    ),
    "acks that no broker knows": (
        _changed(steps=[_produced(records=1, acks=7)]),
        "steps[0]: Produce: acks is 7: 1, or -1 for all in-sync replicas",
    ),
    "a fault that is a text": (
        _changed(steps=[_step("Inject", name="n", fault="KillBroker")]),
        "no fault",
    ),
    "an entry that leads elsewhere": (_changed(entry="../../ESC"), "'../../ESC' cannot be part"),
    "an entry that is a number": (_changed(entry=5), "entry is 5; it must be a text"),
    "an unknown field": (_changed(color="red"), "it has no field color"),
    "a field like no other": (_changed(extra=1), "it has no field extra\n"),
    "a misspelt field": (_changed(clusters={}), "no field clusters; did you mean cluster?"),
    "nothing": ("{}", "entry, case, release, cluster, steps missing"),
    "a newer format": (_changed(format=99), "format 99"),
    "an unknown expectation": (_changed(expectation={"save": True}), "save"),
    "a property that is a number": (
        _changed(**_of_cluster(properties={"a": 5})),
        "properties: a is no text, but 5",
    ),
    "a listener for everybody": (
        _changed(**_of_cluster(properties={"listeners": "PLAINTEXT://0.0.0.0:1"})),
        "listeners is kchaos's to set",
    ),
    "a list": ("[]", "it is no object"),
    "no JSON": ("{", "cannot be read as a scenario"),
    "lists in lists": ("[" * 100_000 + "]" * 100_000, "nested deeper than 64"),
    "objects in objects": ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested deeper than 64"),
    "a number that is none": (_changed(expectation={"safe": float("nan")}), "NaN is no number"),
    "a text that is no text": (b"\xff\xfe".decode("latin-1"), "cannot be read as a scenario"),
}


@pytest.mark.parametrize("what", BAD_SCENARIOS)
def test_a_scenario_that_cannot_be_played_is_refused_by_name(
    what: str, tmp_path: Path, refusal: Callable[..., str]
):
    text, said = BAD_SCENARIOS[what]
    (tmp_path / "scenario.json").write_text(text, encoding="latin-1")
    told = refusal("replay", "scenario.json")
    assert "scenario.json" in told
    assert said in told
    assert "Traceback" not in told
    assert [each.name for each in tmp_path.iterdir()] == ["scenario.json"]


@pytest.mark.parametrize("what", ["an unknown field", "lists in lists"])
def test_a_process_that_refuses_a_scenario_ends_with_64(what: str, tmp_path: Path):
    text, said = BAD_SCENARIOS[what]
    (tmp_path / "scenario.json").write_text(text)
    done = _run(["replay", "scenario.json"], tmp_path)
    assert done.returncode == 64, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def _a_link(file: Path) -> None:
    (file.parent / "elsewhere.json").write_text(json.dumps(SCENARIO))
    file.symlink_to(file.parent / "elsewhere.json")


def _an_endless_device(file: Path) -> None:
    file.symlink_to("/dev/zero")


def _a_huge_file(file: Path) -> None:
    with file.open("wb") as opened:
        opened.truncate(1 << 33)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (_a_link, "it is a link"),
        (_an_endless_device, "it is a link"),
        (os.mkfifo, "no file but a folder, a pipe or a device"),
        (_a_huge_file, "at most 268435456 are read at once"),
    ],
)
def test_what_is_no_scenario_s_file_is_neither_followed_nor_read(
    place: Callable[[Path], None], said: str, tmp_path: Path, refusal: Callable[..., str]
):
    (tmp_path / "run").mkdir()
    place(tmp_path / "run" / "scenario.json")
    told = refusal("replay", "run")
    assert "run/scenario.json cannot be read as a scenario" in told
    assert said in told


def test_replaying_says_whose_kafka_it_starts_before_it_does(tmp_path: Path):
    brokers = [{**broker, "kafka": "/somebody/elses/kafka"} for broker in _CLUSTER["brokers"]]
    (tmp_path / "scenario.json").write_text(_changed(cluster={**_CLUSTER, "brokers": brokers}))
    done = _run(["replay", "scenario.json"], tmp_path)
    assert done.returncode != 0
    first, *others = done.stderr.splitlines()
    assert "it starts the Kafka in /somebody/elses/kafka" in first
    assert "/somebody/elses/kafka" in "".join(others)


def _rolled(name: str) -> dict[str, Any]:
    return _injected("RollBroker", broker=0, properties=[[name, "Evil;"]])


_MANAGER = "remote.log.storage.manager.class"
_BROKER = {**_CLUSTER["brokers"][0], "properties": {"metric.reporters": "Evil"}}
_OF_A_LISTENER = "listener.name.internal.plain.sasl.jaas.config"
_ATTACKS: dict[str, Any] = {
    f"cluster: {_MANAGER}.path": _of_cluster(
        properties={f"{_MANAGER}.name": "Evil", f"{_MANAGER}.path": "/run/evil.jar"}
    ),
    "broker 0: metric.reporters": _of_cluster(brokers=[_BROKER]),
    f"step 0: {_OF_A_LISTENER}": {"steps": [_rolled(_OF_A_LISTENER)]},
    "step 0: sasl.jaas.config": {"steps": [_step("IfPossible", do=_rolled("sasl.jaas.config"))]},
}


@pytest.mark.parametrize("what", _ATTACKS)
@pytest.mark.parametrize("command", ["replay", "shrink"])
def test_a_strangers_settings_are_not_played_unless_they_are_trusted(
    command: str, what: str, tmp_path: Path, refusal: Callable[..., str]
):
    run = tmp_path / "run"
    run.mkdir()
    (run / "scenario.json").write_text(_changed(**_ATTACKS[what]))
    (run / "run.json").write_text('{"format": 3}')
    told = refusal(command, "run")
    assert "run/scenario.json has settings that may load classes" in told
    assert what in told
    assert "--trust runs it all the same" in told


def test_trusted_settings_are_played(tmp_path: Path):
    brokers = [
        {**broker, "kafka": "/nobodys/kafka", "properties": {"metric.reporters": "Mine"}}
        for broker in _CLUSTER["brokers"]
    ]
    (tmp_path / "scenario.json").write_text(_changed(cluster={**_CLUSTER, "brokers": brokers}))
    done = _run(["replay", "scenario.json", "--trust"], tmp_path)
    assert "/nobodys/kafka" in done.stderr
    assert "settings" not in done.stderr


def test_a_clusters_description_has_typed_fields(tmp_path: Path, refusal: Callable[..., str]):
    injected = {**_CLUSTER, "tick_time_ms": "500\nauthProvider.1=Evil"}
    (tmp_path / "scenario.json").write_text(_changed(cluster=injected))
    assert "tick_time_ms is no whole number" in refusal("replay", "scenario.json")


def test_a_working_directory_that_is_gone_is_the_callers_to_know(tmp_path: Path):
    line = f"mkdir x && cd x && rmdir ../x && exec {' '.join(KCHAOS)} list"
    done = _done(["bash", "-c", line], tmp_path)
    assert done.returncode == 64, done.stderr
    assert "the working directory is gone" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (
            "reproduce KAFKA-6361 --kafka 1.1.1 --runs-dir /etc/passwd/x",
            "/etc/passwd/x cannot be there: /etc/passwd is a file",
        ),
        (
            "measure KAFKA-7415 --results ./results.jsonl/x",
            "results.jsonl/x cannot be there: results.jsonl is a file",
        ),
        ("measure --results results.jsonl", "results.jsonl:1 is no line of a run"),
        ("up --kafka ''", "no Kafka is named"),
        (
            "up --kafka ./x.tgz",
            "./x.tgz is neither a distribution folder nor a .tgz: nothing is there",
        ),
    ],
)
def test_what_is_not_there_is_the_callers_to_know(
    command: str, said: str, tmp_path: Path, refusal: Callable[..., str]
):
    (tmp_path / "results.jsonl").write_text("[]\n")
    assert said in refusal(*shlex.split(command))


def test_a_process_that_may_have_no_more_memory_says_so(tmp_path: Path):
    run = unpacked("1.1.1", tmp_path).path
    line = f"ulimit -v 150000; exec {' '.join(KCHAOS)} judge --no-spark {run}"
    done = _done(["bash", "-c", line], tmp_path)
    assert done.returncode in (0, 69), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_changes_nothing(sent: signal.Signals, tmp_path: Path):
    code = (
        "import signal, threading\n"
        "from kchaos.harness.commands import cli, process\n"
        "def run(arguments):\n"
        "    try:\n"
        "        print('ready', flush=True)\n"
        "        threading.Event().wait(60)\n"
        "    except KeyboardInterrupt:\n"
        "        print('ending', flush=True)\n"
        "        signal.sigtimedwait([signal.SIGUSR1], 30)\n"
        "    return 130\n"
        "cli.run = run\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
        "process.main([])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Under nohup, or in the background of a shell, it is ignored from birth.
        preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(sent)
        assert child.stdout.readline() == "ending\n"
        for _ in range(3):
            child.send_signal(sent)
        child.send_signal(signal.SIGUSR1)
        _, said = child.communicate(timeout=60)
    assert (child.returncode, said) == (130, "")


def test_what_heals_is_not_interrupted_by_a_second_signal():
    """A signal to a whole process group reaches a play twice: from outside, and from its parent."""
    with interrupts_at_gates():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()
        signal.raise_signal(signal.SIGTERM)
        check_interrupt()
        signal.raise_signal(signal.SIGTERM)
    with interrupts_at_gates():
        check_interrupt()
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            check_interrupt()


def test_a_run_without_zookeepers_log_does_not_conform_nor_fail_to(tmp_path: Path):
    run = unpacked("1.1.1", tmp_path)
    for log in run.path.glob("zookeeper/member-*/log.*"):
        log.unlink()
    (run.path / "manifest.json").unlink()
    run.seal()
    results = judge(run)
    assert results.conforms is None
    assert "no transaction log of ZooKeeper" in str(results.unknown)


@pytest.mark.cluster
def test_any_path_that_the_file_system_takes_works_and_latest_may_be_a_folder(tmp_path: Path):
    odd = tmp_path / os.fsdecode("ö a:b,c\\d%20\n*".encode() + b"\xff")
    cache, runs = odd / "cache", odd / "runs"
    cache.mkdir(parents=True)
    (runs / "latest").mkdir(parents=True)
    real = Path(os.environ.get("KCHAOS_CACHE") or Path.home() / ".cache/kchaos")
    for name in ("kafka", "maven"):
        (cache / name).symlink_to(real / name)
    command = ["reproduce", "KIP-890", "--kafka", "1.1.1", "--json"]
    # A cache with such a path is none for restored JVMs.
    environment = {"KCHAOS_CACHE": str(cache), "HOME": str(odd), "KCHAOS_DRIVER": "local"}
    try:
        done = _run([*command, "--runs-dir", str(runs)], odd, **environment)
    finally:
        shutil.rmtree(plain_folder(cache))
        plain(cache).unlink()
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert (line["conforms"], line["safe"], line["expected"]) == (True, False, True)
    digests = RunDirectory.open(odd / line["run"]).read("run.json")["jars"]["1.1.1"]
    assert len(digests["kafka-clients-1.1.1.jar"]) == 64
