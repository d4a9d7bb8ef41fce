"""Second tries: a test on a cluster that fails is played again at the end of the session."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

pytest_plugins = ("pytester",)
ROOT = Path(__file__).parent.parent

_CONFTEST = """
from tests.support.second_tries import SecondTries

def pytest_configure(config):
    config.pluginmanager.register(SecondTries(config))
"""
_SESSION = """
import pathlib
import pytest

FOLDER = pathlib.Path(__file__).parent

def fails_once(name):
    marker = FOLDER / name
    if not marker.exists():
        marker.touch()
        raise AssertionError(f"{name}: broker 2 never came")

@pytest.fixture
def broken_once():
    fails_once("fixture")

@pytest.fixture
def breaks_at_its_end():
    yield
    fails_once("ending")
"""
_FLAKY = """
@pytest.mark.cluster
def test_flaky_{name}(tmp_path):
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "scenario.json").touch()
    fails_once("{name}")
"""
_SOUND = """
def test_sound():
    pass
"""


SEVERAL = pytest.mark.parametrize(
    "arguments", [(), ("-n", "2", "--dist", "loadgroup")], ids=["one-process", "xdist"]
)


@pytest.fixture
def arguments() -> tuple[str, ...]:
    """Of a session in one process. What other processes tell of a failure has tests of its own."""
    return ()


@pytest.fixture
def run(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> "Run":
    return Run(pytester, arguments)


class Run:
    """A session of its own, in a folder of its own, with this project's plugin."""

    def __init__(self, pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
        self._pytester = pytester
        self._arguments = arguments
        pytester.makeconftest(_CONFTEST)
        pytester.makeini(
            f"[pytest]\npythonpath = {ROOT}\nmarkers =\n    cluster: real\n    docker: real\n"
        )

    def __call__(self, *tests: str) -> pytest.RunResult:
        self._pytester.makepyfile(_SESSION + "".join(tests))
        return self._pytester.runpytest("-ra", *self._arguments)


@SEVERAL
def test_once_failed_and_then_passed_is_told_loudly_and_passes(
    run: Run, pytester: pytest.Pytester
) -> None:
    result = run(_SOUND, _FLAKY.format(name="a"))
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "*!!! FLAKY: FAILED ONCE, AND PASSED WHEN PLAYED AGAIN !!!*",
            "*test_flaky_a (call)",
            "*AssertionError: a: broker 2 never came",
            "kept: *run-1",
            "*1 passed*1 flaky*",
        ]
    )
    (kept,) = [line for line in result.outlines if line.startswith("kept: ")]
    assert (Path(kept.removeprefix("kept: ")) / "scenario.json").exists()


@SEVERAL
@pytest.mark.parametrize(
    ("fixture", "when"), [("broken_once", "setup"), ("breaks_at_its_end", "teardown")]
)
def test_what_fails_before_and_after_the_test_is_played_again_too(
    run: Run, fixture: str, when: str
) -> None:
    result = run(f"@pytest.mark.cluster\ndef test_it({fixture}):\n    pass\n")
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines([f"*test_it ({when})", "*broker 2 never came", "*1 flaky*"])


def test_three_flaky_tests_fail_the_session(run: Run) -> None:
    result = run(_SOUND, *(_FLAKY.format(name=name) for name in "abc"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.re_match_lines([".*(3 failed|at most 2 may be: the session fails)"])


def test_failures_of_several_processes_are_counted_together(pytester: pytest.Pytester) -> None:
    grouped = "\n@pytest.mark.xdist_group('{name}')" + _FLAKY
    result = Run(pytester, ("-n", "3", "--dist", "loadgroup"))(
        *(grouped.format(name=name) for name in "abc")
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["3 tests are flaky and at most 2 may be: the session fails."])


@SEVERAL
def test_what_fails_again_fails_the_session(run: Run) -> None:
    result = run(_SOUND, "@pytest.mark.cluster\ndef test_bad():\n    assert 1 == 2\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED *test_bad*", "*1 failed*1 passed*"])
    result.stdout.no_fnmatch_line("*FLAKY*")


def test_a_second_try_that_is_skipped_is_no_pass(run: Run) -> None:
    result = run(
        "@pytest.mark.cluster\ndef test_it():\n    if (FOLDER / 'x').exists():\n"
        "        pytest.skip('no more')\n    fails_once('x')\n"
    )
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*x: broker 2 never came", "*1 failed*"])


def test_a_unit_test_has_one_try(run: Run) -> None:
    result = run("def test_unit():\n    fails_once('u')\n", _SOUND)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 failed, 1 passed*"])


@SEVERAL
def test_a_flaky_test_hides_no_failed_unit_test(run: Run) -> None:
    result = run(_FLAKY.format(name="a"), "def test_unit():\n    assert 1 == 2\n")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*FLAKY: FAILED ONCE*", "*1 failed*1 flaky*"])


def test_a_session_that_stops_before_the_second_try_fails(pytester: pytest.Pytester) -> None:
    stops = "def test_stop(request):\n    request.session.shouldstop = 'enough'\n"
    result = Run(pytester, ())(_FLAKY.format(name="a"), stops)
    assert result.ret != pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*FAILED ONCE, AND NEVER PLAYED AGAIN*", "*broker 2 never came"])


def test_a_worker_that_dies_with_its_failures_fails_the_session(pytester: pytest.Pytester) -> None:
    dies = "def test_dies():\n    import os\n    os._exit(1)\n"
    result = Run(pytester, ("-n", "1"))(_FLAKY.format(name="a"), dies)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*FAILED ONCE, AND NEVER PLAYED AGAIN*"])
