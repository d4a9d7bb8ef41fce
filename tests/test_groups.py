"""Tests that share what is made once for a module, or a session, are run by one process."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import _spread, can_be_worked_in, import_all, pytest_ignore_collect

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parent.parent

_CONFTEST = """
import pytest
from tests.conftest import pytest_collection_modifyitems

@pytest.fixture(scope="session")
def release_cluster():
    return None
"""
_TESTS = """
import os
from pathlib import Path
import pytest

@pytest.fixture(scope="module", params=["1.1.1", "2.8.2"])
def made_once(request):
    with Path("made").open("a") as file:
        print(request.param, file=file)

@pytest.mark.parametrize("number", range(6))
def test_shares(made_once, number):
    pass

@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("release", ["1.1.1", "2.8.2"])
def test_on_a_cluster(release_cluster, release, number):
    with Path("clusters").open("a") as file:
        print(release, os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


def test_what_several_tests_share_is_made_once_by_one_of_several_processes(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\n")
    pytester.makepyfile(_TESTS)

    pytester.runpytest("-n", "3", "--dist", "loadgroup").assert_outcomes(passed=24)

    # pytest-xdist 3.8 names groups in ids that pytest 9.2 makes otherwise: there each process has
    # its own.
    assert sorted((pytester.path / "made").read_text().split()) == ["1.1.1", "2.8.2"]
    clusters = set((pytester.path / "clusters").read_text().splitlines())
    assert len(clusters) == 2, clusters


class Listed:
    """What is asked of a test that was collected."""

    def __init__(self, nodeid: str, *names: str, group: str = "") -> None:
        marks = [getattr(pytest.mark, name) for name in names]
        marks += [pytest.mark.xdist_group(group)] if group else []
        self.nodeid = nodeid
        self.path = ROOT / "tests" / ("test_page.py" if nodeid == "page" else "checkers/test_t.py")
        self._marks = {mark.name: mark for mark in marks}

    def get_closest_marker(self, name: str) -> object:
        return self._marks.get(name)


def test_tests_that_wait_are_spread_over_the_others_and_a_group_stays_together() -> None:
    waiting = [
        Listed("a", "cluster"),
        Listed("b", "docker", group="docker"),
        Listed("c", "spark"),
        Listed("d", "docker", group="docker"),
        Listed("page", "cluster"),
    ]
    computing = [Listed(str(number), "slow") for number in range(7)]

    spread: list[Any] = _spread([*waiting, *computing])  # type: ignore[list-item]

    assert "".join(each.nodeid for each in spread) == "page0a12bd34c56"
    assert _spread(computing) == computing  # type: ignore[arg-type, comparison-overlap]


@pytest.mark.parametrize(
    ("selection", "is_left_alone"),
    [
        ("not slow", True),
        ("not spark and not cluster", True),
        ("", False),
        ("slow", False),
        ("not spark", False),
        ("not slow or spark", False),
        ("spark and not slow", False),
        ("not (slow and docker)", False),
    ],
)
def test_a_module_is_left_alone_if_no_test_of_it_is_asked_for(
    tmp_path: Path, selection: str, is_left_alone: bool
) -> None:
    module = tmp_path / "test_module.py"
    module.write_text("import pytest\n\npytestmark = [pytest.mark.cluster, pytest.mark.slow]\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=selection))

    assert pytest_ignore_collect(module, config) is (is_left_alone or None)


def test_a_mark_of_single_tests_leaves_no_module_alone(tmp_path: Path) -> None:
    module = tmp_path / "test_module.py"
    module.write_text("@pytest.mark.slow\ndef test_a(): pass\n\n# pytestmark = pytest.mark.slow\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr="not slow"))

    assert pytest_ignore_collect(module, config) is None
    assert pytest_ignore_collect(tmp_path, config) is None


@pytest.mark.parametrize(
    ("free_mib", "flag", "is_used"), [(300, 0, True), (200, 0, False), (300, os.ST_NOEXEC, False)]
)
def test_tests_work_in_memory_where_there_is_room_and_programs_may_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_mib: int, flag: int, is_used: bool
) -> None:
    system = SimpleNamespace(f_bavail=free_mib, f_frsize=1 << 20, f_flag=flag)
    monkeypatch.setattr(os, "statvfs", lambda folder: system)

    assert can_be_worked_in(tmp_path) is is_used
    assert not can_be_worked_in(tmp_path / "none")


def test_a_module_that_cannot_be_imported_or_is_skipped_hinders_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {
        "skipped_whole": "import pytest; pytest.importorskip('nothing_of_that_name')",
        "not_importable": "import nothing_of_that_name",
        "imported_last": "",
    }
    for name, text in modules.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    import_all([*modules])

    assert [name for name in modules if name in sys.modules] == ["imported_last"]
    monkeypatch.delitem(sys.modules, "imported_last")
