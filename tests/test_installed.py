"""kchaos as others have it: from its sdist by a wheel, or editable, beside their own packages."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.golden.stored import unpacked
from tests.harness.test_ci_recipes import ALL, shell_lines

pytestmark = [pytest.mark.slow, pytest.mark.needs("git")]

ROOT = Path(__file__).parent.parent
NAMES = ("harness", "tests", "checkers", "clusters", "faults", "studies")
INSTALLS = ("wheel", "editable")
INSTALL_LINES = sorted(
    {line for recipe in ALL for line in shell_lines(recipe) if "pip install" in line}
)
RELEASED = "7.8.9"
"""The tag of the copy of the checkout that becomes a wheel."""
# What an environment without Spark lacks, and kchaos itself.
_LEFT_OUT = ("kchaos", "__editable__", "pyspark", "pyarrow", "pandas")


class Environment:
    """A virtual environment with kchaos and what it depends on, but without Spark."""

    def __init__(self, folder: Path, install: str) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        self.commands = folder / "bin"
        self._borrow_dependencies(folder)
        checkout = _copy_of_the_checkout(folder)
        if install == "wheel":
            _commit(checkout, tag=f"v{RELEASED}")
        what = [str(self._sdist(checkout))] if install == "wheel" else ["-e", str(checkout)]
        if install == "strict":
            what += ["--config-settings", "editable_mode=strict"]
        pip = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"]
        # setuptools is one of our own environment's, which needs no network then. Modules are
        # compiled as they are imported, as in CI's own environment.
        options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-compile"]
        self.run([*pip, *options, *what], cwd=folder)

    def _sdist(self, checkout: Path) -> Path:
        """The source distribution, of which pip then makes the wheel, as from an index."""
        code = "import setuptools.build_meta as backend; backend.build_sdist('dist')"
        self.run([sys.executable, "-c", code], cwd=checkout)
        (sdist,) = (checkout / "dist").iterdir()
        return sdist

    def _borrow_dependencies(self, folder: Path) -> None:
        borrowed = folder / "borrowed"
        borrowed.mkdir()
        for place in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
            for each in Path(place).iterdir():
                if not each.name.startswith(_LEFT_OUT) and each.suffix != ".pth":
                    (borrowed / each.name).symlink_to(each)
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(f"{borrowed}\n")

    def run(
        self, command: Sequence[str], *, cwd: Path, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "PYTEST", "KCHAOS_RUNS", "PIP_", "DIST_"))
        }
        done = subprocess.run(
            command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def _copy_of_the_checkout(folder: Path) -> Path:
    """Where it is built; setuptools would leave its work in the checkout, for two at a time."""
    left_out = shutil.ignore_patterns(".*", "build", "*.egg-info", "kchaos-runs", "__pycache__")
    return Path(shutil.copytree(ROOT, folder / "checkout", symlinks=True, ignore=left_out))


def _commit(folder: Path, *, tag: str = "") -> None:
    """Commit what is in a folder, with a tag or without."""
    author = ["-c", "user.name=kchaos", "-c", "user.email=kchaos@localhost"]
    _git(folder, "init", "--quiet")
    _git(folder, "add", "--all")
    _git(folder, *author, "commit", "--quiet", "--allow-empty", "--no-verify", "--message", "all")
    if tag:
        _git(folder, *author, "tag", "--annotate", tag, "--message", tag)


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Environment]:
    made: dict[str, Environment] = {}

    def of(install: str) -> Environment:
        if install not in made:
            made[install] = Environment(tmp_path_factory.mktemp(install), install)
        return made[install]

    return of


_OWN_TEST = """
import pytest
from {name}.own import VALUE

def test_own():
    assert VALUE == "{name}"

def test_kchaos_beside_it(pytestconfig):
    import kchaos
    assert kchaos.KillBroker(broker=0).broker == 0
    assert kchaos.CATALOGUE and kchaos.play and kchaos.judge
    assert pytestconfig.getoption("kchaos_keep", "absent") is None
"""


def _project(folder: Path, layout: str) -> None:
    """A project with a package of its own for each of the names, imported early and in tests."""
    for name in NAMES:
        package = folder / name
        package.mkdir()
        (package / "own.py").write_text(f"VALUE = {name!r}\n")
        if layout == "regular packages":
            (package / "__init__.py").touch()
        (folder / f"test_{name}.py").write_text(_OWN_TEST.format(name=name))
    early = "".join(f"import {name}.own\n" for name in NAMES)
    (folder / "conftest.py").write_text(early)


# With -P Python leaves the working directory out of sys.path, as the command `pytest` does.
_BARE, _MODULE = ["-P", "-m", "pytest"], ["-m", "pytest"]


# Each two of the three meet.
@pytest.mark.parametrize(
    ("install", "layout", "how"),
    [
        pytest.param("wheel", "regular packages", _BARE, id="wheel-regular-bare"),
        pytest.param("wheel", "namespace packages", _MODULE, id="wheel-namespace-module"),
        pytest.param("editable", "regular packages", _MODULE, id="editable-regular-module"),
        pytest.param("editable", "namespace packages", _BARE, id="editable-namespace-bare"),
    ],
)
def test_a_project_with_packages_of_those_names_is_untouched(
    environment: Callable[[str], Environment],
    tmp_path: Path,
    install: str,
    layout: str,
    how: list[str],
):
    _project(tmp_path, layout)
    quiet = ["-q", "-p", "no:cacheprovider", "-W", "error"]
    there = environment(install)
    done = there.run([str(there.python), *how, *quiet], cwd=tmp_path)
    assert f"{2 * len(NAMES)} passed" in done.stdout


@pytest.mark.parametrize("install", INSTALLS)
def test_nothing_but_kchaos_can_be_imported_by_installing_it(
    environment: Callable[[str], Environment], tmp_path: Path, install: str
):
    code = (
        "import importlib.util as u\n"
        f"print([n for n in {[*NAMES, 'benchmarks', 'docs']} if u.find_spec(n) is not None])"
    )
    there = environment(install)
    assert there.run([str(there.python), "-c", code], cwd=tmp_path).stdout == "[]\n"


_GOOD = """
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import kchaos

@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDisk:
    broker: int
    lasting: ClassVar[bool] = True
    performs: ClassVar[tuple[type[kchaos.Act], ...]] = ()

    def available(self, view: kchaos.ClusterView) -> str:
        return "" if self.broker in view.brokers else f"there is no broker {self.broker}"

    @contextmanager
    def inject(
        self, cluster: kchaos.Cluster, journal: kchaos.Journal
    ) -> Iterator[kchaos.Injection]:
        kchaos.require_available(self, cluster)
        journal.observed(kchaos.Noted(kind="slow-disk", fields={"broker": self.broker}))
        yield kchaos.Injection(fault="SlowDisk")

@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    text: str

    def perform(self, play: kchaos.Play) -> None:
        play.observed(kchaos.Noted(kind="note", fields={"text": self.text}))

def test_it(chaos: kchaos.Chaos) -> None:
    fault: kchaos.Fault = SlowDisk(broker=1)
    step: kchaos.Step = Note(text="now")
    chaos.perform(step, kchaos.Inject(name="slow", fault=fault))
    with chaos.inject(kchaos.ExpireSession(broker=0)):
        chaos.produce("t", records=10, acks="all")
    results: kchaos.Results = chaos.verdict()
    safe: bool | None = results.safe
    version: str = kchaos.__version__
"""
_BAD = """
import kchaos

kchaos.KillBroker(broker="x")
kchaos.KilBroker(broker=0)

def test_it(chaos: kchaos.Chaos) -> None:
    chaos.verdict().saef
"""


def test_types_at_the_front_door_hold_in_somebody_elses_project(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("strict")
    (tmp_path / "mypy.ini").write_text("[mypy]\n")
    (tmp_path / "good.py").write_text(_GOOD)
    (tmp_path / "bad.py").write_text(_BAD)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", str(there.python)]
    done = there.run([*command, "good.py", "bad.py"], cwd=tmp_path, code=1)
    first, second, third, told = done.stdout.splitlines()
    assert 'Argument "broker" to "KillBroker" has incompatible type "str"' in first
    assert 'Module has no attribute "KilBroker"' in second
    assert '"Results" has no attribute "saef"' in third
    assert told.startswith("Found 3 errors in 1 file ")


def test_the_wheel_has_the_types_of_the_checkout(environment: Callable[[str], Environment]):
    """mypy reads these files alone, which takes ten seconds, so one installation is enough."""

    def typed(install: str) -> dict[str, bytes]:
        there = environment(install)
        code = "import kchaos; print(kchaos.__path__[0])"
        package = Path(there.run([str(there.python), "-c", code], cwd=ROOT.parent).stdout.strip())
        files = [file for file in package.rglob("*") if file.suffix in (".py", ".pyi", ".typed")]
        return {str(f.relative_to(package)): f.read_bytes() for f in files if f.is_file()}

    of_wheel, of_checkout = typed("wheel"), typed("strict")

    assert {"py.typed", "__init__.pyi"} <= of_wheel.keys()
    assert of_wheel.keys() == of_checkout.keys()
    assert [name for name in of_wheel if of_wheel[name] != of_checkout[name]] == []


def test_the_wheel_judges_and_reports_without_spark(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("wheel")
    command = str(there.commands / "kchaos")
    run = unpacked("1.1.1", tmp_path)
    done = there.run([command, "judge", str(run.path), "--json"], cwd=tmp_path)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["conforms"], line["expected"]) == (True, True)
    page = there.run([command, "report", str(run.path)], cwd=tmp_path).stdout.strip()
    assert Path(page).read_text().startswith("<!doctype html>")


def test_spark_that_was_asked_for_and_is_not_there_is_the_machines_refusal(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("wheel")
    run = unpacked("1.1.1", tmp_path)
    command = [str(there.commands / "kchaos"), "judge", "--spark", str(run.path)]
    assert "pip install 'kchaos[spark]'" in there.run(command, cwd=tmp_path, code=69).stderr


def test_the_wheel_brings_the_compose_file(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("wheel")
    code = (
        "from importlib.resources import files\n"
        "print(files('kchaos').joinpath('docker-compose.yml').read_text(), end='')"
    )
    printed = there.run([str(there.python), "-c", code], cwd=tmp_path).stdout
    assert printed == (ROOT / "docker-compose.yml").read_text()


@pytest.mark.cluster
def test_a_known_bug_is_reproduced_from_the_wheel(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("wheel")
    command = [str(there.commands / "kchaos"), "reproduce", "KIP-890", "--kafka", "1.1.1"]
    done = there.run([*command, "--json"], cwd=tmp_path)
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["conforms"], line["safe"], line["expected"]) == (True, False, True)


def test_the_wheel_of_a_tag_has_its_version(
    environment: Callable[[str], Environment], tmp_path: Path
):
    there = environment("wheel")
    printed = there.run([str(there.commands / "kchaos"), "--version"], cwd=tmp_path).stdout
    assert printed == f"kchaos, version {RELEASED}\n"


@pytest.mark.parametrize("line", INSTALL_LINES)
def test_the_line_by_which_a_recipe_installs_kchaos_does_so_from_a_git_address(
    environment: Callable[[str], Environment], line: str, tmp_path: Path
):
    there = environment("recipe")
    checkout = _copy_of_the_checkout(tmp_path)
    _commit(checkout, tag="v7.8.10")
    pip = tmp_path / "pip"
    pip.write_text(f'#!/bin/sh\nexec {sys.executable} -m pip --python {there.python} "$@"\n')
    pip.chmod(0o755)
    # By these pip takes what the environment borrows, and fetches nothing.
    settings = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    settings |= {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    settings["KCHAOS"] = f"git+file://{checkout}@main"
    _git(checkout, "branch", "--move", "main")
    subprocess.run(["bash", "-ec", line], cwd=tmp_path, env=settings, check=True)
    printed = there.run([str(there.commands / "kchaos"), "--version"], cwd=tmp_path).stdout
    assert printed == "kchaos, version 7.8.10\n"


def _sources(folder: Path) -> Path:
    """What says the version of a checkout, in a folder of its own."""
    folder.mkdir()
    for name in ("pyproject.toml", ".git_archival.txt", ".gitattributes"):
        shutil.copy(ROOT / name, folder)
    return folder


def _version(folder: Path) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "setuptools_scm"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_version_is_that_of_the_tag_and_counts_the_commits_after_it(tmp_path: Path):
    checkout = _sources(tmp_path / "checkout")
    _commit(checkout, tag="v7.8.9")
    assert _version(checkout) == "7.8.9"
    _commit(checkout)
    assert _version(checkout).startswith("7.8.10.dev1+g")


def test_a_checkout_without_tags_counts_as_work_on_the_first_version(tmp_path: Path):
    checkout = _sources(tmp_path / "checkout")
    _commit(checkout)
    _commit(checkout)
    shallow = tmp_path / "shallow"
    _git(tmp_path, "clone", "--quiet", "--depth", "1", checkout.as_uri(), str(shallow))
    assert _version(checkout).startswith("0.1.0.dev2+g")
    assert _version(shallow).startswith("0.1.0.dev1+g")


@pytest.mark.parametrize(("tag", "version"), [("v7.8.9", "7.8.9"), ("", "0.1.0.dev0")])
def test_a_tarball_has_the_version_of_its_tag(tmp_path: Path, tag: str, version: str):
    checkout = _sources(tmp_path / "checkout")
    _commit(checkout, tag=tag)
    _git(checkout, "archive", "--output", str(tmp_path / "all.tar"), "HEAD")
    files = tmp_path / "files"
    with tarfile.open(tmp_path / "all.tar") as archive:
        archive.extractall(files)
    assert _version(files) == version


def test_files_without_git_have_a_version(tmp_path: Path):
    assert _version(_sources(tmp_path / "files")) == "0.1.0.dev0"
