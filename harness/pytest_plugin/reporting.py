"""Section of a test's report that tells of its run; choice of run directories that stay.

Imported in every pytest run of the environment: it imports pytest and the standard library.
"""

import re
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.harness.pytest_plugin.fixtures import CHAOS, CLUSTER
from kchaos.harness.pytest_plugin.options import settings_of

if TYPE_CHECKING:
    from kchaos.checkers.findings import Finding
    from kchaos.checkers.results import Results
    from kchaos.harness.campaign.live import Chaos

_FAILED = pytest.StashKey[bool]()
_INTERRUPTIONS = (KeyboardInterrupt, SystemExit, pytest.exit.Exception)
_ERROR_LINES = 10
_ERROR = re.compile(rb"\b(ERROR|FATAL)\b")
_ANSWERS = {True: "true", False: "false", None: "unknown"}
_KEPT = "kchaos_kept"
_RUN = "kchaos_run"


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """End the test's run while its cluster runs, however the test ended."""
    try:
        outcome = yield
    except _INTERRUPTIONS:
        raise
    except BaseException as error:
        try:
            _end(item)
        except Exception as ending:  # noqa: BLE001 - the test's own failure matters more
            error.add_note(f"kchaos: besides, the run could not be ended: {ending!r}")
        raise
    _end(item)
    return outcome


def _end(item: pytest.Item) -> None:
    live = item.stash.get(CHAOS, None)
    if live is not None and live.results is None:
        live.end()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add properties to every report and sections to failed ones; remove runs not to be kept."""
    skipped = call.excinfo is not None and call.excinfo.errisinstance(pytest.skip.Exception)
    if call.excinfo is not None and not skipped:
        item.stash[_FAILED] = True
    live = item.stash.get(CHAOS, None)
    if live is not None and call.when == "call":
        item.user_properties.extend(_properties(live))
    if live is not None and call.when == "teardown":
        if not any(name == _RUN for name, _ in item.user_properties):
            # Another fixture failed, and the test was never called.
            item.user_properties.extend(_properties(live))
        item.user_properties.append((_KEPT, _keep_or_remove(item, live)))
    report = yield
    if report.failed:
        report.sections.extend(_sections(item))
    return report


def _properties(live: "Chaos") -> list[tuple[str, object]]:
    results = live.results
    answers = (results.conforms, results.safe) if results is not None else (None, None)
    return [
        ("kchaos_seed", live.seed),
        ("kchaos_release", live.run.read("run.json")["release"]),
        ("kchaos_verdict", f"conforms={_ANSWERS[answers[0]]} safe={_ANSWERS[answers[1]]}"),
        (_RUN, str(live.path)),
    ]


def stays(keep: str, *, failed: bool, results: "Results | None") -> bool:
    """Whether a run directory stays after its test.

    With "failed" it stays when the test failed, and also when the run is a surprise whatever the
    test thought of it: not as predicted, or unknown where that can be known of its cluster.
    Without results it is unknown.
    """
    from kchaos.checkers.run_line import is_unknown

    if keep == "failed":
        return failed or results is None or results.conforms is False or is_unknown(results)
    return keep == "always"


def _keep_or_remove(item: pytest.Item, live: "Chaos") -> str:
    """Return "yes", or remove the run directory and return "no"."""
    keep = settings_of(item.config).keep
    if stays(keep, failed=item.stash.get(_FAILED, False), results=live.results):
        return "yes"
    from kchaos.harness.run.runner import delete_run

    delete_run(live.path)
    return "no"


def _sections(item: pytest.Item) -> Iterator[tuple[str, str]]:
    live = item.stash.get(CHAOS, None)
    if live is not None:
        yield "kchaos run", "\n".join(_run_lines(item, live))
    cluster = item.stash.get(CLUSTER, None)
    brokers = cluster.brokers.values() if cluster is not None else ()
    lines = [line for broker in brokers for line in _error_lines(broker.id, broker.server_log)]
    if lines:
        yield f"brokers' last ERROR lines (at most {_ERROR_LINES} each)", "\n".join(lines)


def _run_lines(item: pytest.Item, live: "Chaos") -> Iterator[str]:
    results = live.results
    if results is None:
        yield "verdict: unknown, the run was not ended"
    else:
        yield f"verdict: conforms {_ANSWERS[results.conforms]}, safe {_ANSWERS[results.safe]}"
        if results.unknown:
            yield f"unknown because: {results.unknown}"
        yield from (f"finding: {_finding_line(finding)}" for finding in results.findings)
        yield from (f"checker crashed: {crash}" for crash in results.crashes)
    yield f"seed: {live.seed}"
    kept = settings_of(item.config).keep != "never"
    yield f"run: {live.path}" + ("" if kept else " (removed after the test: --kchaos-keep=never)")
    yield f"replay: {live.run.read('run.json')['replay']}"
    from kchaos.checkers.run_directory import REPORT

    report = live.path / REPORT
    if report.is_file():
        yield f"report: {report}"


def _finding_line(finding: "Finding") -> str:
    where = f" {finding.topic}-{finding.partition}" if finding.topic else ""
    offsets = f" {finding.first_offset}..{finding.last_offset}" if finding.first_offset >= 0 else ""
    return f"{finding.kind}{where}{offsets} brokers {list(finding.brokers)}: {finding.message}"


def _error_lines(broker: int, log: Path) -> list[str]:
    if not log.is_file():
        return []
    lines = [line for line in log.read_bytes().splitlines() if _ERROR.search(line)]
    return [f"broker {broker}: {line.decode('utf-8', 'replace')}" for line in lines[-_ERROR_LINES:]]


def pytest_report_collectionfinish(
    config: pytest.Config, items: list[pytest.Item]
) -> list[str] | None:
    """Return one line if any test uses Kafka."""
    users = [item for item in items if "kafka_release" in getattr(item, "fixturenames", ())]
    if not users:
        return None
    settings = settings_of(config)
    releases = ", ".join(settings.releases) or "as marked, else the newest"
    seed = "new for each test" if settings.seed is None else str(settings.seed)
    return [
        f"kchaos: {_counted(len(users), 'test uses', 'tests use')} Kafka ({settings.driver}; "
        f"releases: {releases}; seed: {seed}); runs go to {settings.runs_directory}, "
        f"kept: {settings.keep}"
    ]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many run directories are kept and how many were removed."""
    kept = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "teardown"
        for name, value in report.user_properties
        if name == _KEPT
    ]
    if kept:
        settings = settings_of(config)
        removed = kept.count("no")
        hint = "; --kchaos-keep=always keeps all" if removed else ""
        terminalreporter.write_line(
            f"kchaos: {_counted(kept.count('yes'), 'run', 'runs')} kept in "
            f"{settings.runs_directory}, {removed} removed (--kchaos-keep={settings.keep}){hint}"
        )


def _counted(count: int, singular: str, plural: str) -> str:
    return f"{count} {singular if count == 1 else plural}"
