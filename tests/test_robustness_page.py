"""docs/robustness.md names a test for each thing that it says; each is there."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "robustness.md"


def test_every_test_that_the_page_names_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = [re.search(r"`(tests/[\w/]+\.py)::(test_\w+)` \|$", row) for row in rows]
    headings = [row for row, found in zip(rows, named, strict=True) if not found]
    assert [row.split(" | ")[-1] for row in headings] == ["test |", "test |"]
    for found in filter(None, named):
        tree = ast.parse((ROOT / found[1]).read_text())
        assert found[2] in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
