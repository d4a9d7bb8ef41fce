"""The examples of docs/pytest.md, as one file of a stranger's."""

import re
from pathlib import Path

import pytest

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = Path(__file__).parent.parent / "docs" / "pytest.md"
_EXAMPLE = re.compile(r"<!-- example -->\n```python\n(.*?)```", re.DOTALL)


def test_the_ten_examples_run_as_they_stand(pytester: pytest.Pytester) -> None:
    examples = _EXAMPLE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(examples) == 10
    pytester.makepyfile(test_examples="\n\n".join(examples))

    # Those with a cluster of their own mostly wait for it: two at a time.
    done = pytester.runpytest_subprocess("-q", "-s", "--strict-markers", "-n", "2")

    done.assert_outcomes(passed=10)
