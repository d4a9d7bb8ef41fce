"""KIP-501 on a disk that is really slow: when does the ISR shrink, and what do producers get?

Run `.venv/bin/python -m benchmarks.slow_disk --kafka 2.8.2 --kafka 3.9.1`. The leader's data lie on

- disk: a file system that waits before each read of the partition's files, without the page cache;
- cached: the same behind the page cache (both: `clusters.disk`, which says what it needs);
- cgroup: an ext4 file system on a loop device from which the leader may read --bytes a second
  (root, mkfs.ext4, a loop device, and the blkio controller of cgroup 1 or the io one of cgroup 2);
- dropped: the same, and all pages of the partition's segments are written back and dropped from
  the page cache, as often as this machine can;
- agent: an ordinary disk, and the agent's delay inside the log read.

A client writes with acks=1 ten times a second, for so many seconds; lag is 3 s. The last columns
are the reads that waited, and the bytes that the leader read from the throttled device.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from kchaos.checkers.acts import HoldPoint
from kchaos.clusters.agent.points import LOG_READ, disk_point
from kchaos.clusters.api import Cluster
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.system.leftovers import work_directory
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.catalogue.kip_501 import ALL, LEADER, cluster_of

_WAIT_S = 60.0
_POINTS = {
    "disk": disk_point("read", is_cached=False),
    "cached": disk_point("read", is_cached=True),
    "agent": LOG_READ,
}
_HOW = (*_POINTS, "cgroup", "dropped")


@dataclass(slots=True, kw_only=True)
class DiskOutcome:
    """Result of one slow disk: when the ISR was the leader alone, and the writes."""

    shrunk_s: float | None = None
    acknowledged: int = 0
    failed: int = 0
    slow_reads: int = 0
    read_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttled:
    """A loop device with a file system, and the cgroup whose members read so little of it."""

    group: Path
    device: str

    def read_bytes(self) -> int:
        """Return the bytes that the members have read of the device so far."""
        file = self.group / "blkio.throttle.io_service_bytes"
        if file.is_file():
            lines = [line.split() for line in file.read_text().splitlines()]
            return sum(int(line[2]) for line in lines if line[:2] == [self.device, "Read"])
        lines = [line.split() for line in (self.group / "io.stat").read_text().splitlines()]
        counts = [dict(f.split("=") for f in line[1:]) for line in lines if line[0] == self.device]
        return sum(int(device["rbytes"]) for device in counts)


def run(*command: object) -> str:
    """Return the output of a command; end the benchmark if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def throttled_disk(work: Path, mount: Path, bytes_s: int) -> Iterator[Throttled]:
    """Mounts a file system of its own, which the group's members read slowly once they are in."""
    image, root = work / "image", Path("/sys/fs/cgroup")
    group = (root / "blkio" if (root / "blkio").is_dir() else root) / f"kchaos-{os.getpid()}"
    with image.open("wb") as file:
        file.truncate(256 << 20)
    run("mkfs.ext4", "-q", image)
    mount.mkdir(parents=True)
    _remove_groups(group.parent)
    with contextlib.ExitStack() as undo:
        run("mount", "-o", "loop", image, mount)  # The loop device goes with the last mount.
        undo.callback(run, "umount", "--lazy", mount)
        (mount / "lost+found").rmdir()  # Kafka takes every folder for a partition.
        number = os.stat(mount).st_dev
        device = f"{os.major(number)}:{os.minor(number)}"
        group.mkdir()
        undo.callback(_remove, group)
        old = group / "blkio.throttle.read_bps_device"
        if old.is_file():
            old.write_text(f"{device} {bytes_s}")
        else:
            (group / "io.max").write_text(f"{device} rbps={bytes_s}")
        yield Throttled(group=group, device=device)


def _remove_groups(above: Path) -> None:
    """Removes the groups of benchmarks that were killed; their members are gone with `gc`."""
    for group in above.glob("kchaos-*"):
        pid = group.name.removeprefix("kchaos-")
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):
                group.rmdir()


def _remove(group: Path) -> None:
    await_until(
        lambda: not (group / "cgroup.procs").read_text().strip(),
        timeout_s=_WAIT_S,
        waiting_for=f"nobody to be in {group}",
        last_seen=lambda: (group / "cgroup.procs").read_text(),
    )
    group.rmdir()


@contextlib.contextmanager
def throttled(broker: Any, disk: Throttled, *, drops: bool) -> Iterator[None]:
    """The broker's process is in the group; its segments' pages are dropped all the time."""
    (disk.group / "cgroup.procs").write_text(str(broker.pid))
    ended = threading.Event()
    thread = threading.Thread(target=_drop, args=(broker.log_directory, ended), daemon=True)
    if drops:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if drops:
            thread.join()
        (disk.group.parent / "cgroup.procs").write_text(str(broker.pid))


def _drop(folder: Path, ended: threading.Event) -> None:
    while not ended.wait(0.01):
        for file in folder.glob("t-0/*.log"):
            with file.open("rb") as segment:
                os.fsync(segment.fileno())
                os.posix_fadvise(segment.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measured(
    cluster: Cluster, slow: contextlib.AbstractContextManager[Any], seconds: float
) -> DiskOutcome:
    """Writes while the leader is slow; returns what came of it."""
    seen = DiskOutcome()
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
def held(cluster: Cluster, point: str, delay_s: float) -> Iterator[None]:
    """Whatever comes to the point for the partition waits."""
    assert cluster.gate is not None
    act = HoldPoint(
        name="slow",
        broker=LEADER,
        point=point,
        manner="delay",
        delay_ms=int(delay_s * 1000),
        readers="followers" if point == LOG_READ else "all",
        topic="t",
        partition=0,
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


def play(kafka: str, how: str, options: argparse.Namespace) -> DiskOutcome:
    """One cluster, slow by its disk or by the agent."""
    spec = cluster_of(kafka, zookeeper_session_timeout_ms="20000")
    points: tuple[str, ...] = (_POINTS[how],) if how in _POINTS else ()
    brokers = tuple(
        replace(broker, points=points * (broker.id == LEADER)) for broker in spec.brokers
    )
    with contextlib.ExitStack() as stack:
        # What a killed benchmark leaves there, `kchaos gc` unmounts, ends and removes.
        work = stack.enter_context(work_directory("benchmark-slow-disk"))
        data = work / f"broker-{LEADER}" / "data"
        disk = None
        if not points:
            disk = stack.enter_context(throttled_disk(work, data, options.bytes))
        spec = replace(spec, brokers=brokers)
        cluster = stack.enter_context(LocalCluster(spec, work_directory=work))
        cluster.metadata.create_topic("t", (ALL,))
        await_in_sync(cluster)
        if disk is None:
            seen = measured(cluster, held(cluster, points[0], options.delay), options.seconds)
            assert cluster.gate is not None
            # Those that passed are recorded once.
            kept = [record for record in cluster.gate.records() if record.fate == "delayed"]
            return replace(seen, slow_reads=len(kept))
        before = disk.read_bytes()
        slow = throttled(cluster.brokers[LEADER], disk, drops=how == "dropped")
        seen = measured(cluster, slow, options.seconds)
        return replace(seen, read_bytes=disk.read_bytes() - before)


def main() -> None:
    """Prints a line for each release and way to be slow."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kafka", action="append", help="a release; default 2.0.1, 2.8.2, 3.9.1")
    parser.add_argument("--delay", type=float, default=2.0, help="seconds that each read takes")
    parser.add_argument("--seconds", type=float, default=25.0, help="for how long it is slow")
    parser.add_argument(
        "--bytes", type=int, default=1024, help="a second, from the throttled device"
    )
    parser.add_argument("--how", action="append", choices=_HOW)
    options = parser.parse_args()
    print(
        "release  slow by  ISR is the leader alone after  acknowledged  failed  waited       bytes"
    )
    for kafka in options.kafka or ("2.0.1", "2.8.2", "3.9.1"):
        for how in options.how or _HOW:
            seen = play(kafka, how, options)
            shrunk = "never" if seen.shrunk_s is None else f"{seen.shrunk_s:.1f} s"
            print(
                f"{kafka:8} {how:8} {shrunk:30} {seen.acknowledged:12} {seen.failed:7} "
                f"{seen.slow_reads:11} {seen.read_bytes:11}",
                flush=True,
            )


if __name__ == "__main__":
    main()
