"""The rules of the house, as tests; style and types are `.ci/check`'s."""

import ast
import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

import kchaos
import kchaos.faults
import kchaos.harness.steps.scenario_steps
from tests.support.parsing import parsed

ROOT = Path(__file__).parent.parent
_PRODUCT = ("studies", "harness", "clusters", "faults", "checkers", "benchmarks")
_ROOMS_AND_TESTS = (*_PRODUCT, "tests")


def test_each_room_has_its_place_in_an_import_contract():
    """A layer, or the source of what it may not import."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    placed = {
        room.strip()
        for contract in contracts["contracts"]
        for named in (*contract.get("layers", ()), *contract.get("source_modules", ()))
        for room in named.split("|")
    }
    tops = ("clusters", "faults", "checkers", "checkers/model", "harness", "studies")
    rooms = {
        f"kchaos.{top}.{init.parent.name}".replace("/", ".")
        for top in tops
        for init in ROOT.glob(f"{top}/*/__init__.py")
    }
    assert len(rooms) > 30
    assert sorted(rooms - placed) == []


def test_every_public_name_is_there():
    names = dir(kchaos)
    assert {"KillBroker", "Injection", "AwaitTimeout", "Journal", "__version__"} <= set(names)
    assert [name for name in names if not hasattr(kchaos, name)] == []
    for table in (kchaos.faults.FAULTS, kchaos.harness.steps.scenario_steps.STEPS):
        assert [name for name, made in table.items() if getattr(kchaos, name, None) != made] == []


@pytest.mark.slow
def test_rooms_are_imported_by_the_name_that_nobody_else_has():
    bare = re.compile(r"(?<!kchaos )(?:from|import) (?:studies|harness|clusters|faults|checkers)\b")
    folders = _ROOMS_AND_TESTS
    chosen = [
        str(file.relative_to(ROOT))
        for folder in folders
        for file in ROOT.glob(f"{folder}/**/*.py")
        if bare.search(file.read_text())
    ]
    assert chosen == []


def test_the_house_stays_within_its_fence():
    """If not: subtract, or raise FENCE.toml in a commit that says for whom."""
    fence = tomllib.loads((ROOT / "FENCE.toml").read_text())
    lines = {
        part: sum(
            len(file.read_text().splitlines())
            for room in limit["rooms"]
            for file in ROOT.glob(f"{room}/**/*")
            if file.suffix in (".py", ".toml", ".java") and not file.is_symlink()
        )
        for part, limit in fence.items()
    }
    assert {part: count for part, count in lines.items() if count > fence[part]["lines"]} == {}
    assert {room for limit in fence.values() for room in limit["rooms"]} == {*_ROOMS_AND_TESTS}
    assert all(limit["for"] for limit in fence.values())


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


@pytest.mark.parametrize(
    "page", ["nightly", "entry", "upgrades", "pytest", "clients", "scenario", "own-settings"]
)
def test_the_page_of_a_job_has_under_a_hundred_lines(page: str):
    assert len((ROOT / f"docs/{page}.md").read_text().splitlines()) < 100


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_links_between_pages_lead_somewhere(page: str):
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_one_module_knows_the_paths_of_znodes():
    path = re.compile(r"""["']/(brokers|controller|admin|config)\b""")
    files = [
        file for room in ("harness", "clusters", "faults") for file in ROOT.glob(f"{room}/**/*.py")
    ]
    chosen = [str(file.relative_to(ROOT)) for file in files if path.search(file.read_text())]
    assert chosen == ["clusters/metadata/zookeeper.py"]


def test_a_run_s_files_are_read_and_parsed_in_one_room():
    reading = re.compile(r"json\.loads?\(|\.read_lines\(|\.read\(\"|\.read_(text|bytes)\(|open\(")
    files = [
        *ROOT.glob("harness/report/*.py"),
        *ROOT.glob("checkers/rules/*.py"),
        *(ROOT / "checkers" / name for name in ("judge.py", "record.py", "verdict.py")),
    ]
    chosen = {str(file.relative_to(ROOT)) for file in files if reading.search(file.read_text())}
    # It shows the bytes of a header.
    assert chosen == {"harness/report/headers.py"}


@pytest.mark.slow
def test_classes_of_one_name_are_the_same_thing():
    """An act or an event is also a fault or a step; what else has a name twice is listed."""
    done: set[str] = set()
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for file in (file for room in _PRODUCT for file in ROOT.glob(f"{room}/**/*.py")):
        name = str(file.relative_to(ROOT))
        for node in ast.walk(parsed(file.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(name)
                if name in ("checkers/acts.py", "checkers/model/values/events.py"):
                    done.add(node.name)
    twice = {name: files for name, files in modules.items() if len(files) > 1}
    # Clusters import no observation.
    known = {"Broker", "EpochEntry", "LeaderAndIsr", "Reassign", "Record", "Standstill"}
    assert {name: files for name, files in twice.items() if name not in done | known} == {}
    assert {"CutLink", "Produce"} <= done & set(twice)
