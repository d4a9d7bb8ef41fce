"""Changes to hits.jsonl: what brokers with an agent did at named points, and what leaders knew."""

import re
from collections.abc import Callable

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, RunCopy, more, put

HITS, ACTIONS = "hits.jsonl", "actions.jsonl"


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


def _act(name: str, event: str, edit: Callable[[Line], object] | None = None) -> None:
    def mutate(run: RunCopy) -> str:
        def where(line: Line) -> bool:
            return bool(line["action"]["event"] == event)

        if edit is None:
            return run.drop_line(ACTIONS, where, event)
        return run.edit_line(ACTIONS, lambda line: edit(line["action"]), where, event)

    add(f"points: {name}", mutate)


_act("an act that holds another broker", "HoldPoint", put(broker=2))
_act("an act that holds another point", "HoldPoint", put(point="none-such"))
_act("an act that holds others' reads", "HoldPoint", put(readers="consumers"))
_act("an act that lets threads turn back", "HoldPoint", put(manner="skip"))
_act("an act that lets go is not there", "ReleasePoint")
_without("a hold is not there", _held)
_without("an end of a hold is not there", _ended)
_without("what a leader counted is not there", _counted)
_without("the agent's greeting is not there", _is("passed", point="hello"))
_line("a hold has passed", put(fate="passed", hold=""), _held)
_line("a hold of another name", put(hold="none-such"), _held)
_line("an end of another hold", put(hold="none-such"), _ended)
_line("another number", more("number", 500), _held)
_line("an end of another number", put(number=999), _ended)
_line("another broker", put(broker=77), _anything)
_line("another life", put(life=9), _anything)
_line("life 0", put(life=0), _anything)
_line("another point", put(point="none-such"), _anything)
_line("another reader", put(reader="77"), _held)
_line("a fate that is not known", put(fate="eaten"), _anything)
_line("an hour later", more("time", 3600), _anything)
_line("an hour earlier", more("time", -3600), _anything)
_line("no time", put(time=None), _anything)
_line("no fields", lambda line: line.clear(), _anything)
_line("a leader tells nothing", put(seen=""), _told)
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
add(
    "points: a hit came twice",
    lambda run: run.double_line(HITS, lambda line: line["fate"] != "passed", "hit"),
)


@kind("points: a leader tells what the gate never heard")
def _never_heard(run: RunCopy) -> str:
    lines = run.lines(HITS)
    at = run.pick([i for i, line in enumerate(lines) if _told(line)], "hit that was told")
    more = {**lines[at], "number": max(line["number"] for line in lines) + 1}
    run.write_lines(HITS, [*lines, more])
    return f"{HITS}:{at + 1}"


add("points: the second half is gone", lambda run: run.halve(HITS))
add("points: no file", lambda run: run.remove(HITS))
add("points: nothing in it", lambda run: run.overwrite(HITS, b""))
add("points: garbage in it", lambda run: run.overwrite(HITS, b"\xff{"))
