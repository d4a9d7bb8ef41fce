"""Which run directories stay after their test."""

import pytest

from kchaos.harness.pytest_plugin.reporting import stays


@pytest.mark.parametrize("failed", [True, False])
def test_always_keeps_and_never_removes_every_run(failed: bool) -> None:
    assert stays("always", failed=failed, conforms=True, safe=True)
    assert not stays("never", failed=failed, conforms=None, safe=None)


@pytest.mark.parametrize(
    ("failed", "conforms", "safe", "expected"),
    [
        (False, True, True, False),
        (False, True, False, False),
        (True, True, True, True),
        (False, False, True, True),
        (False, None, True, True),
        (False, None, None, True),
    ],
)
def test_failed_keeps_failures_and_surprises(
    failed: bool, conforms: bool | None, safe: bool | None, expected: bool
) -> None:
    assert stays("failed", failed=failed, conforms=conforms, safe=safe) is expected
