"""Kafka's own consumer, as its console consumer runs it, beside a cluster.

Source: kafka.tools.ConsoleConsumer (up to 3.7) and org.apache.kafka.tools.consumer.ConsoleConsumer
(from 3.8 on, in the tools' own jar, which is taken by package name).
"""

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.children import dying_with_parent
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.kafka.distribution import java_of, own_jar, resolve
from kchaos.clusters.releases import Release, release_of

_OWN_JAR_SINCE = (3, 8)
_EXCEPTION = re.compile(r"^org\.apache\.kafka\.[\w.$]*\.(\w+)", re.MULTILINE)
_LOG = """\
log4j.rootLogger=WARN, err
log4j.logger.org.apache.kafka.clients.consumer=INFO
log4j.logger.org.apache.kafka.clients.consumer.ConsumerConfig=WARN
log4j.appender.err=org.apache.log4j.ConsoleAppender
log4j.appender.err.target=System.err
log4j.appender.err.layout=org.apache.log4j.PatternLayout
log4j.appender.err.layout.ConversionPattern=%p %m (%c{1})%n
"""
_SETTINGS = """\
# What the consumer makes of its position is what is asked: it must not choose another by itself.
auto.offset.reset=none
enable.auto.commit=false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """Records that a consumer got, and its output.

    Attributes:
        records: (offset, value), in the order in which they came.
        error: The exception that ended it, such as "OffsetOutOfRangeException", or "".
        said: The lines of its log and its errors, without stack traces.
        exit_code: Of its process.
    """

    records: tuple[tuple[int, str], ...]
    error: str
    said: tuple[str, ...]
    exit_code: int


def consume(
    kafka: str,
    *,
    bootstrap: str,
    topic: str,
    group: str,
    records: int,
    idle_s: float,
    timeout_s: float,
    offline: bool = False,
) -> Consumed:
    """Run the console consumer alone in a group, from the group's committed position.

    `kafka` is the consumer's release, and `bootstrap` the brokers' addresses, "host:port" with
    commas. It ends after `records`, or `idle_s` without one, and must end within `timeout_s`.

    Raises:
        ClusterError: It did not end.
        MachineError, ReleaseError: Its jars or its Java cannot be had.
    """
    distribution = resolve(kafka, offline=offline)
    class_path, main_class = _console_consumer(release_of(distribution.release), offline=offline)
    with tempfile.TemporaryDirectory(prefix="kchaos-consumer-") as made:
        folder = Path(made)
        (folder / "log4j.properties").write_text(_LOG)
        (folder / "consumer.properties").write_text(_SETTINGS)
        command = [
            str(java_of(distribution, offline=offline) / "bin" / "java"),
            "-Xmx128m",
            f"-Dlog4j.configuration=file:{folder / 'log4j.properties'}",
            "-cp",
            ":".join(map(str, (*class_path, *distribution.class_path))),
            main_class,
            *("--consumer.config", str(folder / "consumer.properties")),
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
            *("--property", "print.offset=true", "--property", "print.value=true"),
            *("--max-messages", str(records), "--timeout-ms", str(int(idle_s * 1000))),
        ]
        done = _run(command, timeout_s)
    raised = _EXCEPTION.search(done.stderr)
    return Consumed(
        records=tuple(_record(line) for line in done.stdout.splitlines() if "\t" in line),
        error=raised[1] if raised else "",
        said=tuple(line for line in done.stderr.splitlines() if not line.startswith("\tat ")),
        exit_code=done.returncode,
    )


def _run(command: Sequence[str], timeout_s: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            preexec_fn=dying_with_parent(),
        )
    except subprocess.TimeoutExpired as expired:
        raise ClusterError(
            f"the console consumer did not end within {timeout_s:g} s; it printed: "
            f"{_text(expired.stderr)[-500:]}"
        ) from expired


def _text(said: bytes | str | None) -> str:
    return said.decode(errors="replace") if isinstance(said, bytes) else said or ""


def _record(line: str) -> tuple[int, str]:
    offset, _, value = line.partition("\t")
    return int(offset.removeprefix("Offset:")), value


def _console_consumer(release: Release, *, offline: bool) -> tuple[tuple[Path, ...], str]:
    """Return what its class path has beside the brokers', and its main class."""
    if release.number[:2] < _OWN_JAR_SINCE:
        return (), "kafka.tools.ConsoleConsumer"
    return (_tools_jar(release, offline=offline),), (
        "org.apache.kafka.tools.consumer.ConsoleConsumer"
    )


def _tools_jar(release: Release, *, offline: bool) -> Path:
    """Return the jar of Kafka's tools, fetched on first use; it has a lock file of its own."""
    return own_jar(
        f"org.apache.kafka:kafka-tools:{release.text}",
        file=f"kafka-tools-{release.text}.jar",
        name=f"Kafka's tools {release.text}",
        folder=f"tools/{release.text}",
        offline=offline,
    )
