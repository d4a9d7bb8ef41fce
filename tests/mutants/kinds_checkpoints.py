"""Changes to the small files that brokers keep: checkpoints and properties."""

from collections.abc import Callable

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import NotApplicableError, RunCopy

_EPOCHS = "leader-epoch-checkpoint"
_MARKS = "replication-offset-checkpoint"


def _text(run: RunCopy, name: str) -> list[str]:
    return run.content(name).decode().splitlines()


def _put(run: RunCopy, name: str, entries: list[str]) -> str:
    return run.write(name, "\n".join(["0", str(len(entries)), *entries, ""]).encode())


def _entries(run: RunCopy, name: str) -> list[str]:
    seen = _text(run, name)[2:]
    if not seen:
        raise NotApplicableError(f"{name} has no entries")
    return seen


def _epochs(name: str, edit: Callable[[list[list[int]]], list[list[int]]]) -> None:
    def mutate(run: RunCopy) -> str:
        file = f"{run.in_sync_directory()}/{_EPOCHS}"
        pairs = [[int(number) for number in line.split()] for line in _entries(run, file)]
        return _put(run, file, [f"{epoch} {start}" for epoch, start in edit(pairs)])

    add(f"checkpoints: leader epochs, {name}", mutate)


_epochs("the last epoch", lambda entries: [*entries[:-1], [entries[-1][0] + 1, entries[-1][1]]])
_epochs("the last start", lambda entries: [*entries[:-1], [entries[-1][0], entries[-1][1] + 1]])
_epochs("the first start", lambda entries: [[entries[0][0], entries[0][1] + 1], *entries[1:]])
_epochs("the last entry is gone", lambda entries: entries[:-1])
_epochs("the first entry is gone", lambda entries: entries[1:])
_epochs("one entry more", lambda entries: [*entries, [entries[-1][0] + 1, entries[-1][1] + 50]])
_epochs("an entry for an offset far behind", lambda entries: [*entries, [99, 10**6]])
_epochs("a negative entry", lambda entries: [[-1, 0], *entries])
_epochs("a number beyond 64 bits", lambda entries: [*entries[:-1], [entries[-1][0], 10**30]])
_epochs("reversed", lambda entries: entries[::-1] if len(entries) > 1 else [[9, 9], *entries])


def _file(name: str, file: str, content: bytes | None, *, in_partition: bool) -> None:
    def mutate(run: RunCopy) -> str:
        directory = run.in_sync_directory()
        target = f"{directory if in_partition else directory.rpartition('/')[0]}/{file}"
        if not run.content(target):
            raise NotApplicableError(f"{target} is empty")
        return run.remove(target) if content is None else run.write(target, content)

    add(f"checkpoints: {name}", mutate)


for _name, _what, _inside in ((_EPOCHS, "leader epochs", True), (_MARKS, "high watermarks", False)):
    _file(f"{_what}, no file", _name, None, in_partition=_inside)
    _file(f"{_what}, nothing in it", _name, b"", in_partition=_inside)
    _file(f"{_what}, garbage", _name, b"\xff\xfe\x00garbage\n", in_partition=_inside)
    _file(f"{_what}, another version", _name, b"1\n0\n", in_partition=_inside)
    _file(f"{_what}, a wrong count", _name, b"0\n7\n0 0\n", in_partition=_inside)
_file("partition.metadata, no file", "partition.metadata", None, in_partition=True)
_file("partition.metadata, garbage", "partition.metadata", b"\xff\xff", in_partition=True)
_file(
    "partition.metadata, another topic id",
    "partition.metadata",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    in_partition=True,
)
_file("meta.properties, no file", "meta.properties", None, in_partition=False)
_file("meta.properties, garbage", "meta.properties", b"\xff\xff", in_partition=False)
_file(
    "meta.properties, another broker",
    "meta.properties",
    b"version=0\nbroker.id=77\n",
    in_partition=False,
)


@kind("checkpoints: meta.properties, another cluster")
def _cluster(run: RunCopy) -> str:
    name = f"{run.in_sync_directory().rpartition('/')[0]}/meta.properties"
    lines = _text(run, name)
    if not any("cluster.id" in line for line in lines):
        raise NotApplicableError(f"{name} names no cluster")
    changed = ["cluster.id=another" if "cluster.id" in line else line for line in lines]
    return run.write(name, "\n".join([*changed, ""]).encode())


add(
    "checkpoints: a producer snapshot is gone",
    lambda run: run.remove(
        run.pick(run.names("snapshots/*/broker-*/*/*.snapshot"), "producer snapshot")
    ),
)


@kind("checkpoints: a producer snapshot, garbage")
def _snapshot_garbage(run: RunCopy) -> str:
    name = run.pick(run.names("snapshots/*/broker-*/*/*.snapshot"), "producer snapshot")
    return run.write(name, b"\xff" * 20)


def _marks(name: str, change: Callable[[int], int], *, where: str = "final") -> None:
    def mutate(run: RunCopy) -> str:
        return edit_mark(run, _marked(run, where), change)

    add(f"checkpoints: high watermarks, {name}", mutate)


def _marked(run: RunCopy, where: str) -> str:
    partition, _ = run.state_of_final()
    if where == "final":
        return f"{run.in_sync_directory().rpartition('/')[0]}/{_MARKS}"
    names = []
    for snapshot in run.names("snapshots/*/snapshot.json"):
        described = run.json(snapshot)
        for broker, seen in described["brokers"].items():
            file = f"snapshots/{described['label']}/broker-{broker}/{_MARKS}"
            is_wanted = not seen["is_running"] if where == "stopped" else not described["is_final"]
            topic, _, number = partition.rpartition("-")
            if is_wanted and f"{topic} {number} ".encode() in run.content(file):
                names.append(file)
    return run.pick(names, f"checkpoint ({where})")


def edit_mark(run: RunCopy, name: str, change: Callable[[int], int]) -> str:
    """Change the high watermark of the scenario's partition in one checkpoint."""
    partition, _ = run.state_of_final()
    topic, _, number = partition.rpartition("-")
    entries = _entries(run, name)
    changed = []
    for line in entries:
        fields = line.split()
        if fields[:2] == [topic, number]:
            fields[2] = str(change(int(fields[2])))
        changed.append(" ".join(fields))
    return _put(run, name, changed)


_marks("one too high", lambda mark: mark + 1)
_marks("one too low", lambda mark: mark - 1)
_marks("far too high", lambda mark: mark + 990)
_marks("zero", lambda _: 0)
_marks("negative", lambda _: -3)
_marks("a number beyond 64 bits", lambda _: 10**30)
_marks("one too high before the end", lambda mark: mark + 1, where="earlier")
_marks("far too high before the end", lambda mark: mark + 990, where="earlier")
_marks("one too low before the end", lambda mark: mark - 1, where="earlier")
_marks("far too high where a broker is down", lambda mark: mark + 990, where="stopped")
_marks("one too high where a broker is down", lambda mark: mark + 1, where="stopped")
_marks("one too low where a broker is down", lambda mark: mark - 1, where="stopped")


@kind("checkpoints: high watermarks, the partition's line is gone")
def _line(run: RunCopy) -> str:
    name = _marked(run, "final")
    topic = run.state_of_final()[0].rpartition("-")[0]
    return _put(run, name, [entry for entry in _entries(run, name) if entry.split()[0] != topic])


@kind("checkpoints: high watermarks, the partition's line is there twice")
def _twice(run: RunCopy) -> str:
    name = _marked(run, "final")
    return _put(run, name, [*_entries(run, name), _entries(run, name)[0]])


@kind("checkpoints: high watermarks, a partition that is not there")
def _not_there(run: RunCopy) -> str:
    name = _marked(run, "final")
    return _put(run, name, [*_entries(run, name), "ghost 0 5"])


@kind("checkpoints: the high watermark stands still, everywhere")
def _frozen(run: RunCopy) -> str:
    """Nothing was pinned or seen, no probe was answered, and each checkpoint says 0."""
    for name in run.names(f"snapshots/*/broker-*/{_MARKS}"):
        if len(_text(run, name)) > 2:
            edit_mark(run, name, lambda _: 0)
    run.drop_lines("actions.jsonl", lambda line: line["action"]["event"] == "HighWatermarkObserved")
    run.drop_lines("observations.jsonl", lambda line: "high-watermark" in line["kind"])
    for line in (lines := run.lines("history.jsonl")):
        if line["acks"] == -1 and line["type"] == "ok":
            line.update(type="info", base_offset=None, promised=False, error="", error_code=0)
    run.write_lines("history.jsonl", lines)
    return "every checkpoint"


for _other in ("log-start-offset-checkpoint", "recovery-point-offset-checkpoint"):

    def _raised(run: RunCopy, file: str = _other) -> str:
        directory, _, partition = run.in_sync_directory().rpartition("/")
        topic, _, number = partition.rpartition("-")
        run.content(f"{directory}/{file}")
        return _put(run, f"{directory}/{file}", [f"{topic} {number} 4"])

    def _high(run: RunCopy, file: str = _other) -> str:
        directory, _, partition = run.in_sync_directory().rpartition("/")
        topic, _, number = partition.rpartition("-")
        run.content(f"{directory}/{file}")
        return _put(run, f"{directory}/{file}", [f"{topic} {number} 4000"])

    def _garbage(run: RunCopy, file: str = _other) -> str:
        name = f"{run.in_sync_directory().rpartition('/')[0]}/{file}"
        run.content(name)
        return run.write(name, b"\xffgarbage\n")

    def _missing(run: RunCopy, file: str = _other) -> str:
        return run.remove(f"{run.in_sync_directory().rpartition('/')[0]}/{file}")

    add(f"checkpoints: {_other}, raised", _raised)
    add(f"checkpoints: {_other}, far behind the end", _high)
    add(f"checkpoints: {_other}, garbage", _garbage)
    add(f"checkpoints: {_other}, no file", _missing)
