"""Changes to hits.jsonl: what brokers with an agent did at named points, and what leaders knew."""

import re
from collections.abc import Callable

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, RunCopy

HITS = "hits.jsonl"


def _is(*fates: str, point: str | None = None) -> Callable[[Line], bool]:
    return lambda line: line["fate"] in fates and point in (None, line["point"])


_held, _ended = _is("held"), _is("released", "gone")
_told, _counted = _is("told"), _is("told", point="fetch-counted")


def _line(name: str, edit: Callable[[Line], object], where: Callable[[Line], bool]) -> None:
    add(f"points: {name}", lambda run: run.edit_line(HITS, edit, where, "such hit"))


def _without(name: str, where: Callable[[Line], bool]) -> None:
    add(f"points: {name}", lambda run: run.drop_line(HITS, where, "such hit"))


def _seen(pattern: str, by: int) -> Callable[[Line], object]:
    def change(line: Line) -> None:
        def plus(match: re.Match[str]) -> str:
            return f"{match[1]}{int(match[2]) + by}"

        line["seen"] = re.sub(rf"({pattern})(-?\d+)", plus, line["seen"], count=1)

    return change


def _anything(_: Line) -> bool:
    return True


_without("a hold is not there", _held)
_without("an end of a hold is not there", _ended)
_without("what a leader counted is not there", _counted)
_without("the agent's greeting is not there", _is("passed", point="hello"))
_line("a hold has passed", lambda line: line.update(fate="passed", hold=""), _held)
_line("a hold of another name", lambda line: line.update(hold="none-such"), _held)
_line("an end of another hold", lambda line: line.update(hold="none-such"), _ended)
_line("another number", lambda line: line.update(number=line["number"] + 500), _held)
_line("an end of another number", lambda line: line.update(number=999), _ended)
_line("another broker", lambda line: line.update(broker=77), _anything)
_line("another life", lambda line: line.update(life=9), _anything)
_line("life 0", lambda line: line.update(life=0), _anything)
_line("another point", lambda line: line.update(point="none-such"), _anything)
_line("another reader", lambda line: line.update(reader="77"), _held)
_line("a fate that is not known", lambda line: line.update(fate="eaten"), _anything)
_line("an hour later", lambda line: line.update(time=line["time"] + 3600), _anything)
_line("an hour earlier", lambda line: line.update(time=line["time"] - 3600), _anything)
_line("no time", lambda line: line.update(time=None), _anything)
_line("no fields", lambda line: line.clear(), _anything)
_line("a leader tells nothing", lambda line: line.update(seen=""), _told)
_line("a leader tells of another follower", _seen(r"replicaId=|ReplicaId: ", 50), _counted)
_line("a leader counts another offset", _seen(r"logEndOffset(?:=|: )", 40), _counted)
_line("a leader's clock is an hour late", _seen("now=", 3_600_000), _counted)
_line(
    "a follower caught up in the future", _seen(r"lastCaughtUpTimeMs(?:=|: )", 3_600_000), _counted
)
_line("a follower fetched in the future", _seen(r"lastFetchTimeMs(?:=|: )", 3_600_000), _counted)
_line(
    "the leader's log ends far behind", _seen(r"lastFetchLeaderLogEndOffset(?:=|: )", 900), _counted
)


@kind("points: a hit came twice")
def _twice(run: RunCopy) -> str:
    lines = run.lines(HITS)
    at = run.pick([i for i, line in enumerate(lines) if line["fate"] != "passed"], "hit")
    run.write_lines(HITS, [*lines[: at + 1], *lines[at:]])
    return f"{HITS}:{at + 1}"


@kind("points: a leader tells what the gate never heard")
def _never_heard(run: RunCopy) -> str:
    lines = run.lines(HITS)
    at = run.pick([i for i, line in enumerate(lines) if _told(line)], "hit that was told")
    more = {**lines[at], "number": max(line["number"] for line in lines) + 1}
    run.write_lines(HITS, [*lines, more])
    return f"{HITS}:{at + 1}"


@kind("points: the second half is gone")
def _half(run: RunCopy) -> str:
    lines = run.lines(HITS)
    run.write_lines(HITS, lines[: len(lines) // 2])
    return f"{HITS}:{len(lines) // 2}"


@kind("points: no file")
def _no_file(run: RunCopy) -> str:
    return run.remove(HITS)


@kind("points: nothing in it")
def _nothing(run: RunCopy) -> str:
    run.content(HITS)
    return run.write(HITS, b"")


@kind("points: garbage in it")
def _garbage(run: RunCopy) -> str:
    run.content(HITS)
    return run.write(HITS, b"\xff{")
