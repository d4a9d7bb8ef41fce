"""Check that disks can be made slow here, and the mark of tests that need it."""

import os

import pytest

from kchaos.clusters.disk.mounting import remedy

WHY_NOT = remedy()
# Set by .ci/run, where tests that are skipped would not be missed.
_REQUIRED = "KCHAOS_REQUIRE_SLOW_DISK"
if WHY_NOT and os.environ.get(_REQUIRED):
    raise RuntimeError(f"{_REQUIRED} is set, and no disk can be made slow here: {WHY_NOT}")
needs_disk = pytest.mark.skipif(
    WHY_NOT != "", reason=f"NO DISK CAN BE MADE SLOW HERE, so nothing of it is tested: {WHY_NOT}"
)
