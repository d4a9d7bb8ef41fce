"""The page that `make coverage` writes names modules that exist, and covers too little of some."""

import pytest

from tests import coverage_page


@pytest.mark.parametrize(
    ("name", "stored", "changed", "is_low"),
    [
        ("broker/tier.py", 90, 90, False),
        ("broker/tier.py", 89, 95, True),
        ("controller/allowed.py", 82, 98, False),
        ("controller/allowed.py", 82, 89, True),
    ],
)
def test_a_module_below_nine_tenths_is_refused(
    name: str, stored: int, changed: int, *, is_low: bool
) -> None:
    def covered(percent: int) -> dict[str, object]:
        counts = {"num_statements": 100, "covered_lines": percent}
        summary = {**counts, "num_branches": 2, "covered_branches": 1}
        return {"files": {f"checkers/model/{name}": {"summary": summary}}}

    page = coverage_page.page(covered(stored), covered(changed))
    assert f"| `{name}` | 100 | {stored} | {changed} |" in page
    assert coverage_page.too_low(page) == ([name] if is_low else [])


def test_each_module_that_is_named_exists() -> None:
    model = coverage_page.REPOSITORY / coverage_page.MODEL
    named = (*coverage_page.NOT_OF_RUNS, *coverage_page.BY_CHANGED_RUNS)
    assert [name for name in named if not (model / name).exists()] == []
