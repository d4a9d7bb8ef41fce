"""The exit code of a command that was run beside a cluster that was judged."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.harness.exits import FINDING, INTERNAL, UNKNOWN, exit_code_beside


@pytest.mark.parametrize(
    ("safe", "conforms", "status", "code"),
    [
        (True, True, 0, 0),
        (True, None, 0, 0),
        (True, None, 3, 3),
        (True, True, -9, INTERNAL),
        (True, True, None, UNKNOWN),
        (False, True, None, FINDING),
        (False, True, 0, FINDING),
        (True, False, 0, FINDING),
        (None, None, 3, UNKNOWN),
    ],
)
def test_what_was_judged_comes_before_what_the_command_says(
    safe: bool | None, conforms: bool | None, status: int | None, code: int
) -> None:
    results = cast(Any, SimpleNamespace(safe=safe, conforms=conforms))

    assert exit_code_beside(results, status) == code
