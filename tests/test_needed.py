"""Tests that lack a program are skipped by name, and named at the end; in CI they fail."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kchaos.clusters.restored import criu
from tests.support.needed import REQUIRED, why_not

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parent.parent
Script = Callable[[str, str], None]

_SESSION = """
import pytest

@pytest.mark.needs("criu")
@pytest.mark.parametrize("number", range(3))
def test_restores(number):
    pass

@pytest.mark.needs("chromium")
def test_shows():
    pass

@pytest.mark.docker
def test_contains():
    pass

def test_needs_nothing():
    pass

def test_is_skipped_for_a_reason_of_its_own():
    pytest.skip("it is Friday")
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Script]:
    """A machine of which the PATH has only the programs that a test writes, and the shell's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "unshare", "setsid"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    monkeypatch.delenv(REQUIRED, raising=False)
    caches = (why_not, criu.why_not, criu.version)
    for cached in caches:
        cached.cache_clear()

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    yield write
    for cached in caches:
        cached.cache_clear()


@pytest.fixture
def session(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(
        "from tests.support.needed import Needed\n"
        "def pytest_configure(config):\n    config.pluginmanager.register(Needed())\n"
    )
    marks = "\n    ".join(("needs: a program", "docker: containers"))
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\nmarkers =\n    {marks}\naddopts = -ra")
    pytester.makepyfile(_SESSION)
    return pytester


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("processes", [0, 2])
def test_each_program_that_is_not_here_has_one_sentence_in_the_last_lines(
    session: pytest.Pytester, processes: int
):
    done = session.runpytest_subprocess("-n", str(processes))

    done.assert_outcomes(passed=1, skipped=6)
    lines = done.outlines[-6:-1]
    assert "NOT TESTED HERE" in lines[0]
    remedy = "install criu 4.0 or later, as Debian 13 has it"
    assert lines[1] == f"JVMs made of images: there is no criu: {remedy} (3 tests)"
    assert lines[2].startswith("containers: the Docker engine at unix://")
    assert lines[2].endswith(
        "start the engine: systemctl start docker, or dockerd by hand (1 test)"
    )
    no_chromium = "there is no chromium: install the package chromium"
    assert lines[3] == f"reports in a browser: {no_chromium} (1 test)"
    assert done.stdout.str().count(no_chromium) == 1
    assert "it is Friday" in done.stdout.str()


@pytest.mark.usefixtures("script")
def test_a_program_that_is_required_and_is_not_here_fails_its_tests(
    session: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(REQUIRED, "criu docker")

    done = session.runpytest_subprocess()

    done.assert_outcomes(passed=1, skipped=2, errors=4)
    assert f"{REQUIRED} names criu, and it does not work here" in done.stdout.str()
