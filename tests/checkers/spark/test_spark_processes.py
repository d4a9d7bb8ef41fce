"""Spark as processes: a real standalone master, and what is left when the harness ends."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.folders import WORKING, remove_abandoned_in
from kchaos.checkers.results import results_to_json
from kchaos.clusters.kafka.java import spark_java_home
from kchaos.clusters.system.processes import Child, process_start_time, spawn
from tests.support.kafka_6361_runs import kafka_6361
from tests.support.planted_runs import torn_segment_before_the_last, unsealed
from tests.support.processes import command_line, descendants

pytestmark = pytest.mark.spark

WORKERS = 2
JUDGE = """
import json, sys
from pathlib import Path
import kchaos.checkers.spark as kchaos_spark
from kchaos.checkers.results import results_to_json

master, output, *runs = sys.argv[1:]
log_file = Path(output).with_name("spark.log")
with kchaos_spark.spark_context(master, log_file=log_file) as context:
    judgement = kchaos_spark.judge_runs(runs, output=Path(output))
    print(json.dumps({
        "results": {one.run: results_to_json(one) for one in judgement.results},
        "imported_from": context.parallelize([0], 1).map(
            lambda _: __import__("kchaos").__file__
        ).collect(),
        "executors": context._jsc.sc().getExecutorMemoryStatus().size() - 1,
    }))
"""
HOLD_SESSION = """
import sys, time
from pathlib import Path
from pyspark import SparkContext
from kchaos.checkers.spark import spark_context

with spark_context("local[1]", log_file=Path(sys.argv[1])) as context:
    print(SparkContext._gateway.proc.pid, flush=True)
    context.parallelize([0], 1).map(lambda _: time.sleep(600)).collect()
"""


FAST_START = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"


class Standalone:
    """A master and its workers, each a child of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []
        self.master = ""

    def start(self) -> None:
        logged = self._start("master.Master", "--webui-port", "0", "--port", "0")
        seen = self._await(logged, r"Starting Spark master at (spark://\S+)")
        self.master = seen.group(1)
        memory = ["--cores", "1", "--memory", "512m", "--webui-port", "0"]
        logs = [
            self._start("worker.Worker", *memory, "--work-dir", str(self._folder), self.master)
            for _ in range(WORKERS)
        ]
        for log in logs:
            self._await(log, r"Successfully registered with master")

    def stop(self) -> None:
        for child in reversed(self._children):
            child.send(signal.SIGTERM)
        for child in reversed(self._children):
            child.await_exit(timeout_s=60)

    def _start(self, daemon: str, *arguments: str) -> Child:
        import pyspark

        home = Path(pyspark.__file__).parent
        log_file = self._folder / f"{daemon}-{len(self._children)}.log"
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{daemon}"]
        child = spawn(
            [*command, "--host", "127.0.0.1", *arguments],
            log_file=log_file,
            env=spark_environment(home),
            name=daemon,
        )
        self._children.append(child)
        return child

    def _await(self, child: Child, pattern: str) -> re.Match[str]:
        return k.await_until(
            lambda: re.search(pattern, child.log_file.read_text()),
            timeout_s=120,
            waiting_for=f"{pattern!r} in the log of {child.name}",
            last_seen=lambda: f"exit code {child.exit_code}, {child.log_file.read_text()[-500:]}",
        )


def spark_environment(spark_home: Path) -> dict[str, str]:
    return os.environ | {
        "JAVA_HOME": str(spark_java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(spark_home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": FAST_START,
    }


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_standalone_master_with_two_workers_says_what_the_plain_judge_says(
    standalone: Standalone, tmp_path: Path
):
    import pyspark

    runs = [
        kafka_6361(tmp_path / "runs" / "n20", "n20", "1.1.1").path,
        kafka_6361(tmp_path / "runs" / "n25", "n25", "2.0.1").path,
        torn_segment_before_the_last(tmp_path / "runs" / "torn").path,
        unsealed(tmp_path / "runs" / "unsealed").path,
    ]
    settings = "--conf spark.executor.memory=500m --conf spark.cores.max=2 "
    settings += f"--conf 'spark.executor.extraJavaOptions={FAST_START}' pyspark-shell"
    environment = spark_environment(Path(pyspark.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", JUDGE, standalone.master, str(tmp_path / "out"), *map(str, runs)],
        env=environment | {"PYSPARK_SUBMIT_ARGS": settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "Spark speaks to its log, not to the user's terminal"
    told = json.loads(done.stdout)
    assert told["results"] == {path.name: plain(path) for path in runs}
    assert told["executors"] == WORKERS
    assert ".zip" in told["imported_from"][0], "the package is sent, not found by chance"


def plain(path: Path) -> Any:
    return json.loads(json.dumps(results_to_json(k.judge(k.RunDirectory.open(path)))))


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_no_jvm_outlives_the_process_that_started_it(sent: signal.Signals, tmp_path: Path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_SESSION, str(tmp_path / "spark.log")],
        env=os.environ | {"JAVA_HOME": str(spark_java_home())},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert holder.stdout is not None
        jvm = int(holder.stdout.readline())
        started = process_start_time(jvm)
        assert started is not None
        workers = k.await_until(
            lambda: descendants(jvm) or None,
            timeout_s=60,
            waiting_for="the JVM to start a Python worker",
            last_seen=lambda: descendants(jvm),
        )
        holder.send_signal(sent)
        holder.wait(60)
    finally:
        holder.kill()
        holder.wait()

    k.await_until(
        lambda: not [pid for pid in (jvm, *workers) if process_start_time(pid) is not None],
        timeout_s=60,
        waiting_for=f"JVM {jvm} and its workers {workers} to end",
        last_seen=lambda: [pid for pid in (jvm, *workers) if process_start_time(pid) is not None],
    )


def _listen_to_signals() -> None:
    """Undo what a shell's background job and nohup ignore from birth."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# What is in the command line of a child then; both spark-submit and its launcher name jars.
LAUNCHING = {"the launcher runs": b"pyspark", "the JVM starts": b"deploy.SparkSubmit"}


@pytest.mark.parametrize(
    ("sent", "when"),
    [
        (signal.SIGINT, "the launcher runs"),
        (signal.SIGTERM, "the launcher runs"),
        (signal.SIGKILL, "the launcher runs"),
        (signal.SIGHUP, "the JVM starts"),
        (signal.SIGTERM, "the JVM starts"),
        (signal.SIGKILL, "the JVM starts"),
    ],
)
def test_no_jvm_outlives_a_command_that_is_ended_while_it_starts_one(
    sent: signal.Signals, when: str, tmp_path: Path
):
    runs = [kafka_6361(tmp_path / name, "n20", "1.1.1").path for name in ("one", "two")]
    command = [sys.executable, "-m", "kchaos", "judge", "--spark", *map(str, runs)]
    judging = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, process_group=0,
        preexec_fn=_listen_to_signals,
    )  # fmt: skip
    try:
        k.await_until(
            lambda: any(LAUNCHING[when] in command_line(pid) for pid in descendants(judging.pid)),
            timeout_s=120,
            waiting_for=when,
            last_seen=lambda: [command_line(pid) for pid in descendants(judging.pid)],
        )
        # One that has ended already has no start time, and nothing to wait for.
        born_at = {pid: process_start_time(pid) for pid in descendants(judging.pid)}
        below = {pid: born for pid, born in born_at.items() if born is not None}
        judging.send_signal(sent)
        _, said = judging.communicate(timeout=60)
    finally:
        judging.kill()
        judging.wait()
    assert judging.returncode == (130 if sent != signal.SIGKILL else -signal.SIGKILL), said
    assert "Traceback" not in said
    k.await_until(
        lambda: not [pid for pid, born in below.items() if process_start_time(pid) == born],
        timeout_s=60,
        waiting_for=f"{list(below)} to end",
        last_seen=lambda: [command_line(pid) for pid in below],
    )
    (tmp_path / "judgements-spark").mkdir(exist_ok=True)
    remove_abandoned_in(tmp_path / "judgements-spark", WORKING)
    assert list((tmp_path / "judgements-spark").iterdir()) == []


def test_a_java_that_spark_cannot_use_is_told_with_the_end_of_the_log(tmp_path: Path):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from kchaos.checkers.spark import judge_runs\n"
            "from kchaos.checkers.errors import SparkError\n"
            "try: judge_runs([sys.argv[1]], java_home=Path(sys.argv[1]))\n"
            "except SparkError as error: print(error)",
            str(tmp_path / "absent"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "Spark did not start" in done.stdout
    assert "bin/java: No such file or directory" in done.stdout
    (log,) = tmp_path.glob("judgements-spark/*")
    assert str(log) in done.stdout
