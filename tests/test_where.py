"""docs/where.md has a line for each room and module, and says what their docstrings say."""

import re

import pytest

from tests import where

pytestmark = pytest.mark.slow


def test_the_page_says_what_the_docstrings_say() -> None:
    """If it does not: `python -m tests.where`."""
    assert where.PAGE.read_text(encoding="utf-8") == where.page()


def test_every_room_and_module_says_what_it_is() -> None:
    silent = re.findall(r"^- `.*`: $|^## \S+(?=\n\n-)", where.page(), re.MULTILINE)
    assert silent == []
