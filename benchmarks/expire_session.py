"""Time until a broker's registration is gone: by ExpireSession, and by kill -9 and waiting.

Both are measured in turn on one cluster with Kafka's default session timeout of its time, 6 s.
What a killed broker leaves behind lives for that long, since nobody ends its session. Prints
milliseconds for orientation and their ratio, which is what may be compared between machines.

    python benchmarks/expire_session.py [--kafka 2.8.2] [--rounds 3]
"""

from __future__ import annotations

import argparse
import statistics
import time

from kchaos.clusters.leftovers import work_directory
from kchaos.clusters.local import LocalCluster
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import ExpireSession, KillBroker
from kchaos.faults.api import MemoryJournal


def milliseconds_until_gone(cluster: LocalCluster, fault: ExpireSession | KillBroker) -> float:
    """Return how long the injection took, which returns when the registration is gone."""
    started = time.perf_counter()
    with fault.inject(cluster, MemoryJournal()):
        return (time.perf_counter() - started) * 1000


def main() -> None:
    """Measure both in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", default="2.8.2")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    spec = ClusterSpec(brokers=brokers_of(options.kafka, (0, 1)), first_broker=0)
    ended, expired = [], []
    with (
        work_directory("benchmark-expire-session") as folder,
        LocalCluster(spec, work_directory=folder) as cluster,
    ):
        for _ in range(options.rounds):
            ended.append(milliseconds_until_gone(cluster, ExpireSession(broker=1)))
            killed = KillBroker(broker=1, end_session=False)
            expired.append(milliseconds_until_gone(cluster, killed))
    print(f"Kafka {options.kafka}, {options.rounds} rounds, until /brokers/ids/1 is gone, medians:")
    for name, rounds in (("ExpireSession", ended), ("kill -9, 6 s session", expired)):
        every = " ".join(f"{milliseconds:.1f}" for milliseconds in rounds)
        print(f"  {name:21} {statistics.median(rounds):8.1f} ms   ({every})")
    ratio = statistics.median(expired) / statistics.median(ended)
    print(f"  ExpireSession is {ratio:.0f} times as fast")


if __name__ == "__main__":
    main()
