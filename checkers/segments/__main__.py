"""Print the batches of segment files, a line each.

    python -m kchaos.checkers.segments [--decode] FILE…

The exit code is 0, or 1 if there is a finding, 64 for wrong usage, 70 where reading fails or a
process that reads is ended, so that not all is printed. Records are decoded with `--decode` only;
checksums are always verified. Kafka's own DumpLogSegments prints the same facts.
"""

import mmap
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NoReturn

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import SegmentSlice, cut_slice, iter_batches, split_segment

_SLICE_BYTES = 4 << 20
_FAILED = 70


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """A segment that is mapped into memory, and whether its records are decoded."""

    view: memoryview
    path: Path
    decode: bool


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
    except ChildProcessError as error:
        print(f"{error}: not all is printed", file=sys.stderr)
        return _FAILED
    except Exception:  # noqa: BLE001 - else Python ends as with a finding
        sys.excepthook(*sys.exc_info())
        return _FAILED


def _is_segment(path: Path) -> bool:
    return path.is_file() and path.suffix == ".log" and path.stem.isascii() and path.stem.isdigit()


def _print_segment(path: Path, decode: bool) -> int:
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    cores = len(os.sched_getaffinity(0))
    exit_code = 0
    with _mapped(path) as view:
        reading = _Reading(view=view, path=path, decode=decode)
        if cores > 1 and len(view) >= cores * _SLICE_BYTES:
            return _print_side_by_side(reading, cores)
        for part in split_segment(view, base_offset=int(path.stem), target_bytes=_SLICE_BYTES):
            lines, has_finding = _read_slice(reading, part)
            sys.stdout.buffer.write(lines)
            exit_code |= has_finding
    return exit_code


def _print_side_by_side(reading: _Reading, count: int) -> int:
    """Print a large segment by `count` processes, which read at once and print in turn.

    Each process tells the next by a pipe when its turn is. So lines are written where they are
    made, and memory stays bounded by a slice of each process. Raises `ChildProcessError` if a
    process fails, which says itself why, or is killed.
    """
    # Each process would print what is not flushed yet.
    sys.stdout.buffer.flush()
    end_with_parent = dying_with_parent()
    pipes = [os.pipe() for _ in range(count)]
    os.write(pipes[0][1], b"0 %d\n\n" % int(reading.path.stem))
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            _become_reader(reading, pipes, number, end_with_parent)
        pids.append(pid)
    _close(chain(*pipes))
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    signals = {-code for code in codes if code < 0}
    if _FAILED in codes:
        raise ChildProcessError("a process that reads has failed")
    if not signals:
        return max(codes)
    if signals == {signal.SIGPIPE}:
        # Nobody reads on, and this process ends as if it had printed the lines itself.
        signal.raise_signal(signal.SIGPIPE)
    raise ChildProcessError("a process that reads was ended, perhaps for want of memory")


def _become_reader(
    reading: _Reading,
    pipes: Sequence[tuple[int, int]],
    number: int,
    end_with_parent: Callable[[], None],
) -> NoReturn:
    exit_code = _FAILED
    try:
        end_with_parent()
        # Ctrl-C is left to the parent, whose end is this process's too.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        told, tells = pipes[number][0], pipes[(number + 1) % len(pipes)][1]
        # A pipe ends with the process that tells by it only if no other has it.
        _close({*chain(*pipes)} - {told, tells})
        exit_code = _print_slices(reading, told, tells)
    except Exception:  # noqa: BLE001 - what called this goes on in the parent alone
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(exit_code)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _print_slices(reading: _Reading, told: int, tells: int) -> int:
    """Read and print slices, and return 1 if there is a finding in them, else 0.

    The pipe `told` has two lines for each slice: its position with the least offset that may come
    there, and an empty one once all before it is printed. The pipe `tells` gets those of the next
    slice. A pipe that ends says that nothing is left, or that not all before a slice is printed.
    """
    exit_code = 0
    with open(told, "rb") as turns:
        while place := turns.readline():
            position, base_offset = map(int, place.split())
            part, next_offset = cut_slice(
                reading.view, position, base_offset=base_offset, target_bytes=_SLICE_BYTES
            )
            is_last = part.end_position == len(reading.view)
            if not is_last:
                os.write(tells, b"%d %d\n" % (part.end_position, next_offset))
            lines, has_finding = _read_slice(reading, part)
            if not turns.readline():
                break
            sys.stdout.buffer.write(lines)
            sys.stdout.buffer.flush()
            exit_code |= has_finding
            if is_last:
                break
            os.write(tells, b"\n")
    return exit_code


def _read_slice(reading: _Reading, part: SegmentSlice) -> tuple[bytes, bool]:
    """Return the lines of a slice, and whether there is a finding in it."""
    lines, has_finding = [], False
    for item in iter_batches(
        reading.view,
        base_offset=part.base_offset,
        file=reading.path.name,
        decode_records=reading.decode,
        start_position=part.start_position,
        end_position=part.end_position,
    ):
        if isinstance(item, Batch):
            lines.append(_line(item))
        else:
            lines.append(f"{item.kind}: {item.message}\n")
            has_finding = True
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


def _line(batch: Batch) -> str:
    # Fields are unpacked at once, since asking for each by name takes longer.
    (
        base_offset, last_offset, leader_epoch, magic, codec, crc, record_count, is_control,
        is_transactional, producer_id, producer_epoch, base_sequence, max_timestamp, position,
        size_bytes, payload, control_type, _coordinator_epoch, _file, _first_timestamp, _marks,
    ) = batch  # fmt: skip
    shared = _shared(producer_id, producer_epoch, leader_epoch, is_transactional, is_control)
    decoded = f" payload: {payload}" if payload else ""
    if control_type:
        decoded += f" controlType: {control_type}"
    return (
        f"baseOffset: {base_offset} lastOffset: {last_offset} count: {record_count}"
        f" baseSequence: {base_sequence} {shared} position: {position}"
        f" maxTimestamp: {max_timestamp} size: {size_bytes} magic: {magic} compresscodec: {codec}"
        f" crc: {crc}{decoded}\n"
    )


@lru_cache(maxsize=1024)
def _shared(
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int,
    is_transactional: bool,
    is_control: bool,
) -> str:
    """Return the text of those fields that neighbours mostly share."""
    return (
        f"producerId: {producer_id} producerEpoch: {producer_epoch}"
        f" partitionLeaderEpoch: {leader_epoch} isTransactional: {is_transactional}"
        f" isControl: {is_control}"
    )


if __name__ == "__main__":
    # A reader that has enough, such as head, ends this without a word.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
