"""The Spark context: where its Java is, what is set, and how it ends.

Started by us, Spark is a JVM that is our child (`checkers.spark.jvm`). Everything that it and its
Python workers print goes to a file. It ends when the block of `spark_context` ends, at once where
that is interrupted, and also when this process is killed. Under `spark-submit` the JVM is there
already and is left alone.
"""

import contextlib
import hashlib
import io
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from kchaos import checkers
from kchaos.checkers.errors import SparkError, SparkNotStarted
from kchaos.checkers.spark.jvm import changed_environment, end, start_gateway

# By the name of a room of it: what judges imports nothing that plays.
_PACKAGE = Path(checkers.__file__).parent.parent
APP_NAME = "kchaos"
LOCAL_MASTER = "local[*]"
_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
_EXIT_TIMEOUT_S = 20
_LOCAL_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"


@contextlib.contextmanager
def spark_context(
    master: str | None = None,
    *,
    java_home: Path | None = None,
    log_file: Path,
    temporary: Path | None = None,
) -> Iterator[SparkContext]:
    """Yield a Spark context for the block: the existing one, or a new one.

    There is no session with it, for few jobs ask SQL and a session takes a third of the start.

    Args:
        master: "local[2]", "spark://host:port", …; None means what `spark-submit` or Spark's own
            configuration says, and else every core of this machine.
        java_home: JAVA_HOME of a Java 17 or later; None leaves it to the environment.
        log_file: What the JVM prints is appended here.
        temporary: Where a JVM of this machine keeps temporary files, which a killed one leaves; no
            blanks in it. None for the usual place.

    Raises:
        SparkNotStarted: The message has the end of its log.
    """
    lent = SparkContext._active_spark_context
    if lent is not None:
        yield lent
        return
    context = _start(master, java_home, log_file, temporary)
    try:
        yield context
    except Exception:
        _stop(context)
        raise
    except BaseException:
        # Interrupted, perhaps in the middle of a call to the JVM: it is asked nothing any more.
        _stop(context, at_once=True)
        raise
    _stop(context)


def is_local(master: str) -> bool:
    """Return whether Spark runs in one JVM on this machine."""
    return master.startswith("local")


def ship_package(context: SparkContext) -> None:
    """Give our Python package to the executors of a remote master, once for each context.

    Only Python travels: pyarrow, crc32c and cramjam are compiled, and must be installed for the
    same minor version of Python on every executor (see `checkers.spark.judge_runs`).
    """
    if is_local(str(context.master)):
        return
    content = _packed_package()
    name = f"kchaos-checkers-{hashlib.sha256(content).hexdigest()[:12]}.zip"
    # The context serves the file for as long as it lives, and removes this folder at its end.
    archive = Path(str(context._temp_dir)) / name
    if not archive.exists():
        archive.write_bytes(content)
        context.addPyFile(str(archive))


def _start(
    master: str | None, java_home: Path | None, log_file: Path, temporary: Path | None
) -> SparkContext:
    # Whoever runs our command by its path has not activated its environment: without this Spark
    # starts another Python for its workers.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    log_file.parent.mkdir(parents=True, exist_ok=True)
    try:
        if not SparkContext._gateway:
            gateway = _gateway(master, java_home, log_file, temporary)
            try:
                SparkContext._ensure_initialized(gateway=gateway)
            except BaseException:
                _end(gateway)
                raise
        return _context(master)
    except (SparkError, PySparkException, Py4JError, OSError) as error:
        _end(SparkContext._gateway)
        raise _not_started(error, log_file) from error
    except BaseException:
        _end(SparkContext._gateway)
        raise


def _gateway(
    master: str | None, java_home: Path | None, log_file: Path, temporary: Path | None
) -> Any:
    if _GATEWAY_PORT in os.environ:
        return launch_gateway()  # type: ignore[no-untyped-call]
    # What the JVM prints goes to a file, and spark-submit has a shell like this draw a bar there.
    options = {"spark.ui.showConsoleProgress": "false"}
    if master is not None:
        options["spark.master"] = master
    if master is None or is_local(master):
        # Not extraJavaOptions, which are the user's: these come before them.
        own = "" if temporary is None else f" -Djava.io.tmpdir={temporary}"
        options["spark.driver.defaultJavaOptions"] = _LOCAL_JAVA_OPTIONS + own
    changes = {"SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    if java_home is not None:
        changes["JAVA_HOME"] = str(java_home)
    if master is not None and is_local(master):
        changes["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if master is None or is_local(master):
        # Workers inherit it from the JVM: they import the same package as this process.
        here = str(_PACKAGE.resolve().parent)
        paths = [here, os.environ.get("PYTHONPATH", "")]
        changes["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    with changed_environment(changes):
        return start_gateway(options, log_file=log_file)


def _context(master: str | None) -> SparkContext:
    conf = SparkConf()
    if master is not None:
        conf.setIfMissing("spark.master", master)
    conf.setIfMissing("spark.master", LOCAL_MASTER)
    conf.setIfMissing("spark.app.name", APP_NAME)
    for name, value in _defaults(str(conf.get("spark.master"))).items():
        conf.setIfMissing(name, value)
    return SparkContext(conf=conf)


def _defaults(master: str) -> Mapping[str, str]:
    """Return settings for which neither spark-submit nor spark-defaults.conf has a value."""
    defaults = {"spark.ui.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    if is_local(master):
        defaults |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return defaults


def _stop(context: SparkContext, *, at_once: bool = False) -> None:
    gateway = SparkContext._gateway
    is_ours = getattr(gateway, "proc", None) is not None
    if at_once and is_ours:
        _end(gateway)
        return
    try:
        context.stop()
        if gateway is not None and is_ours:
            gateway.shutdown()
    finally:
        try:
            _end(gateway, patience_s=_EXIT_TIMEOUT_S)
        except BaseException:
            _end(gateway)
            raise


def _end(gateway: Any, *, patience_s: float = 0) -> None:
    """End the JVM if it is ours; a later context gets its own."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    end(process, patience_s=patience_s)
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def _not_started(error: Exception, log_file: Path) -> SparkNotStarted:
    last = log_file.read_text(errors="replace").splitlines()[-8:] if log_file.exists() else []
    java = os.environ.get("JAVA_HOME", "none")
    return SparkNotStarted(
        f"Spark did not start: {str(error).strip().splitlines()[0]}. It needs Java 17 or later "
        f"(java_home, else JAVA_HOME, here {java}) and a master that answers. The end of "
        f"{log_file}:\n  " + "\n  ".join(last)
    )


def _packed_package() -> bytes:
    package = _PACKAGE
    own = distribution("kchaos")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(package / "__init__.py", "kchaos/__init__.py")
        for file in sorted((package / "checkers").rglob("*.*")):
            if file.is_file() and "__pycache__" not in file.parts:
                archive.write(file, str(Path("kchaos") / file.relative_to(package)))
        # Results name the version that judged, which Python reads from the distribution.
        metadata = f"kchaos-{own.version}.dist-info/METADATA"
        archive.writestr(
            zipfile.ZipInfo(metadata),
            f"Metadata-Version: 2.1\nName: kchaos\nVersion: {own.version}\n",
        )
    return packed.getvalue()
