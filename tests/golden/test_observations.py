"""Every observation of a stored run has a type, and is written again as it was."""

import json
import tarfile
from dataclasses import fields
from pathlib import Path

import pytest

from kchaos.checkers.acts import StaleRequest
from kchaos.checkers.evidence.observed import OBSERVATIONS, Observed
from kchaos.checkers.observations import Noted, observation_in

_REPEATED = frozenset({"error_code", *(field.name for field in fields(StaleRequest))})
GONE = frozenset(
    {
        *("broker-resumed", "free-clients-started", "high-watermark-not-pinned", "local-segments"),
        *("network-reconnected", "no-final-snapshot", "not-fetching", "not-quiet", "not-read"),
        *("point-hits", "probe-not-replicated", "start-up"),
    }
)
"""Kinds of stored runs that nothing reads and nobody writes any more."""
OWN_STEPS = "moved-between-folders"
"""Beginning of the names of runs with a step of somebody's own, of whose notes no type is known."""
RUNS = sorted(Path(__file__).parent.glob("*/*/run.tar.xz"))


@pytest.mark.slow
def test_each_line_of_each_run_is_written_again_as_it_was():
    assert len(RUNS) > 200
    for path in RUNS:
        with tarfile.open(path) as archive:
            file = archive.extractfile(OBSERVATIONS)
            assert file is not None
            lines = [json.loads(line) for line in file]
        assert lines
        for line in lines:
            seen = Observed(time=line["time"], step=line["step"], what=observation_in(line))
            if isinstance(seen.what, Noted):
                assert line["kind"] in GONE or path.parent.name.startswith(OWN_STEPS), (path, line)
                continue
            # At first a bound did not say where it comes from.
            first = {"bound_from": ""} if line["kind"] == "settled" else {}
            # The answer to a late request repeated the act, and its own error.
            twice = _REPEATED if line["kind"] == "stale-request" else frozenset()
            kept = {name: value for name, value in line.items() if name not in twice}
            assert seen.plain() == first | kept, path
