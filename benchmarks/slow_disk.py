"""KIP-501 on a disk that is really slow: when does the ISR shrink, and what do producers get?

Run `.venv/bin/python -m benchmarks.slow_disk --kafka 2.8.2 --kafka 3.9.1`. The leader's data lie on
a file system that waits before each read of a segment (`benchmarks.delaying_disk` says what that
needs; `pip install mfusepy`, and libfuse in FUSE_LIBRARY_PATH if it is nowhere else); "cached" is
the same disk behind the page cache. Beside it the agent's delay inside the log read, on an ordinary
disk. A client writes with acks=1
ten times a second, for so many seconds; lag is 3 s.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kchaos.checkers.acts import HoldPoint
from kchaos.checkers.children import dying_with_parent
from kchaos.clusters.agent.points import LOG_READ
from kchaos.clusters.api import Cluster
from kchaos.clusters.local import LocalCluster
from kchaos.clusters.waiting import await_until
from kchaos.harness.catalogue.kip_501 import ALL, LEADER, cluster_of

_WAIT_S = 60.0
_HOW = ("disk", "cached", "agent")


@dataclass(slots=True, kw_only=True)
class Seen:
    """What came of one slow disk: when the ISR was the leader alone, and the writes."""

    shrunk_s: float | None = None
    acknowledged: int = 0
    failed: int = 0
    slow_reads: int = 0


@contextlib.contextmanager
def delaying_disk(folder: Path, mount: Path, how: str) -> Iterator[Path]:
    """Yields the file in which the delay of each read stands, in seconds."""
    delay, reads = folder.with_name("delay"), folder.with_name("reads")
    for one in (folder, mount):
        one.mkdir(parents=True)
    delay.write_text("0")
    command = [sys.executable, "-m", "benchmarks.delaying_disk", folder, mount, delay, reads, how]
    disk = subprocess.Popen(list(map(str, command)), preexec_fn=dying_with_parent())
    try:
        await_until(
            lambda: os.path.ismount(mount) or disk.poll() is not None,
            timeout_s=_WAIT_S,
            waiting_for=f"a file system at {mount}",
            last_seen=lambda: f"exit code {disk.poll()}",
        )
        if disk.poll() is not None:
            raise SystemExit("the file system did not start: see above for what it needs")
        yield delay
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=False)
        disk.terminate()
        disk.wait()


def measured(
    cluster: Cluster, slow: contextlib.AbstractContextManager[Any], seconds: float
) -> Seen:
    """Writes while the leader is slow; returns what came of it."""
    seen = Seen()
    client = KafkaProducer(
        bootstrap_servers=[cluster.brokers[LEADER].client_address],
        acks=1,
        retries=0,
        request_timeout_ms=4000,
        api_version=(2, 0, 0),
    )
    with contextlib.closing(client), slow:
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            try:
                client.send("t", b"x" * 100).get(5)
                seen.acknowledged += 1
            except KafkaError:
                seen.failed += 1
            state = cluster.metadata.state("t", 0)
            if seen.shrunk_s is None and state is not None and state.isr == (LEADER,):
                seen.shrunk_s = time.monotonic() - began
            time.sleep(0.1)  # The client's rate.
    return seen


@contextlib.contextmanager
def slowed(delay: Path, delay_s: float) -> Iterator[None]:
    """Each read of a segment waits."""
    delay.write_text(str(delay_s))
    try:
        yield
    finally:
        delay.write_text("0")


@contextlib.contextmanager
def held(cluster: Cluster, delay_s: float) -> Iterator[None]:
    """Each read of a log for a follower waits, by the agent."""
    assert cluster.gate is not None
    act = HoldPoint(
        name="slow",
        broker=LEADER,
        point=LOG_READ,
        manner="delay",
        delay_ms=int(delay_s * 1000),
        readers="followers",
    )
    hold = cluster.gate.hold(act)
    try:
        yield
    finally:
        hold.release()


def await_in_sync(cluster: Cluster) -> None:
    """Returns once the topic is led and all its replicas are in sync."""

    def is_whole() -> bool:
        state = cluster.metadata.state("t", 0)
        return state is not None and state.leader == LEADER and set(state.isr) == set(ALL)

    await_until(
        is_whole,
        timeout_s=_WAIT_S,
        waiting_for="all in sync",
        last_seen=lambda: cluster.metadata.state("t", 0),
    )


def play(kafka: str, how: str, delay_s: float, seconds: float) -> Seen:
    """One cluster, slow by its disk or by the agent."""
    spec = cluster_of(kafka)
    brokers = tuple(replace(one, points=(LOG_READ,)) for one in spec.brokers)
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slow-disk-")))
        data = work / "cluster" / f"broker-{LEADER}" / "data"
        delay = None
        if how != "agent":
            delay = stack.enter_context(delaying_disk(work / "disk", data, how))
        spec = spec if delay else replace(spec, brokers=brokers)
        cluster = stack.enter_context(LocalCluster(spec, work_directory=work / "cluster"))
        cluster.metadata.create_topic("t", (ALL,))
        await_in_sync(cluster)
        slow = slowed(delay, delay_s) if delay else held(cluster, delay_s)
        seen = measured(cluster, slow, seconds)
        reads = work / "reads"
        seen.slow_reads = len(reads.read_text().splitlines()) if reads.is_file() else 0
        if delay is None and cluster.gate is not None:
            seen.slow_reads = cluster.gate.hits(LEADER, LOG_READ)
        return seen


def main() -> None:
    """Prints a line for each release and way to be slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="append", help="a release; default 2.0.1, 2.8.2, 3.9.1")
    parser.add_argument("--delay", type=float, default=2.0, help="seconds that each read takes")
    parser.add_argument("--seconds", type=float, default=25.0, help="for how long it is slow")
    parser.add_argument("--how", action="append", choices=_HOW)
    options = parser.parse_args()
    print("release  slow by  ISR is the leader alone after  acknowledged  failed  slow reads")
    for kafka in options.kafka or ("2.0.1", "2.8.2", "3.9.1"):
        for how in options.how or _HOW:
            seen = play(kafka, how, options.delay, options.seconds)
            shrunk = "never" if seen.shrunk_s is None else f"{seen.shrunk_s:.1f} s"
            print(
                f"{kafka:8} {how:8} {shrunk:30} {seen.acknowledged:12} {seen.failed:7} "
                f"{seen.slow_reads:11}",
                flush=True,
            )


if __name__ == "__main__":
    main()
