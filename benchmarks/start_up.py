"""Time from start() to the first acknowledged acks=all write on a replicated topic.

ZooKeeper and 3 brokers with links, in two ways in turn: as kchaos starts them, and as a plain
script would (brokers one after another, the JVM's own flags, no class-data archive). Prints
seconds for orientation and their ratio, which is what may be compared between machines.

With ``--kraft`` the two ways are KRaft and ZooKeeper, both as kchaos starts them.

    python benchmarks/start_up.py [--kafka 1.1.1] [--rounds 5]
    python benchmarks/start_up.py --kraft --kafka 3.9.1
"""

from __future__ import annotations

import argparse
import statistics
import time

from kchaos.clusters.api import Cluster
from kchaos.clusters.ask.client import produce
from kchaos.clusters.kafka.class_archive import await_archives
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.system.waiting import await_until

_TOPIC = "start-up"


def seconds_to_first_write(spec: ClusterSpec, *, is_ours: bool) -> tuple[float, float]:
    """Return the seconds to every broker ready, and to the first acknowledged write."""
    with work_directory("benchmark-start-up") as folder:
        if is_ours:
            cluster = LocalCluster(spec, work_directory=folder)
        else:
            cluster = LocalCluster(
                spec,
                work_directory=folder,
                jvm_flags=(),
                side_by_side=False,
                share_classes=False,
            )
        started = time.perf_counter()
        with cluster:
            ready_s = time.perf_counter() - started
            write(cluster)
            written_s = time.perf_counter() - started
            if is_ours:
                await_archives()
        return ready_s, written_s


def write(cluster: Cluster) -> None:
    """Create a topic on every broker and write one record to it with acks=all."""
    replicas = list(cluster.brokers)
    cluster.metadata.create_topic(_TOPIC, [replicas])
    magic = 1 if next(iter(cluster.brokers.values())).release.startswith("0.10") else 2
    seen: list[object] = ["nothing sent"]

    def acknowledged() -> bool:
        try:
            answer = produce(
                cluster.brokers[replicas[0]].client_address,
                topic=_TOPIC,
                partition=0,
                values=[b"first"],
                acks=-1,
                magic=magic,
                timestamp_ms=int(time.time() * 1000),
            )
        except (NoAnswer, NotSent) as error:
            seen[0] = error
            return False
        seen[0] = f"error code {answer.error_code}"
        return answer.error_code == 0

    await_until(
        acknowledged,
        timeout_s=60,
        waiting_for="the first acknowledged write",
        last_seen=lambda: seen[0],
    )


def compare_modes(kafka: str, rounds: int) -> None:
    """Start clusters of KRaft and of ZooKeeper in turn; print the medians and their ratio."""
    kraft, zookeeper = (
        ClusterSpec(brokers=brokers_of(kafka), mode=mode) for mode in ("kraft", "zookeeper")
    )
    # Two starts fill the cache: the first lists the classes, the second writes the archive.
    for spec in (kraft, kraft, zookeeper, zookeeper):
        seconds_to_first_write(spec, is_ours=True)
    pairs = []
    for _ in range(rounds):
        with_kraft = seconds_to_first_write(kraft, is_ours=True)[1]
        pairs.append((with_kraft, seconds_to_first_write(zookeeper, is_ours=True)[1]))
    print(f"Kafka {kafka}, 3 brokers, {rounds} rounds, seconds to the first acknowledged write:")
    for name, taken in zip(("KRaft", "ZooKeeper"), zip(*pairs, strict=True), strict=True):
        every = " ".join(f"{seconds:.2f}" for seconds in taken)
        print(f"  {name:9} median {statistics.median(taken):5.2f} s   ({every})")
    ratio = statistics.median(ours / theirs for ours, theirs in pairs)
    print(f"  KRaft takes {ratio:.2f} times as long as ZooKeeper, side by side")


def main() -> None:
    """Run both ways in turn and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kafka", default="1.1.1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kraft", action="store_true", help="KRaft beside ZooKeeper")
    options = parser.parse_args()
    if options.kraft:
        compare_modes(options.kafka, options.rounds)
        return
    spec = ClusterSpec(brokers=brokers_of(options.kafka))
    # Two starts fill the cache: the first lists the classes, the second writes the archive.
    for _ in range(2):
        seconds_to_first_write(spec, is_ours=True)
    ours, baseline = [], []
    for _ in range(options.rounds):
        ours.append(seconds_to_first_write(spec, is_ours=True))
        baseline.append(seconds_to_first_write(spec, is_ours=False))
    print(f"Kafka {options.kafka}, ZooKeeper and 3 brokers, {options.rounds} rounds, medians:")
    for name, rounds in (("kchaos", ours), ("baseline", baseline)):
        ready_s = statistics.median(pair[0] for pair in rounds)
        written_s = statistics.median(pair[1] for pair in rounds)
        every = " ".join(f"{pair[1]:.2f}" for pair in rounds)
        print(f"  {name:9} ready {ready_s:5.2f} s, first write {written_s:5.2f} s   ({every})")
    ratio = statistics.median(pair[1] for pair in baseline) / statistics.median(
        pair[1] for pair in ours
    )
    print(f"  kchaos is {ratio:.1f} times as fast to the first write")


if __name__ == "__main__":
    main()
