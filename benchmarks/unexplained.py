"""Following a run that nothing explains: how many states are looked at before it is a finding.

Run `.venv/bin/python -m benchmarks.unexplained`. Each run of `tests/golden/hard_to_follow` is
followed whole, and then with one item of its record left out (a produce with its client's answer,
a decision of ZooKeeper's log, an answer of a leader) or changed (a leader's answer without its
records, or with a high watermark that is one too high; a Fetch from one less; a client's answer
right behind its produce). Some of these are explained nevertheless, since an answer that nobody saw
may not have left. A few of each kind are taken, spread over the run; `--all` takes every one.

Printed for each run and kind are how many were followed, of how many nothing explains is proved
(red) or confirmed by searches in other orders, how many end with a suspect alone, how often the
observation that is named is the one that was changed, the median and the most states, and the most
seconds of CPU.

`--against FILE` compares with what `--save FILE` wrote before a change: how much of the states and
of the seconds is left, and every variant with another answer.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kchaos.checkers.model import follow
from kchaos.checkers.model.follow.observations import (
    ClientAnswered,
    FetchAnswered,
    FetchAsked,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.model.values.prediction import Prediction
from tests.golden.stored import HARD, recorded

_WHOLE = "whole"
_LEFT_OUT = ("produce", "decision", "answer")
_CHANGED = ("records", "high watermark", "fetch", "acknowledged")
_MOST_STATES_AIM, _SECONDS_AIM = 10_000, 5.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Following runs that nothing explains.")
    parser.add_argument("runs", nargs="*", help="of tests/golden/hard_to_follow; default: all")
    parser.add_argument("--each", type=int, default=3, help="variants of a kind; default 3")
    parser.add_argument("--all", action="store_true", help="leave out every item in turn")
    parser.add_argument("--save", type=Path, help="write what was measured")
    parser.add_argument("--against", type=Path, help="compare with what was saved")
    given = parser.parse_args()
    names = given.runs or sorted(folder.name for folder in HARD.iterdir())
    before = json.loads(given.against.read_text()) if given.against else {}
    measured: dict[str, dict[str, Any]] = {}
    print(
        f"{'run':34} {'changed':15} {'n':>4} {'red':>4} {'confirmed':>9} {'suspect':>7} "
        f"{'named':>6} {'median':>7} {'most':>7} {'most s':>7}"
    )
    for name in names:
        record = recorded(name, runs=HARD)
        variants = dict(_variants(record, None if given.all else given.each))
        for variant, (changed, source) in variants.items():
            measured[f"{name} {variant}"] = _followed(changed, source)
        _print_run(name, measured)
    _print_sum(measured)
    if before:
        _compare(before, measured)
    if given.save:
        given.save.write_text(json.dumps(measured, indent=1) + "\n")


def _variants(record: Record, each: int | None) -> Iterator[tuple[str, tuple[Record, str]]]:
    """Yield records by what was changed, each with where the change is; "" where it is unseen."""
    yield _WHOLE, (record, "")
    produces = [index for index, item in enumerate(record.seen) if isinstance(item.what, Produce)]
    answers = [
        index for index, item in enumerate(record.seen) if isinstance(item.what, ResponseSeen)
    ]
    for index in _spread(produces, each):
        yield f"produce {index}", (_without_produce(record, index), "")
    for index in _spread(list(range(len(record.decided))), each):
        decided = record.decided[:index] + record.decided[index + 1 :]
        yield f"decision {index}", (replace(record, decided=decided), "")
    for index in _spread(answers, each):
        seen = record.seen[:index] + record.seen[index + 1 :]
        yield f"answer {index}", (replace(record, seen=seen), "")
    for kind in _CHANGED:
        indexes = [index for index in range(len(record.seen)) if _changed(record, kind, index)]
        for index in _spread(indexes, each):
            changed = _changed(record, kind, index)
            assert changed is not None
            yield f"{kind} {index}", (changed, record.seen[index].source)


def _changed(record: Record, kind: str, index: int) -> Record | None:
    item = record.seen[index]
    match kind, item.what:
        case "acknowledged", ClientAnswered(outcome="ok", operation=operation):
            return _told_early(record, operation, index)
        case "fetch", RequestSeen() as request:
            for partition, asked in request.partitions.items():
                if isinstance(asked, FetchAsked) and asked.fetch_offset > 0:
                    less = replace(asked, fetch_offset=asked.fetch_offset - 1)
                    partitions = {**request.partitions, partition: less}
                    return _with(
                        record, index, replace(item, what=replace(request, partitions=partitions))
                    )
        case "records" | "high watermark", ResponseSeen() as response:
            for partition, said in response.partitions.items():
                if not isinstance(said, FetchAnswered) or said.base_offset is None:
                    continue
                other = replace(said, high_watermark=said.high_watermark + 1)
                if kind == "records":
                    other = replace(
                        said, base_offset=None, last_offset=None, first_leader_epoch=None
                    )
                answers = {**response.partitions, partition: other}
                return _with(
                    record, index, replace(item, what=replace(response, partitions=answers))
                )
    return None


def _with(record: Record, index: int, item: Seen) -> Record:
    return replace(record, seen=(*record.seen[:index], item, *record.seen[index + 1 :]))


def _told_early(record: Record, operation: str, index: int) -> Record | None:
    """Return the record with a client's answer right behind its produce with acks=all."""
    for at, sent in enumerate(record.seen[: index - 3]):
        if isinstance(sent.what, Produce) and sent.what.operation == operation:
            told = replace(record.seen[index], time=sent.time)
            seen = (*record.seen[:index], *record.seen[index + 1 :])
            is_early = sent.what.acks == -1
            return (
                replace(record, seen=(*seen[: at + 1], told, *seen[at + 1 :])) if is_early else None
            )
    return None


def _spread(items: list[int], each: int | None) -> list[int]:
    if each is None or len(items) <= each:
        return items
    return [items[(2 * index + 1) * len(items) // (2 * each)] for index in range(each)]


def _without_produce(record: Record, index: int) -> Record:
    produce = record.seen[index].what
    assert isinstance(produce, Produce)
    seen = tuple(
        item
        for at, item in enumerate(record.seen)
        if at != index
        and not (isinstance(item.what, ClientAnswered) and item.what.operation == produce.operation)
    )
    return replace(record, seen=seen)


def _followed(record: Record, source: str) -> dict[str, Any]:
    begin = time.process_time()
    prediction = follow(record)
    seconds = time.process_time() - begin
    emptied = prediction.emptied_by
    return {
        "states": prediction.states,
        "seconds": seconds,
        "answer": _answer(prediction),
        "named": emptied is not None and emptied.source == source,
        "emptied by": None if emptied is None else [emptied.source, emptied.what, emptied.why],
    }


def _answer(prediction: Prediction) -> str:
    if prediction.emptied_by is None:
        return "explained"
    if prediction.limit:
        return "suspect"
    return "red" if prediction.emptied_by.is_proved else "confirmed"


def _print_run(name: str, measured: dict[str, dict[str, Any]]) -> None:
    for kind in (_WHOLE, *_LEFT_OUT, *_CHANGED):
        rows = [row for key, row in measured.items() if key.startswith(f"{name} {kind}")]
        if rows:
            _print_rows(name, kind, rows)


def _print_rows(name: str, kind: str, rows: list[dict[str, Any]]) -> None:
    states = [row["states"] for row in rows]
    red, confirmed, suspect = (
        sum(row["answer"] == answer for row in rows) for answer in ("red", "confirmed", "suspect")
    )
    print(
        f"{name:34} {kind:15} {len(rows):4} {red:4} {confirmed:9} {suspect:7} "
        f"{sum(row['named'] for row in rows):6} {statistics.median(states):7.0f} "
        f"{max(states):7} {max(row['seconds'] for row in rows):7.2f}",
        flush=True,
    )


def _print_sum(measured: dict[str, dict[str, Any]]) -> None:
    for kind in (_WHOLE, *_LEFT_OUT, *_CHANGED):
        rows = [row for key, row in measured.items() if f" {kind}" in key]
        if rows:
            _print_rows("all", kind, rows)
    rows = [row for key, row in measured.items() if not key.endswith(_WHOLE)]
    slow = [
        row for row in rows if row["states"] >= _MOST_STATES_AIM or row["seconds"] >= _SECONDS_AIM
    ]
    print(
        f"{len(rows)} changed: {sum(row['states'] for row in rows)} states, "
        f"{sum(row['seconds'] for row in rows):.1f} s; {len(slow)} beyond {_MOST_STATES_AIM} "
        f"states or {_SECONDS_AIM:.0f} s"
    )


def _compare(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> None:
    keys = before.keys() & now.keys()
    for what in ("states", "seconds"):
        was, is_now = (sum(rows[key][what] for key in keys) for rows in (before, now))
        print(f"{what} of {len(keys)} that both have: {was:.0f} before, {is_now / was:.1%} left")
    for key in sorted(keys):
        answers = [
            " ".join((row["answer"], *(row["emptied by"] or ()))) for row in (before[key], now[key])
        ]
        if answers[0] != answers[1]:
            print(f"{key}\n  before: {answers[0]}\n  now:    {answers[1]}")


if __name__ == "__main__":
    main()
