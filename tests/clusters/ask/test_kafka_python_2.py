"""Whoever has kafka-python 2 keeps it: kchaos writes, reads and is imported beside it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RELEASES = ("2.2.0", "2.3.3")
"""The oldest that pyproject.toml takes, and the newest before 3."""
# Each module of the product, except those that need packages which few have; then some tests.
IMPORT_AND_TEST = """
import importlib, pkgutil, kafka, kchaos
for module in pkgutil.walk_packages(kchaos.__path__, "kchaos."):
    name = module.name
    if ".spark" in name or ".docker_driver" in name or name.endswith(("__main__", ".serving")):
        continue
    importlib.import_module(name)
print(kafka.__version__, flush=True)
import pytest
options = ["-q", "-p", "no:cacheprovider"]
raise SystemExit(
    pytest.main([*options, "tests/clusters/ask/test_client.py", "tests/harness/test_raw_steps.py"])
)
"""


@pytest.fixture(scope="module", params=RELEASES)
def beside(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with that release, to come before what is installed."""
    folder = tmp_path_factory.mktemp(f"kafka-python-{request.param}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, f"kafka-python=={request.param}"], check=True)
    return folder


def run(beside: Path, arguments: Sequence[str]) -> str:
    """What Python prints with that folder before all others."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(beside)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_batches_are_written_and_read_with_it_and_every_module_of_the_product_is_imported(
    beside: Path,
):
    printed = run(beside, ["-W", "ignore", "-c", IMPORT_AND_TEST])

    version, *tested = printed.splitlines()
    assert version.startswith("2.")
    assert version in str(beside)
    assert " passed" in tested[-1]
    assert " skipped" not in printed
