"""The pages for people: the reference is as the code is, and every link leads somewhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import reference

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.slow


def test_the_reference_says_what_the_definitions_say() -> None:
    """If it does not: `python -m tests.reference`."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page()


def test_the_pages_are_built_and_no_link_leads_nowhere(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").is_file()
