"""The cases as scenarios, and the run that is stored of each."""

import importlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import kchaos as k
from kchaos.checkers.model.releases.versions import parse_version
from tests.golden import stored

NOT_CASES = ("plays", "test_cases")
CASES: Mapping[str, ModuleType] = {
    file.stem: importlib.import_module(f"tests.cases.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("*.py"))
    if file.stem not in NOT_CASES
}
STORED_CASES = tuple(sorted(folder.name for folder in stored.CASES.iterdir()))
"""Those with a stored run, which CI judges in place of a play."""


def newest_release(name: str) -> str:
    """Return the newest release that a case is about."""
    newest: str = max(CASES[name].RELEASES, key=parse_version)
    return newest


def scenario_of_case(name: str, release: str) -> k.Scenario:
    """Return a case as it is played on a release."""
    case = CASES[name]
    return k.Scenario(
        entry=name,
        case="",
        release=release,
        steps=case.steps(release) if hasattr(case, "steps") else case.STEPS,
        cluster=k.ClusterSpec(
            brokers=tuple(
                replace(
                    broker,
                    kafka=getattr(case, "KAFKA", {}).get(broker.id, broker.kafka),
                    properties=getattr(case, "BROKER_PROPERTIES", {}).get(broker.id, {}),
                    log_directories=getattr(case, "LOG_DIRECTORIES", 1),
                )
                for broker in k.brokers_of(release, getattr(case, "BROKERS", (0, 1, 2)))
            ),
            first_broker=getattr(case, "FIRST_BROKER", 2),
            properties={**k.QUICK, **getattr(case, "PROPERTIES", {})},
        ),
    )


def check(run: k.RunDirectory, name: str, release: str, results: k.Results | None = None) -> None:
    """Fail unless brokers did what the case says, and what the model predicts.

    `results` are of the run, if it was judged already.
    """
    results = results or k.judge(run)
    shown = "\n".join([str(results.unknown), *map(str, results.findings), *results.crashes])
    assert results.unknown is None, shown
    CASES[name].seen(run, release)
    assert results.safe is CASES[name].RELEASES[release], shown
    assert results.conforms is True, shown


def store_case(name: str, runs_directory: Path, *, again: bool = False) -> None:
    """Play a case on its newest release and store the run, checked before and as it is stored."""
    release = newest_release(name)
    run = k.play(
        scenario_of_case(name, release),
        options=k.RunOptions(runs_directory=runs_directory),
        say=lambda _: None,
    )
    check(run, name, release)
    lines = getattr(CASES[name], "LOGS", "")
    stored.store(run, name, runs=stored.CASES, again=again, lines=lines)
