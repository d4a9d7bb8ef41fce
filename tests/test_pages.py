"""The pages for people: the reference is as the code is, and every link leads somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kchaos.harness.run.scenario import read_scenario
from kchaos.harness.run.steps_checked import check_steps
from tests import built_pages, reference, report_picture

ROOT = Path(__file__).parent.parent

pytest_plugins = ("pytester",)
pytestmark = pytest.mark.slow


def test_the_reference_says_what_the_definitions_say():
    """If it does not: `python -m tests.reference`."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_picture_in_the_readme_is_what_a_report_draws():
    """If it is not: `python -m tests.report_picture`."""
    assert report_picture.PICTURE.read_text(encoding="utf-8") == report_picture.picture()


def test_the_pages_are_built_and_no_link_leads_nowhere(tmp_path: Path):
    built_pages.write()
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()


def test_the_scenario_of_the_tutorial_can_be_saved_read_and_played(tmp_path: Path):
    page = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    blocks = re.findall(r"<!-- scenario -->\n```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 3
    command = [sys.executable, "-W", "ignore", "-c", "".join(blocks)]
    subprocess.run(command, cwd=tmp_path, check=True)

    scenario = read_scenario(tmp_path / "mine.json")

    check_steps(scenario)
    assert len(scenario.steps) == 14


def test_the_roll_of_the_page_about_upgrades_can_be_collected(pytester: pytest.Pytester):
    page = (ROOT / "docs" / "rolls.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"<!-- roll -->\n```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(test_roll=block)

    done = pytester.runpytest_subprocess("-q", "--strict-markers", "--collect-only")

    done.stdout.fnmatch_lines(["*::test_a_roll_keeps_what_was_promised"])
