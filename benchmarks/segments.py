"""Reading segments with CRC, batches only: kchaos beside Kafka's own DumpLogSegments.

Run `.venv/bin/python -m benchmarks.segments`. It writes a segment of 400 000 records of 1 KB, 100 a
batch, uncompressed, 414 MB, and has it read by whole processes in turn: `python -m
checkers.segments` and DumpLogSegments of two releases, on the same file, the page cache warm. Then
the same with one-record batches, where the work is per batch, and Python's. kchaos reads a large
file with a process for each core. Printed are the median seconds and the ratio of the medians.
"""

import random
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

from kchaos.clusters.kafka.distribution import java_of, resolve
from tests.support.segment_encoder import record

RECORD_COUNT = 400_000
VALUE_BYTES = 1024
RELEASES = ("1.1.1", "3.9.1")
ROUNDS = 5


def main() -> None:
    """Print the table."""
    commands = {"kchaos": [sys.executable, "-m", "kchaos.checkers.segments"]}
    for release in RELEASES:
        commands[f"DumpLogSegments {release}"] = _dump_log_segments(release)
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as directory:
        for records_per_batch in (100, 1):
            path = Path(directory) / str(records_per_batch) / "00000000000000000000.log"
            path.parent.mkdir()
            batch_count = _write_segment(path, records_per_batch)
            size_mb = path.stat().st_size / 1e6
            print(f"{RECORD_COUNT} records, {records_per_batch} a batch, {size_mb:.0f} MB")
            _print_row_for_each(commands, path, batch_count)


def _print_row_for_each(commands: dict[str, list[str]], path: Path, batch_count: int) -> None:
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            seconds[name].append(_run(name, command, path, batch_count))
    ours = statistics.median(seconds["kchaos"])
    for name, values in seconds.items():
        median = statistics.median(values)
        print(f"  {name:24} {median:6.2f} s  {median / ours:5.1f} times kchaos's")


def _run(name: str, command: Sequence[str], path: Path, batch_count: int) -> float:
    files = [str(path)] if name == "kchaos" else ["--files", str(path)]
    begin = time.perf_counter()
    done = subprocess.run([*command, *files], capture_output=True, check=True)
    seconds = time.perf_counter() - begin
    printed = done.stdout.count(b"aseOffset: ")
    if printed != batch_count:
        raise SystemExit(f"{name} printed {printed} batches where {batch_count} were written")
    return seconds


def _dump_log_segments(release: str) -> list[str]:
    distribution = resolve(release)
    java = java_of(distribution) / "bin" / "java"
    class_path = ":".join(str(jar) for jar in distribution.class_path)
    # The heap is what Kafka's own start script gives its tools.
    return [str(java), "-Xmx256M", "-cp", class_path, "kafka.tools.DumpLogSegments"]


def _write_segment(path: Path, records_per_batch: int) -> int:
    """Write the segment and return its number of batches; the same seed gives the same bytes."""
    source = random.Random(279)
    batch_count = RECORD_COUNT // records_per_batch
    with path.open("wb") as file:
        for index in range(batch_count):
            file.write(_batch(source, index * records_per_batch, records_per_batch))
    return batch_count


def _batch(source: random.Random, base_offset: int, record_count: int) -> bytes:
    records = b"".join(
        record(offset_delta, None, source.randbytes(VALUE_BYTES))
        for offset_delta in range(record_count)
    )
    covered = (
        struct.pack(
            ">hiqqqhii", 0, record_count - 1, 1_500_000_000_000, 1_500_000_000_000, -1, -1, -1,
            record_count,
        )
        + records
    )  # fmt: skip
    header = struct.pack(">qiibI", base_offset, len(covered) + 9, 0, 2, crc32c(covered))
    return header + covered


if __name__ == "__main__":
    main()
