"""Following a run that nothing explains: how many states are looked at before it is a finding.

Run `.venv/bin/python -m benchmarks.unexplained`. Each run of `tests/golden/hard_to_follow` is
followed whole, and then with one item of its record left out: a produce with its client's answer,
a decision of ZooKeeper's log, or an answer of a leader. Some of these are explained nevertheless,
since an answer that nobody saw may not have left. A few of each kind are taken, spread over the
run; `--all` takes every one.

Printed for each run and kind are how many were followed, how many of them nothing explains, how
many were given up, the median and the most states, the most states for each state of the whole
run, and the most seconds of CPU.

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
from kchaos.checkers.model.follow.observations import ClientAnswered, Record, ResponseSeen
from kchaos.checkers.model.follow.search import MOST_STATES
from kchaos.checkers.model.values.events import Produce
from tests.golden.stored import HARD, recorded

_WHOLE = "whole"
_KINDS = ("produce", "decision", "answer")
_MOST_STATES_AIM, _SECONDS_AIM = 5_000, 2.0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Following runs that nothing explains.")
    parser.add_argument("runs", nargs="*", help="of tests/golden/hard_to_follow; default: all")
    parser.add_argument("--each", type=int, default=3, help="variants of a kind; default 3")
    parser.add_argument("--all", action="store_true", help="leave out every item in turn")
    parser.add_argument("--most-states", type=int, default=MOST_STATES, help="give up after these")
    parser.add_argument("--save", type=Path, help="write what was measured")
    parser.add_argument("--against", type=Path, help="compare with what was saved")
    given = parser.parse_args()
    names = given.runs or sorted(folder.name for folder in HARD.iterdir())
    before = json.loads(given.against.read_text()) if given.against else {}
    measured: dict[str, dict[str, Any]] = {}
    print(
        f"{'run':24} {'left out':9} {'n':>4} {'red':>4} {'unknown':>7} {'median':>7} {'most':>7} "
        f"{'÷ whole':>8} {'most s':>7}"
    )
    for name in names:
        record = recorded(name, runs=HARD)
        variants = dict(_variants(record, None if given.all else given.each))
        for variant, changed in variants.items():
            measured[f"{name} {variant}"] = _followed(changed, given.most_states)
        _print_run(name, measured)
    _print_sum(measured)
    if before:
        _compare(before, measured)
    if given.save:
        given.save.write_text(json.dumps(measured, indent=1) + "\n")


def _variants(record: Record, each: int | None) -> Iterator[tuple[str, Record]]:
    yield _WHOLE, record
    produces = [index for index, item in enumerate(record.seen) if isinstance(item.what, Produce)]
    answers = [
        index for index, item in enumerate(record.seen) if isinstance(item.what, ResponseSeen)
    ]
    for index in _spread(produces, each):
        yield f"produce {index}", _without_produce(record, index)
    for index in _spread(list(range(len(record.decided))), each):
        decided = record.decided[:index] + record.decided[index + 1 :]
        yield f"decision {index}", replace(record, decided=decided)
    for index in _spread(answers, each):
        seen = record.seen[:index] + record.seen[index + 1 :]
        yield f"answer {index}", replace(record, seen=seen)


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


def _followed(record: Record, most_states: int) -> dict[str, Any]:
    begin = time.process_time()
    prediction = follow(record, most_states=most_states)
    seconds = time.process_time() - begin
    emptied = prediction.emptied_by
    return {
        "states": prediction.states,
        "seconds": seconds,
        "unknown": bool(prediction.limit),
        "emptied by": None if emptied is None else [emptied.source, emptied.what, emptied.why],
    }


def _print_run(name: str, measured: dict[str, dict[str, Any]]) -> None:
    whole = measured[f"{name} {_WHOLE}"]
    for kind in (_WHOLE, *_KINDS):
        rows = [row for key, row in measured.items() if key.startswith(f"{name} {kind}")]
        if not rows:
            continue
        states = [row["states"] for row in rows]
        red = sum(row["emptied by"] is not None for row in rows)
        print(
            f"{name:24} {kind:9} {len(rows):4} {red:4} {sum(row['unknown'] for row in rows):7} "
            f"{statistics.median(states):7.0f} {max(states):7} "
            f"{max(states) / whole['states']:8.1f} {max(row['seconds'] for row in rows):7.2f}",
            flush=True,
        )


def _print_sum(measured: dict[str, dict[str, Any]]) -> None:
    rows = [row for key, row in measured.items() if not key.endswith(_WHOLE)]
    slow = [
        row for row in rows if row["states"] >= _MOST_STATES_AIM or row["seconds"] >= _SECONDS_AIM
    ]
    print(
        f"{len(rows)} with an item left out: {sum(row['states'] for row in rows)} states, "
        f"{sum(row['seconds'] for row in rows):.1f} s; {sum(row['unknown'] for row in rows)} given "
        f"up; {len(slow)} beyond {_MOST_STATES_AIM} states or {_SECONDS_AIM:.0f} s"
    )


def _compare(before: dict[str, dict[str, Any]], now: dict[str, dict[str, Any]]) -> None:
    keys = before.keys() & now.keys()
    for what in ("states", "seconds"):
        was, is_now = (sum(rows[key][what] for key in keys) for rows in (before, now))
        print(f"{what} of {len(keys)} that both have: {was:.0f} before, {is_now / was:.1%} left")
    for key in sorted(keys):
        answers = [
            "unknown"
            if row["unknown"]
            else "explained"
            if row["emptied by"] is None
            else f"emptied by {' '.join(row['emptied by'])}"
            for row in (before[key], now[key])
        ]
        if answers[0] != answers[1]:
            print(f"{key}\n  before: {answers[0]}\n  now:    {answers[1]}")


if __name__ == "__main__":
    main()
