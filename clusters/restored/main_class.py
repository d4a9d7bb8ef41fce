"""Main class of a JVM that can be written down, compiled on first use by Eclipse's compiler."""

import hashlib
import subprocess
from importlib.resources import files
from pathlib import Path

from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import own_jar
from kchaos.clusters.kafka.java import java_home
from kchaos.clusters.system.cache import cache_directory, locked, staging

NAME = "Restorable"
# The last version that runs on Java 11.
_COMPILER = "3.32.0"
_COMPILE_S = 120


def source() -> str:
    """Return the class in Java."""
    return files(__package__).joinpath(f"{NAME}.java").read_text(encoding="utf-8")


def compiled(*, offline: bool = False) -> Path:
    """Return a folder for the class path that has the class.

    Raises MachineError when the compiler cannot be had.
    """
    digest = hashlib.sha256(source().encode()).hexdigest()[:12]
    classes = cache_directory() / "classes" / digest
    with locked("classes"):
        if not classes.is_dir():
            classes.parent.mkdir(exist_ok=True)
            _compile(classes, offline=offline)
    return classes


def _compile(classes: Path, *, offline: bool) -> None:
    jar = own_jar(
        f"org.eclipse.jdt:ecj:{_COMPILER}",
        file=f"ecj-{_COMPILER}.jar",
        name="Eclipse's compiler",
        folder=f"ecj/{_COMPILER}",
        offline=offline,
    )
    with staging(classes.parent) as unfinished:
        file = unfinished / f"{NAME}.java"
        file.write_text(source(), encoding="utf-8")
        made = unfinished / "classes"
        done = subprocess.run(
            [
                str(java_home(offline=offline) / "bin" / "java"),
                *("-jar", str(jar), "-8", "-nowarn", "-d", str(made), str(file)),
            ],
            capture_output=True,
            text=True,
            timeout=_COMPILE_S,
            check=False,
        )
        if done.returncode != 0 or not (made / f"{NAME}.class").is_file():
            raise MachineError(f"the compiler refuses {NAME}: {done.stdout}{done.stderr}")
        made.rename(classes)
