"""Programs that tests need and a machine may lack: their tests are skipped, and named at the end.

Where ``KCHAOS_REQUIRE`` names a program, a test that lacks it fails: `.ci/run` names all of them,
since nobody would miss a test that is skipped there.
"""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Generator
from functools import cache
from typing import Any, NamedTuple, NoReturn

import pytest

REQUIRED = "KCHAOS_REQUIRE"
BROWSER_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking"),
)
_ANSWER_S = 60
_NOT_TESTED = "NOT TESTED: "


class Program(NamedTuple):
    """What cannot be tested without a program, and a function: why it does not work here, or ""."""

    tested: str
    why_not: Callable[[], str]


def browser() -> str | None:
    """Return the name of the browser of this machine, None without one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def _no_browser() -> str:
    name = browser()
    if name is None:
        return "there is no chromium: install the package chromium"
    command = [name, *BROWSER_FLAGS, "--dump-dom", "data:text/html,works"]
    return _complaint(command, "works", "install the package chromium anew")


def _no_compose() -> str:
    is_plugin = shutil.which("docker-compose") is None
    command = ["docker", "compose"] if is_plugin else ["docker-compose"]
    return _complaint([*command, "version"], "", "install the package docker-compose")


def _complaint(command: list[str], wanted: str, remedy: str) -> str:
    """Return "" where a command ends well and prints what is wanted of it."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{command[0]} cannot work here ({error}): {remedy}"
    if done.returncode == 0 and wanted in done.stdout:
        return ""
    last = (done.stderr.strip() or "it says no reason").splitlines()[-1]
    return f"{command[0]} ended with code {done.returncode} ({last}): {remedy}"


def _no_git() -> str:
    return "" if shutil.which("git") else "there is no git: install the package git"


def _no_namespaces() -> str:
    own = ("unshare", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc")
    remedy = "install the packages util-linux and mount, and let this user make namespaces"
    return _complaint([*own, "mount", "-t", "tmpfs", "tmpfs", "/mnt"], "", remedy)


def _no_openssh() -> str:
    return "" if shutil.which("ssh-keygen") else "there is no ssh-keygen: install openssh-client"


def _no_criu() -> str:
    from kchaos.clusters.restored.criu import why_not

    return why_not()


def _no_slow_disk() -> str:
    from kchaos.clusters.disk.mounting import remedy

    return remedy()


def _no_engine() -> str:
    from kchaos.clusters.docker_driver.engine import connect
    from kchaos.clusters.errors import MachineError

    try:
        connect(timeout_s=10).close()
    except MachineError as error:
        return str(error)
    return ""


PROGRAMS = {
    "chromium": Program("reports in a browser", _no_browser),
    "compose": Program("docker-compose.yml", _no_compose),
    "criu": Program("JVMs made of images", _no_criu),
    "docker": Program("containers", _no_engine),
    "fuse": Program("slow disks", _no_slow_disk),
    "git": Program("what is read from git", _no_git),
    "namespaces": Program("full disks and other tables of processes", _no_namespaces),
    "openssh": Program("signatures", _no_openssh),
}


@cache
def why_not(name: str) -> str:
    """Return why a program cannot work here, and what to do about it; "" if it works."""
    return PROGRAMS[name].why_not()


def lack(name: str, why: str) -> NoReturn:
    """Skip a test that lacks a program; where the program is required, the test fails."""
    if name in os.environ.get(REQUIRED, "").split():
        pytest.fail(f"{REQUIRED} names {name}, and it does not work here: {why}", pytrace=False)
    pytest.skip(f"{_NOT_TESTED}{PROGRAMS[name].tested}: {why}")


class Needed:
    """The plugin: it skips tests by their mark `needs`, and says at the end what was not tested."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Skip a test that lacks a program, before its fixtures are made."""
        names = [name for mark in item.iter_markers("needs") for name in mark.args]
        for name in [*names, *(["docker"] if item.get_closest_marker("docker") else [])]:
            if why := why_not(name):
                lack(name, why)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """End the session where a server's certificate is not trusted: no other test can fetch."""
        from kchaos.clusters.errors import UntrustedCertificate

        error = call.excinfo.value if call.excinfo is not None else None
        while error is not None and not isinstance(error, UntrustedCertificate):
            error = error.__cause__ or error.__context__
        if error is not None:
            item.session.shouldstop = str(error)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None]:
        """Write a line for each program that is lacking, after all else that pytest says."""
        skipped = terminalreporter.stats.get("skipped", [])
        lacking = [report for report in skipped if _reason(report)]
        terminalreporter.stats["skipped"] = [report for report in skipped if report not in lacking]
        try:
            yield
        finally:
            terminalreporter.stats["skipped"] = skipped
        if lacking:
            terminalreporter.section("NOT TESTED HERE", sep="!", red=True, bold=True)
            for reason, tests in sorted(Counter(map(_reason, lacking)).items()):
                terminalreporter.write_line(f"{reason} ({tests} test{'s' * (tests > 1)})")
            terminalreporter.write_line("As root on Debian, .ci/run has all of them installed.")


def _reason(report: pytest.TestReport) -> str:
    """Return what a skipped test did not test, and why; "" if it lacks no program."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
    _, mark, text = reason.partition(_NOT_TESTED)
    return text if mark else ""
