"""docs/robustness.md and mutants.md name a test for each thing that they say; each is there."""

import ast
import re
from pathlib import Path

import pytest

from tests.support.parsing import parsed

ROOT = Path(__file__).parents[1]
PAGES = (("robustness.md", 2), ("mutants.md", 1))


@pytest.mark.slow
@pytest.mark.parametrize(("page", "tables"), PAGES)
def test_every_test_that_a_page_names_exists(page: str, tables: int):
    lines = (ROOT / "docs" / page).read_text().splitlines()
    named = [re.search(r"`(tests/[\w/]+\.py)::(test_\w+)` \|$", line) for line in lines]
    assert sum(line.endswith("| test |") for line in lines) == tables
    assert sum(map(bool, named)) > 10
    for each in filter(None, named):
        tree = parsed((ROOT / each[1]).read_text())
        assert each[2] in {item.name for item in tree.body if isinstance(item, ast.FunctionDef)}


@pytest.mark.parametrize(("page", "tables"), PAGES)
def test_each_row_of_a_table_with_tests_names_one(page: str, tables: int):
    parts = (ROOT / "docs" / page).read_text().split("| test |\n")[1:]
    for part in parts:
        rows = part.partition("\n\n")[0].splitlines()[1:]
        assert rows
        assert [row for row in rows if "::test_" not in row.rpartition(" | ")[2]] == []
