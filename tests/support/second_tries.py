"""A test on a cluster that fails is played once more at the end of the session.

If it passes then, it is flaky: the terminal summary says so, with the text of its first failure
and the folder of its run. The session passes with at most `MOST_FLAKY` of them. A unit test has one
try.
"""

from collections import defaultdict
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

MOST_FLAKY = 2
PLAYED_ON = ("cluster", "docker")

_FAILED_ONCE = "failed once"
_KEPT = "folder of the first try"
_FOLDERS = pytest.StashKey[list[str]]()
_SENT = "second_tries"


class SecondTries:
    """The plugin: `config.pluginmanager.register(SecondTries(config))`.

    With pytest-xdist each worker plays its own failures again when its queue is empty. It sends the
    reports with its output at the end, since xdist takes no report of a test twice.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_worker = hasattr(config, "workerinput")
        self._first_tries: dict[pytest.Item, list[pytest.TestReport]] = {}
        self._plays_again = False
        self._to_send: list[dict[str, Any]] = []
        # What the process that reports has heard, by node id.
        self._failures: dict[str, list[pytest.TestReport]] = defaultdict(list)
        self._settled: dict[str, bool] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> bool | None:
        """Reports a failure on a cluster as a first one, and any other test as pytest does."""
        if not _is_played(item):
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if self._plays_again:
            self._settle(item, reports)
        elif any(report.failed for report in reports):
            self._first_tries[item] = reports
            for report in reports:
                if report.failed:
                    item.ihook.pytest_runtest_logreport(report=_first_failure(item, report))
        else:
            for report in reports:
                item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> None:
        """Notes where the test kept its run, while its fixtures are still known."""
        if _is_played(item):
            item.stash[_FOLDERS] = _folders_of(getattr(item, "funcargs", None) or {})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Plays the tests that failed again, after all others."""
        result = yield
        if session.shouldfail or session.shouldstop:
            return result
        self._plays_again = True
        for item, reports in self._first_tries.items():
            if len(self._first_tries) > MOST_FLAKY:
                # The session fails whatever a second try says.
                self._publish(reports, flaky=False)
            else:
                self._config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        if self._is_worker:
            self._config.workeroutput[_SENT] = self._to_send  # type: ignore[attr-defined]
        return result

    def _settle(self, item: pytest.Item, reports: list[pytest.TestReport]) -> None:
        if any(report.failed for report in reports):
            self._publish(reports, flaky=False)
        elif all(report.passed for report in reports):
            self._publish(reports, flaky=True)
        else:
            # Skipped now: that is no pass.
            self._publish(self._first_tries[item], flaky=False)

    def _publish(self, reports: Iterable[pytest.TestReport], *, flaky: bool) -> None:
        hook = self._config.hook
        for report in reports:
            if self._is_worker:
                data = hook.pytest_report_to_serializable(config=self._config, report=report)
                self._to_send.append({"report": data, "flaky": flaky})
            else:
                self._settled[report.nodeid] = flaky
                hook.pytest_runtest_logreport(report=report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what a worker's second tries gave; a worker that died has sent nothing."""
        for sent in getattr(node, "workeroutput", {}).get(_SENT, ()):
            report = self._config.hook.pytest_report_from_serializable(
                config=self._config, data=sent["report"]
            )
            self._settled[report.nodeid] = sent["flaky"]
            self._config.hook.pytest_runtest_logreport(report=report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remembers first failures for the summary."""
        if report.outcome == _FAILED_ONCE:
            self._failures[report.nodeid].append(report)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A first failure is an R, and a flaky test's pass a Y."""
        if report.outcome == _FAILED_ONCE:
            return "failed once", "R", "FAILED, TO BE PLAYED AGAIN"
        if report.when == "call" and report.passed and self._settled.get(report.nodeid):
            return "flaky", "Y", "FLAKY"
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fails the session for too many flaky tests, and for one that had no second try."""
        if self._is_worker or session.exitstatus != pytest.ExitCode.OK:
            return
        if len(self._flaky()) > MOST_FLAKY or self._unsettled():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Says of each flaky test how it failed first, and where that run lies."""
        flaky, unsettled = self._flaky(), self._unsettled()
        self._tell(terminalreporter, "FLAKY: FAILED ONCE, AND PASSED WHEN PLAYED AGAIN", flaky)
        self._tell(terminalreporter, "FAILED ONCE, AND NEVER PLAYED AGAIN", unsettled)
        if len(flaky) > MOST_FLAKY:
            terminalreporter.write_line(
                f"{len(flaky)} tests are flaky and at most {MOST_FLAKY} may be: the session fails.",
                red=True,
                bold=True,
            )

    def _flaky(self) -> list[str]:
        return [nodeid for nodeid in self._failures if self._settled.get(nodeid)]

    def _unsettled(self) -> list[str]:
        return [nodeid for nodeid in self._failures if nodeid not in self._settled]

    def _tell(self, terminal: Any, title: str, nodeids: list[str]) -> None:
        if not nodeids:
            return
        terminal.section(title, sep="!", red=True, bold=True)
        for nodeid in nodeids:
            for report in self._failures[nodeid]:
                terminal.write_line(f"{nodeid} ({report.when})", red=True, bold=True)
                terminal.write_line(report.longreprtext)
                for name, text in report.sections:
                    terminal.write_line(f"--- {name} ---")
                    terminal.write_line(text)
            properties: dict[str, Any] = dict(self._failures[nodeid][0].user_properties)
            for folder in properties.get(_KEPT, ()):
                terminal.write_line(f"kept: {folder}")


def _is_played(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in PLAYED_ON)


def _first_failure(item: pytest.Item, report: pytest.TestReport) -> pytest.TestReport:
    kept = item.stash.get(_FOLDERS, [])
    return pytest.TestReport(
        nodeid=report.nodeid,
        location=report.location,
        keywords=report.keywords,
        outcome=_FAILED_ONCE,  # type: ignore[arg-type]
        longrepr=report.longrepr,
        when=report.when,
        sections=report.sections,
        duration=report.duration,
        user_properties=[*report.user_properties, (_KEPT, kept)],
    )


def _folders_of(fixtures: dict[str, Any]) -> list[str]:
    """The run directories in a test's folder; the folder itself if there is none."""
    folders: list[Path] = []
    if "tmp_path" in fixtures:
        folders.append(fixtures["tmp_path"])
    if "pytester" in fixtures:
        folders.append(fixtures["pytester"].path)
    runs = [file.parent for folder in folders for file in folder.rglob("scenario.json")]
    return [str(folder) for folder in runs or folders]
