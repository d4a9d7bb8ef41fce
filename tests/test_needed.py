"""Tests that lack a program are skipped by name, and named at the end; in CI they fail."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import pytest

from kchaos.clusters.restored import criu
from tests.support.needed import PROGRAMS, REQUIRED, why_not

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
) -> None:
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
) -> None:
    monkeypatch.setenv(REQUIRED, "criu docker")

    done = session.runpytest_subprocess()

    done.assert_outcomes(passed=1, skipped=2, errors=4)
    assert f"{REQUIRED} names criu, and it does not work here" in done.stdout.str()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "criu",
            '#!/bin/sh\n[ $1 = check ] || { echo Version: 4.1; exit; }\necho "Error: no ptrace" >&2'
            "\nexit 1\n",
            "criu 4.1 cannot work on this kernel (Error: no ptrace): install criu 4.0",
        ),
        ("criu", "\x7fELF of another machine", "criu cannot be started ([Errno 8]"),
        (
            "chromium",
            "#!/bin/sh\necho no sandbox >&2\nkill -SEGV $$\n",
            "chromium ended with code -11 (no sandbox): install the package chromium anew",
        ),
        ("chromium", "#!/bin/sh\n", "chromium ended with code 0 (it says no reason)"),
        ("docker-compose", "#!/bin/sh\nexit 1\n", "docker-compose ended with code 1"),
    ],
    ids=["criu", "no program", "crash", "an empty page", "compose"],
)
def test_a_program_that_cannot_work_is_named_with_its_last_word(
    script: Script, name: str, text: str, expected: str
) -> None:
    script(name, text)
    assert expected in why_not(name.removeprefix("docker-"))


@pytest.mark.usefixtures("script")
def test_an_engine_that_refuses_is_named_with_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(403)
            self.end_headers()
            self.wfile.write(b'{"message": "authorization denied by plugin"}')

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    address = str(tmp_path / "engine.sock")
    with ThreadingUnixStreamServer(address, Refusing) as engine:
        threading.Thread(target=engine.serve_forever, daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{address}")
        assert "authorization denied by plugin" in why_not("docker")
        engine.shutdown()


@pytest.mark.usefixtures("script")
def test_a_program_that_works_is_not_lacking(script: Script) -> None:
    script("chromium", "#!/bin/sh\necho '<html><body>works</body></html>'\n")
    assert why_not("chromium") == ""
    assert set(PROGRAMS) == {"chromium", "compose", "criu", "docker", "fuse", "git"}
