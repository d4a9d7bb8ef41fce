"""Check that JVMs can be made of images here, and the mark of tests that need it."""

import os

import pytest

from kchaos.clusters.restored.criu import why_not

WHY_NOT = why_not()
# Set by .ci/run where it could install CRIU: tests that are skipped would not be missed there.
_REQUIRED = "KCHAOS_REQUIRE_CRIU"
if WHY_NOT and os.environ.get(_REQUIRED):
    raise RuntimeError(f"{_REQUIRED} is set, and no JVM can be made of an image here: {WHY_NOT}")
needs_criu = pytest.mark.skipif(
    WHY_NOT != "", reason=f"NO JVM CAN BE MADE OF AN IMAGE HERE: {WHY_NOT}"
)
