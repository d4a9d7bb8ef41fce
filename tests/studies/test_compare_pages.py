"""`kchaos compare --write`: the section of a page, and the pages in docs."""

from pathlib import Path

import pytest

from kchaos.harness.commands.cli import run
from kchaos.harness.errors import UsageError
from kchaos.studies.commands.compare_pages import (
    begin_mark,
    end_mark,
    markdown_of,
    refuse_page,
    write_page,
)
from kchaos.studies.documents import Result, document_named
from kchaos.studies.documents.searching import SearchBounds
from tests.studies.test_compare import QUICK, small

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parent.parent.parent / "docs"
GENERATED = {"KIP-279": "kip-279.md", "KAFKA-7601": "kafka-7601.md"}


def test_only_the_section_between_the_marks_is_written(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{begin_mark('KIP-0')}\nold\n{end_mark('KIP-0')}\nafter\n")
    write_page(page, small(Result.WRONG))
    text = page.read_text()
    assert text.startswith(f"before\n{begin_mark('KIP-0')}\n\n- **one**: the first\n")
    assert text.endswith(f"{end_mark('KIP-0')}\nafter\n")
    assert "old" not in text
    assert "| **scenario 1**: Who is right? | right, 1 round | **wrong, 2 rounds** |" in text
    assert "- **scenario 1**, other: it asks; it is lost" in text
    write_page(page, small(Result.WRONG))
    assert page.read_text() == text


def test_a_page_without_marks_is_refused_and_left_as_it_is(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("by hand\n")
    assert run(["compare", "KIP-279", *QUICK, "--write", str(page)]) == 64
    assert page.read_text() == "by hand\n"
    with pytest.raises(UsageError, match="no such folder"):
        refuse_page(tmp_path / "nowhere" / "page.md", "KIP-0")


def test_a_new_page_gets_a_title(tmp_path: Path):
    page = tmp_path / "page.md"
    refuse_page(page, "KIP-0")
    write_page(page, small())
    assert page.read_text().startswith("# KIP-0: which of two\n")


@pytest.mark.parametrize(("name", "page"), GENERATED.items())
def test_the_page_in_docs_has_what_is_computed_today(name: str, page: str):
    bounds = SearchBounds(schedules=0, most_states=0)
    comparison = document_named(name).compare(bounds, lambda text: None)
    known = (DOCS / page).read_text().splitlines()
    computed = [line for line in markdown_of(comparison).splitlines() if line]
    assert [line for line in computed if line not in known] == []
