"""Changes to what a run with tiered logs left: readings, the remote store and its metadata."""

import json
from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, NotApplicableError, RunCopy, more, put
from tests.mutants.segment_edits import change, edit_entry, edit_segment, with_changed_payload

TIER = "tier.jsonl"
_METADATA = "__remote_log_metadata-0"


def _read(line: Line) -> bool:
    return bool(line["kind"] == "read")


def _line(name: str, edit: Callable[[Line], object], where: Callable[[Line], bool] = _read) -> None:
    add(f"tier: {name}", lambda run: run.edit_line(TIER, edit, where, "such line"))


def _records(line: Line) -> list[list[Any]]:
    return next(fetch["records"] for fetch in line["fetches"] if fetch["records"])


_line("a reading of another broker", more("broker", 1))
_line("a reading of no broker", put(broker=77))
_line("a reading of another topic", put(topic="u"))
_line("a reading of another partition", put(partition=5))
_line("a reading in another manner", lambda o: o.update(manner=o["manner"][::-1]))
_line("a reading of another name", lambda line: line.update(operation=line["operation"] + "x"))
_line("a reading from a later offset", more("first_offset", 1))
_line("a reading to an earlier end", more("end_offset", -1))
_line("a reading to a later end", more("end_offset", 1))
_line("another local start", more("local_start_offset", 1))
_line("a reading in another step", more("step", -1))
_line("another value was read", lambda line: _records(line)[0].__setitem__(1, "another"))
_line("a null value was read", lambda line: _records(line)[0].__setitem__(1, None))
_line("another offset was read", lambda line: _records(line)[-1].__setitem__(0, 999))
_line("a record was not read", lambda line: _records(line).pop())
_line("a record was read twice", lambda line: _records(line).append(_records(line)[-1]))
_line("nothing was read", lambda line: [fetch.update(records=[]) for fetch in line["fetches"]])
_line("no Fetch was sent", put(fetches=[]))
_line("the first Fetch is not there", lambda line: line["fetches"].pop(0))
_line("the last Fetch is not there", lambda line: line["fetches"].pop())
_line("a Fetch from another offset", lambda line: line["fetches"][0].update(offset=77))
_line("a Fetch with an error", lambda line: line["fetches"][-1].update(error_code=1))
_line("records that are no list", lambda line: line["fetches"][0].update(records=7))
_line("a record without a value", lambda line: line["fetches"][0].update(records=[[1]]))
_line("no fields", lambda line: line.clear(), lambda _: True)
_line("a line of no kind", put(kind="dreamt"), lambda _: True)

add("tier: a reading is not there", lambda run: run.drop_line(TIER, _read, "reading"))
add("tier: a reading came twice", lambda run: run.double_line(TIER, _read, "reading"))
add(
    "tier: the action of a reading is there twice",
    lambda run: run.double_line(
        "actions.jsonl", lambda line: line["action"]["event"] == "TierRead", "reading"
    ),
)
add("tier: no file", lambda run: run.remove(TIER))
add("tier: nothing in it", lambda run: run.overwrite(TIER, b""))
add("tier: garbage in it", lambda run: run.overwrite(TIER, b"\xff{"))


def _stored(run: RunCopy, suffix: str) -> str:
    chosen = [name for name in run.names(f"snapshots/{run.final()}/remote/**/*{suffix}")]
    return run.pick((each for each in chosen if run.content(each)), f"{suffix} in the remote store")


def _store(name: str, suffix: str, mutate: Callable[[RunCopy, str], str]) -> None:
    add(f"tier: {name}", lambda run: mutate(run, _stored(run, suffix)))


def _checkpoint(edit: Callable[[list[str]], list[str]]) -> Callable[[RunCopy, str], str]:
    def mutate(run: RunCopy, file: str) -> str:
        entries = edit(run.content(file).decode().splitlines()[2:])
        return run.write(file, "\n".join(["0", str(len(entries)), *entries, ""]).encode())

    return mutate


_store(
    "a stored segment, another value", ".log", lambda r, f: edit_entry(r, f, with_changed_payload)
)
_store(
    "a stored segment, another epoch",
    ".log",
    lambda r, f: edit_entry(r, f, change("partitionLeaderEpoch", lambda e: e + 1)),
)
_store("a stored segment, a batch less", ".log", lambda r, f: edit_segment(r, f, lambda b: b[:-1]))
_store(
    "a stored segment, a batch twice",
    ".log",
    lambda r, f: edit_segment(r, f, lambda b: [*b, b[-1]]),
)
_store("a stored segment, nothing in it", ".log", lambda run, file: run.write(file, b""))
_store("a stored segment, garbage", ".log", lambda run, file: run.write(file, b"\xff" * 200))
_store("a stored segment is gone", ".log", lambda run, file: run.remove(file))
_store(
    "a stored segment under another offset",
    ".log",
    lambda run, file: _moved(run, file, lambda name: "00000000000000000077" + name[20:]),
)
_store(
    "a stored segment under another id",
    ".log",
    lambda run, file: _moved(run, file, lambda name: name[:21] + "A" * 22 + name[43:]),
)
_store("stored epochs are gone", ".leader_epoch_checkpoint", lambda run, file: run.remove(file))
_store(
    "stored epochs, garbage",
    ".leader_epoch_checkpoint",
    lambda run, file: run.write(file, b"\xff\x00"),
)
_store("stored epochs, none", ".leader_epoch_checkpoint", _checkpoint(lambda _: []))
_store("stored epochs, one more", ".leader_epoch_checkpoint", _checkpoint(lambda e: [*e, "77 900"]))
_store(
    "stored epochs, another start",
    ".leader_epoch_checkpoint",
    _checkpoint(lambda e: [*e[:-1], f"{e[-1].split()[0]} 900"]),
)


def _moved(run: RunCopy, file: str, rename: Callable[[str], str]) -> str:
    folder, _, name = file.rpartition("/")
    content = run.content(file)
    run.remove(file)
    return run.write(f"{folder}/{rename(name)}", content)


add("tier: the remote store is gone", lambda run: run.remove(f"snapshots/{run.final()}/remote"))


@kind("tier: another number of remote files")
def _number(run: RunCopy) -> str:
    name = f"snapshots/{run.final()}/snapshot.json"
    described = run.json(name)
    if "remote_files" not in described:
        raise NotApplicableError("the logs are not tiered")
    described["remote_files"] += 1
    return run.write_json(name, described)


def _metadata(run: RunCopy) -> str:
    matching = run.names(f"snapshots/{run.final()}/broker-*/{_METADATA}/*.log")
    return run.pick((each for each in matching if run.content(each)), "metadata topic")


def _topic(name: str, edit: Callable[[list[bytes]], list[bytes]]) -> None:
    add(f"tier: metadata, {name}", lambda run: edit_segment(run, _metadata(run), edit))


_topic("the last record is gone", lambda records: records[:-1])
_topic("the first record is gone", lambda records: records[1:])
_topic("nothing", lambda _: [])
_topic("the last record twice", lambda records: [*records, records[-1]])
_topic("two records changed places", lambda records: [records[1], records[0], *records[2:]])
add(
    "tier: metadata, another value",
    lambda run: edit_entry(run, _metadata(run), with_changed_payload),
)
add("tier: metadata, garbage", lambda run: run.write(_metadata(run), b"\xff" * 300))
add("tier: metadata is gone", lambda run: run.remove(_metadata(run).rpartition("/")[0]))


@kind("tier: JSON in another layout", harmless=True)
def _layout(run: RunCopy) -> str:
    lines = [json.dumps(line, indent=None, sort_keys=True) for line in run.lines(TIER)]
    return run.write(TIER, ("\n".join(lines) + "\n").encode())
