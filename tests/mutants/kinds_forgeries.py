"""Changes to links.jsonl where a link answered in a broker's place."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.kinds_links import LINKS
from tests.mutants.run_copy import Line, RunCopy, is_of


def _forged(line: Line) -> bool:
    return bool(line["fate"] == "forged")


def _replaced(line: Line) -> bool:
    return bool(line["fate"] == "replaced")


def _line(name: str, edit: Callable[[Line], object], where: Callable[[Line], bool]) -> None:
    add(f"forgeries: {name}", lambda run: run.edit_line(LINKS, edit, where, "such answer"))


def _entry(line: Line, **fields: Any) -> None:
    for partition in line["detail"]["partitions"]:
        partition.update(fields)


def _with_fate(fate: str) -> Callable[[Line], object]:
    return lambda line: line.update(fate=fate)


for _fate in ("passed", "cut", "held", "abandoned", "delayed"):
    _line(f"a forged answer was {_fate}", _with_fate(_fate), _forged)
    _line(f"a replaced one was {_fate}", _with_fate(_fate), _replaced)
_line("a forged answer was replaced", lambda line: line.update(fate="replaced"), _forged)
_line("a replaced one was forged", lambda line: line.update(fate="forged"), _replaced)
_line("another error was forged", lambda line: _entry(line, error_code=74), _forged)
_line("no error was forged", lambda line: _entry(line, error_code=0), _forged)
_line("an end was forged", lambda line: _entry(line, error_code=0, end_offset=11), _forged)
_line("a forged answer of another partition", lambda line: _entry(line, partition=7), _forged)
_line("a forged answer to another source", lambda line: line.update(source=2), _forged)
_line("a forged answer of another target", lambda line: line.update(target=2), _forged)
_line("a forged answer of another api", lambda line: line.update(api="FETCH"), _forged)
_line("a forged question", lambda line: line.update(direction="request"), _forged)
_line("a forged answer to no question", lambda line: line.update(correlation_id=10**6), _forged)
_line("a replaced answer to no question", lambda o: o.update(correlation_id=10**6), _replaced)
_line("a replaced answer of another end", lambda line: _entry(line, end_offset=77), _replaced)
_line("a replaced answer with an error", lambda line: _entry(line, error_code=3), _replaced)


def _passed_answer(line: Line) -> bool:
    is_answer = is_of(line, "OFFSET_FOR_LEADER_EPOCH") and line["direction"] == "response"
    return bool(is_answer and line["fate"] == "passed")


_line("a true answer was forged", lambda line: line.update(fate="forged"), _passed_answer)
_line("a true answer was replaced", lambda line: line.update(fate="replaced"), _passed_answer)


@kind("forgeries: a forged answer is not there")
def _no_forged(run: RunCopy) -> str:
    return run.drop_line(LINKS, _forged, "forged answer")


@kind("forgeries: a replaced answer is not there")
def _no_replaced(run: RunCopy) -> str:
    return run.drop_line(LINKS, _replaced, "replaced answer")


@kind("forgeries: a forged answer came twice")
def _twice(run: RunCopy) -> str:
    lines = run.lines(LINKS)
    at = run.pick([i for i, line in enumerate(lines) if _forged(line)], "forged answer")
    run.write_lines(LINKS, [*lines[: at + 1], *lines[at:]])
    return f"{LINKS}:{at + 1}"


def _act(name: str, edit: Callable[[Line], object]) -> None:
    def where(line: Line) -> bool:
        return bool(line["action"]["event"] == "ForgeAnswers")

    add(f"forgeries: {name}", lambda run: run.edit_line("actions.jsonl", edit, where, "forgery"))


_act("another error was to be forged", lambda o: o["action"].update(error="FENCED_LEADER_EPOCH"))
_act("another source was to be told", lambda line: line["action"].update(source=2))
_act("another target was to be forged", lambda line: line["action"].update(target=2))
