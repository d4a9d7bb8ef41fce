"""What was found on real brokers, one small file a case, played again and judged by the model.

A case is a module of this folder with `RELEASES` (each with whether the run is safe), `STEPS` or
`steps(release)`, `seen(run, release)`, which asserts what the brokers did, from the evidence alone,
and where they differ from the usual `PROPERTIES`, `BROKERS`, `FIRST_BROKER`, the controller,
`KAFKA`, the releases of single brokers, and `BROKER_PROPERTIES`, likewise, and `LOG_DIRECTORIES`,
how many each broker has. The most telling ones are `late_leader_and_isr`, `one_way_cut_of_fetches`
and `kafka_13141`.

CI plays a case on its newest release, and `make cases` on each. Stored runs show both sides of each
border (`tests/golden/borders`).
"""

import importlib
import os
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario

NOT_CASES = ("test_cases",)
CASES: dict[str, ModuleType] = {
    file.stem: importlib.import_module(f"tests.cases.{file.stem}")
    for file in sorted(Path(__file__).parent.glob("*.py"))
    if file.stem not in NOT_CASES
}
CELLS = [
    pytest.param(name, release, id=f"{name}-{release}")
    for name, case in CASES.items()
    for release in case.RELEASES
]
PLAYED = [
    cell
    for cell in CELLS
    if cell.values[1] == max(CASES[str(cell.values[0])].RELEASES, key=parse_version)
    or os.environ.get("KCHAOS_ALL_CASES")
]


def scenario_of(name: str, release: str) -> Scenario:
    case = CASES[name]
    return Scenario(
        entry=name,
        case="",
        release=release,
        steps=case.steps(release) if hasattr(case, "steps") else case.STEPS,
        cluster=ClusterSpec(
            brokers=tuple(
                replace(
                    broker,
                    kafka=getattr(case, "KAFKA", {}).get(broker.id, broker.kafka),
                    properties=getattr(case, "BROKER_PROPERTIES", {}).get(broker.id, {}),
                    log_directories=getattr(case, "LOG_DIRECTORIES", 1),
                )
                for broker in brokers_of(release, getattr(case, "BROKERS", (0, 1, 2)))
            ),
            first_broker=getattr(case, "FIRST_BROKER", 2),
            properties={**QUICK, **getattr(case, "PROPERTIES", {})},
        ),
    )


@pytest.mark.cluster
@pytest.mark.parametrize(("name", "release"), PLAYED)
def test_brokers_do_what_the_case_says_and_what_the_model_predicts(
    name: str, release: str, tmp_path: Path
) -> None:
    run = play(
        scenario_of(name, release), options=RunOptions(runs_directory=tmp_path), say=lambda _: None
    )
    results = judge(run)
    shown = "\n".join([str(results.unknown), *map(str, results.findings), *results.crashes])
    assert results.unknown is None, shown
    CASES[name].seen(run, release)
    assert results.safe is CASES[name].RELEASES[release], shown
    assert results.conforms is True, shown


@pytest.mark.parametrize(("name", "release"), CELLS)
def test_a_case_is_data(name: str, release: str) -> None:
    scenario = scenario_of(name, release)
    assert Scenario.from_json(scenario.to_json()) == scenario
