"""Cost of the remote tier in the model where no log is tiered: its share of following.

Run `.venv/bin/python -m benchmarks.tiers`. The golden runs of `tests.golden`, none of them tiered,
are followed in turn under Python's profiler. Printed is which part of the time was spent in
functions of `checkers/model/broker/tier.py`, and the same for the runs of tiered logs that are
stored beside them. Both parts are of the same process, so that the machine does not matter.
"""

import argparse
import cProfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.broker import tier
from kchaos.checkers.record import predict_run
from tests.golden.stored import OTHER_NAMES, RELEASES, unpacked


def main() -> None:
    """Print the two shares."""
    parser = argparse.ArgumentParser(description="The model's share for the remote tier.")
    parser.add_argument("--rounds", type=int, default=3, help="how often each run is followed")
    rounds = parser.parse_args().rounds
    tiered = [name for name in OTHER_NAMES if name.startswith("tiered-")]
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
        for what, names in (("untiered", RELEASES), ("tiered", tiered)):
            calls, share = _share(names, rounds, Path(folder))
            print(f"{what}: {len(names)} runs, {calls} calls of tier.py, {share:.2%} of following")


def _share(names: Sequence[str], rounds: int, folder: Path) -> tuple[int, float]:
    """Follow runs; return the calls of the tier's functions, and their share of the time."""
    runs = [unpacked(name, folder) for name in names]
    profile = cProfile.Profile()
    for _ in range(rounds):
        for run in runs:
            evidence = RunEvidence(run)
            evidence.read()
            profile.runcall(predict_run, evidence)
    calls = [(call.code, call.callcount, call.inlinetime) for call in profile.getstats()]
    own = [entry for entry in calls if getattr(entry[0], "co_filename", "") == tier.__file__]
    seconds = sum(entry[2] for entry in calls)
    return sum(entry[1] for entry in own), sum(entry[2] for entry in own) / seconds


if __name__ == "__main__":
    main()
