"""Spark's JVM as our child: started by spark-submit, and never left behind.

`pyspark.java_gateway` starts it in a way that cannot be told to end it with us: a JVM whose
launch is interrupted, or whose parent is killed before it reads its standard input, stays for ever.
So it is started here, and pyspark is told where it listens, as under `spark-submit`.
"""

import contextlib
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.serializers import UTF8Deserializer, read_int

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.errors import SparkError

_START_TIMEOUT_S = 180
_LOOK_S = 0.05


def start_gateway(options: Mapping[str, str], *, log_file: Path) -> Any:
    """Start the JVM in our environment; return pyspark's gateway to it, its process in `proc`.

    Whatever is raised, an interrupt for one, the JVM is ended before.

    Args:
        options: Spark's configuration for spark-submit.
        log_file: What the JVM prints is appended here.

    Raises:
        SparkError: It ended, or did not say in time where it listens.
    """
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "connection"
        process = _spawn(_command(options), told, log_file)
        try:
            port, secret = _await_connection(process, told)
            where = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
            with changed_environment(where):
                gateway: Any = launch_gateway()  # type: ignore[no-untyped-call]
        except BaseException:
            end(process)
            raise
    gateway.proc = process
    return gateway


def end(process: subprocess.Popen[bytes], *, patience_s: float = 0) -> None:
    """Wait for the JVM to end by itself, then end it and its children; return once it has."""
    with contextlib.suppress(OSError):
        assert process.stdin is not None
        process.stdin.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        # It leads a group of its own, in which the launcher's short-lived JVM is as well.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _command(options: Mapping[str, str]) -> list[str]:
    settings = [part for name, value in options.items() for part in ("--conf", f"{name}={value}")]
    typed = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    home = _find_spark_home()
    return [str(Path(home) / "bin" / "spark-submit"), *settings, *typed]


def _spawn(command: list[str], told: Path, log_file: Path) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "SPARK_CONNECT_MODE": "0",
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told),
    }
    with log_file.open("ab") as log:
        return subprocess.Popen(
            command,
            # It ends when this pipe does: under a debugger, say, that does not end with us.
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            # A terminal's Ctrl-C is ours to handle.
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )


def _await_connection(process: subprocess.Popen[bytes], told: Path) -> tuple[int, str]:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while not told.is_file():
        if process.poll() is not None:
            raise SparkError(f"its JVM ended with code {process.returncode}")
        if time.monotonic() > deadline:
            raise SparkError(f"its JVM did not say within {_START_TIMEOUT_S} s where it listens")
        time.sleep(_LOOK_S)
    with told.open("rb") as file:
        # Written under another name and renamed, so it is whole.
        port = read_int(file)  # type: ignore[no-untyped-call]
        secret = UTF8Deserializer().loads(file)  # type: ignore[no-untyped-call]
        return int(port), str(secret)
