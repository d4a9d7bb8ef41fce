"""Print the batches of segment files, a line each.

    python -m kchaos.checkers.segments [--decode] FILE…

The exit code is 0, or 1 if there is a finding, 64 for wrong usage, 70 where somebody ends a process
that reads, so that not all is printed. Records are decoded with `--decode` only; checksums are
always verified. Kafka's own DumpLogSegments prints the same facts.
"""

import mmap
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.findings import Finding
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import SegmentSlice, iter_batches, split_segment

_SLICE_BYTES = 4 << 20

_PRINTED = {
    "baseOffset": "base_offset",
    "lastOffset": "last_offset",
    "count": "record_count",
    "baseSequence": "base_sequence",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "partitionLeaderEpoch": "leader_epoch",
    "isTransactional": "is_transactional",
    "isControl": "is_control",
    "position": "position",
    "maxTimestamp": "max_timestamp",
    "size": "size_bytes",
    "magic": "magic",
    "compresscodec": "codec",
    "crc": "crc",
}
_LINE = " ".join(f"{name}: %s" for name in _PRINTED)
_printed_values = attrgetter(*_PRINTED.values())


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
    except BrokenProcessPool:
        print(
            "a process that reads was ended, perhaps for want of memory: not all is printed",
            file=sys.stderr,
        )
        return 70


def _is_segment(path: Path) -> bool:
    return path.is_file() and path.suffix == ".log" and path.stem.isascii() and path.stem.isdigit()


def _print_segment(path: Path, decode: bool) -> int:
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    exit_code = 0
    for lines, has_finding in _read(path, decode):
        sys.stdout.buffer.write(lines)
        if has_finding:
            exit_code = 1
    return exit_code


def _read(path: Path, decode: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of each slice in order, and whether it has a finding.

    A large file is read by as many processes as there are cores, a few slices ahead, so that
    memory stays bounded.
    """
    cores = len(os.sched_getaffinity(0))
    slices = _slices(path)
    if cores < 2 or path.stat().st_size < cores * _SLICE_BYTES:
        yield from (_read_slice(path, decode, each) for each in slices)
        return
    with ProcessPoolExecutor(
        cores, get_context("fork"), initializer=_end_with, initargs=(dying_with_parent(),)
    ) as pool:
        reading: deque[Future[tuple[bytes, bool]]] = deque()
        for each in slices:
            reading.append(pool.submit(_read_slice, path, decode, each))
            if len(reading) > 2 * cores:
                yield reading.popleft().result()
        while reading:
            yield reading.popleft().result()


def _end_with(parent: Callable[[], None]) -> None:
    """Leave Ctrl-C to the parent, whose end is this process's too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent()


def _slices(path: Path) -> Iterator[SegmentSlice]:
    with _mapped(path) as view:
        yield from split_segment(view, base_offset=int(path.stem), target_bytes=_SLICE_BYTES)


def _read_slice(path: Path, decode: bool, part: SegmentSlice) -> tuple[bytes, bool]:
    lines, has_finding = [], False
    with _mapped(path) as view:
        for item in iter_batches(
            view,
            base_offset=part.base_offset,
            file=path.name,
            decode_records=decode,
            start_position=part.start_position,
            end_position=part.end_position,
        ):
            lines.append(_line(item))
            has_finding = has_finding or isinstance(item, Finding)
    return "".join(lines).encode(), has_finding


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


def _line(item: Batch | Finding) -> str:
    if isinstance(item, Finding):
        return f"{item.kind}: {item.message}\n"
    line = _LINE % _printed_values(item)
    if item.payload:
        line += f" payload: {item.payload}"
    if item.control_type:
        line += f" controlType: {item.control_type}"
    return f"{line}\n"


if __name__ == "__main__":
    # A reader that has enough, such as head, ends this without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
