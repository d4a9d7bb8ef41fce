"""Second tries: a test on a cluster that fails is played again, and its failure is shown."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
pytest.importorskip("pytest_rerunfailures")
pytest_plugins = ("pytester",)

_CONFTEST = """
from tests.conftest import pytest_collection_modifyitems, pytest_configure
"""
_FAILS_ONCE = """
import pathlib
import pytest

def fails_once(name):
    marker = pathlib.Path(__file__).with_name(name)
    if not marker.exists():
        marker.touch()
        raise AssertionError(f"{name}: broker 2 never came")
"""
_FLAKY = """
@pytest.mark.cluster
def test_flaky_{name}():
    fails_once("{name}")
"""


def test_two_tests_on_clusters_may_fail_once_and_nothing_else(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makeini(
        f"[pytest]\npythonpath = {Path(__file__).parents[1]}\nmarkers =\n    cluster: real\n"
    )
    unit = "def test_unit():\n    fails_once('unit')\n"
    pytester.makepyfile(_FAILS_ONCE + unit + "".join(_FLAKY.format(name=name) for name in "abc"))
    result = pytester.runpytest_subprocess("-n", "1")
    assert result.parseoutcomes() == {"passed": 2, "rerun": 2, "failed": 2}
    result.stdout.fnmatch_lines(["RERUN *test_flaky_*", "*broker 2 never came"])
    result.stdout.fnmatch_lines(["FAILED *test_unit*"])
