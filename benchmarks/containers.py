"""Start-up with containers beside start-up with processes, in turn.

From start() to the first acknowledged acks=all write, ZooKeeper and 3 brokers with links. Prints
seconds for orientation and their ratio, which is what may be compared between machines. Exits
with 1 when containers take more than 1.5 times as long.

    python -m benchmarks.containers [--kafka 1.1.1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from benchmarks.start_up import write
from kchaos.clusters.front.drivers import make_cluster
from kchaos.clusters.kafka.class_archive import await_archives
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.system.leftovers import work_directory

_AIM = 1.5
_DRIVERS = ("local", "docker")


def seconds_to_first_write(driver: str, spec: ClusterSpec) -> float:
    """Return the seconds from start() to the first acknowledged write."""
    with work_directory("benchmark-containers") as folder:
        cluster = make_cluster(driver, spec, work_directory=folder)
        started = time.perf_counter()
        with cluster:
            write(cluster)
            seconds = time.perf_counter() - started
            await_archives()
        return seconds


def main() -> int:
    """Run both drivers in turn and print the medians; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", default="1.1.1")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    spec = ClusterSpec(brokers=brokers_of(options.kafka))
    # Two starts fill the cache: the first lists the classes, the second writes the archive.
    for _ in range(2):
        seconds_to_first_write("local", spec)
    rounds: dict[str, list[float]] = {driver: [] for driver in _DRIVERS}
    for _ in range(options.rounds):
        for driver in _DRIVERS:
            rounds[driver].append(seconds_to_first_write(driver, spec))
    print(f"Kafka {options.kafka}, ZooKeeper and 3 brokers, {options.rounds} rounds, medians:")
    for driver, seconds in rounds.items():
        every = " ".join(f"{second:.2f}" for second in seconds)
        print(f"  {driver:7} first write {statistics.median(seconds):5.2f} s   ({every})")
    ratio = statistics.median(rounds["docker"]) / statistics.median(rounds["local"])
    print(f"  containers take {ratio:.2f} times as long as processes (aim: {_AIM} at most)")
    return 0 if ratio <= _AIM else 1


if __name__ == "__main__":
    sys.exit(main())
