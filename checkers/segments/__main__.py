"""Print the batches of segment files, a line each.

    python -m kchaos.checkers.segments [--decode] FILE…

The exit code is 0, or 1 if there is a finding, 64 for wrong usage, 70 where reading fails, so that
not all is printed. Records are decoded with `--decode` only; checksums are always verified. Kafka's
own DumpLogSegments prints the same facts.
"""

import mmap
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import iter_batches

_FAILED = 70


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
    try:
        return max(_print_segment(Path(name), decode) for name in names)
    except Exception:  # noqa: BLE001 - else Python ends as with a finding
        sys.excepthook(*sys.exc_info())
        return _FAILED


def _is_segment(path: Path) -> bool:
    return path.is_file() and path.suffix == ".log" and path.stem.isascii() and path.stem.isdigit()


def _print_segment(path: Path, decode: bool) -> int:
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    exit_code = 0
    with _mapped(path) as view:
        for item in iter_batches(
            view, base_offset=int(path.stem), file=path.name, decode_records=decode
        ):
            if isinstance(item, Batch):
                sys.stdout.buffer.write(_line(item).encode())
            else:
                sys.stdout.buffer.write(f"{item.kind}: {item.message}\n".encode())
                exit_code = 1
    return exit_code


@contextmanager
def _mapped(path: Path) -> Iterator[memoryview]:
    if path.stat().st_size == 0:
        yield memoryview(b"")
        return
    with (
        path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
        memoryview(mapped) as view,
    ):
        yield view


def _line(batch: Batch) -> str:
    decoded = f" payload: {batch.payload}" if batch.payload else ""
    if batch.control_type:
        decoded += f" controlType: {batch.control_type}"
    return (
        f"baseOffset: {batch.base_offset} lastOffset: {batch.last_offset}"
        f" count: {batch.record_count} baseSequence: {batch.base_sequence}"
        f" producerId: {batch.producer_id} producerEpoch: {batch.producer_epoch}"
        f" partitionLeaderEpoch: {batch.leader_epoch} isTransactional: {batch.is_transactional}"
        f" isControl: {batch.is_control} position: {batch.position}"
        f" maxTimestamp: {batch.max_timestamp} size: {batch.size_bytes} magic: {batch.magic}"
        f" compresscodec: {batch.codec} crc: {batch.crc}{decoded}\n"
    )


if __name__ == "__main__":
    # A reader that has enough, such as head, ends this without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
