"""Tests that share what is made once for a module, or a session, are run by one process."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_ignore_collect

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
):
    pytester.makeconftest(_CONFTEST)
    pytester.makeini(f"[pytest]\npythonpath = {ROOT}\n")
    pytester.makepyfile(_TESTS)

    pytester.runpytest("-n", "3", "--dist", "loadgroup").assert_outcomes(passed=24)

    # pytest-xdist 3.8 names groups in ids that pytest 9.2 makes otherwise: there each process has
    # its own.
    assert sorted((pytester.path / "made").read_text().split()) == ["1.1.1", "2.8.2"]
    clusters = set((pytester.path / "clusters").read_text().splitlines())
    assert len(clusters) == 2, clusters


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
):
    module = tmp_path / "test_module.py"
    module.write_text("import pytest\n\npytestmark = [pytest.mark.cluster, pytest.mark.slow]\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=selection))

    assert pytest_ignore_collect(module, config) is (is_left_alone or None)


def test_a_mark_of_single_tests_leaves_no_module_alone(tmp_path: Path):
    module = tmp_path / "test_module.py"
    module.write_text("@pytest.mark.slow\ndef test_a(): pass\n\n# pytestmark = pytest.mark.slow\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr="not slow"))

    assert pytest_ignore_collect(module, config) is None
    assert pytest_ignore_collect(tmp_path, config) is None
