"""Run directories that stay after their test."""

from pathlib import Path

import pytest

from kchaos.checkers.results import Results
from kchaos.checkers.verdict import NOT_PREDICTED
from kchaos.harness.pytest_plugin.reporting import stays


def results(conforms: bool | None, safe: bool | None, unknown: str = "") -> Results:
    return Results(
        conforms=conforms, safe=safe, expected=True, unknown=unknown, path=Path(), prediction=None
    )


@pytest.mark.parametrize("failed", [True, False])
def test_always_keeps_and_never_removes_every_run(failed: bool) -> None:
    assert stays("always", failed=failed, results=results(True, True))
    assert not stays("never", failed=failed, results=results(None, None))


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
    assert stays("failed", failed=failed, results=results(conforms, safe)) is expected


@pytest.mark.parametrize(("safe", "expected"), [(True, False), (None, True)])
def test_what_cannot_be_predicted_of_a_cluster_is_no_surprise(
    safe: bool | None, expected: bool
) -> None:
    with_kraft = results(None, safe, NOT_PREDICTED)
    assert stays("failed", failed=False, results=with_kraft) is expected
    assert stays("failed", failed=True, results=with_kraft)
