"""Print the batches of segment files, a line each.

    python -m kchaos.checkers.segments [--decode] FILE…

The exit code is 0, or 1 if there is a finding, 64 for wrong usage. Records are decoded with
`--decode` only; checksums are always verified. Kafka's own DumpLogSegments prints the same facts.
"""

import itertools
import mmap
import sys
from collections.abc import Sequence
from pathlib import Path

from kchaos.checkers.findings import Finding
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import iter_batches

_LINES_PER_WRITE = 256


def main(arguments: Sequence[str]) -> int:
    """Print every batch and finding of the files named, and return the exit code."""
    decode = "--decode" in arguments
    names = [argument for argument in arguments if argument != "--decode"]
    broken = [name for name in names if name.startswith("-") or not _is_segment(Path(name))]
    if not names or broken:
        for name in broken:
            print(f"{name} is not a segment: a file named OFFSET.log is wanted", file=sys.stderr)
        print("usage: python -m kchaos.checkers.segments [--decode] FILE.log…", file=sys.stderr)
        return 64
    return max(_print_segment(Path(name), decode) for name in names)


def _is_segment(path: Path) -> bool:
    return path.is_file() and path.suffix == ".log" and path.stem.isascii() and path.stem.isdigit()


def _print_segment(path: Path, decode: bool) -> int:
    print(path)
    if path.stat().st_size == 0:
        return 0
    exit_code = 0
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        items = iter_batches(
            view, base_offset=int(path.stem), file=path.name, decode_records=decode
        )
        # Many lines at once, since for small batches a write each would take longest.
        while chunk := list(itertools.islice(items, _LINES_PER_WRITE)):
            sys.stdout.write("".join(map(_line, chunk)))
            if any(isinstance(item, Finding) for item in chunk):
                exit_code = 1
    return exit_code


def _line(item: Batch | Finding) -> str:
    if isinstance(item, Finding):
        return f"{item.kind}: {item.message}\n"
    batch = item
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset}"
        f" count: {batch.record_count} baseSequence: {batch.base_sequence}"
        f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
        f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {batch.is_transactional}"
        f" isControl: {batch.is_control} position: {batch.position}"
        f" maxTimestamp: {batch.max_timestamp} size: {batch.size_bytes} magic: {batch.magic}"
        f" compresscodec: {batch.codec} crc: {batch.crc}"
        f"{f' payload: {batch.payload}' if batch.payload else ''}"
        f"{f' controlType: {batch.control_type}' if batch.control_type else ''}\n"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
