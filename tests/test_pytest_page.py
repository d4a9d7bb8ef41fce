"""The examples of docs/pytest.md and of the page after it, as one file of a stranger's."""

import re
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.usefixtures("machine_cache")]

DOCS = Path(__file__).parent.parent / "docs"
PAGES = (DOCS / "pytest.md", DOCS / "pytest-examples.md")
_EXAMPLE = re.compile(r"<!-- example -->\n```python\n(.*?)```", re.DOTALL)


def test_the_examples_run_as_they_stand(pytester: pytest.Pytester):
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    examples = _EXAMPLE.findall(text)
    assert len(examples) == 11
    pytester.makepyfile(test_examples="\n\n".join(examples))

    # Two processes would each start the cluster that six of them share.
    done = pytester.runpytest_subprocess("-q", "-s", "--strict-markers")

    done.assert_outcomes(passed=11)
