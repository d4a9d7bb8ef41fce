"""Changes to links.jsonl where a link answered in a broker's place."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add
from tests.mutants.kinds_links import LINKS
from tests.mutants.run_copy import Line, is_of, put


def _forged(line: Line) -> bool:
    return bool(line["fate"] == "forged")


def _replaced(line: Line) -> bool:
    return bool(line["fate"] == "replaced")


def _line(name: str, edit: Callable[[Line], object], where: Callable[[Line], bool]) -> None:
    add(f"forgeries: {name}", lambda run: run.edit_line(LINKS, edit, where, "such answer"))


def _entry(line: Line, **fields: Any) -> None:
    for partition in line["detail"]["partitions"]:
        partition.update(fields)


for _fate in ("passed", "cut", "held", "abandoned", "delayed"):
    _line(f"a forged answer was {_fate}", put(fate=_fate), _forged)
    _line(f"a replaced one was {_fate}", put(fate=_fate), _replaced)
_line("a forged answer was replaced", put(fate="replaced"), _forged)
_line("a replaced one was forged", put(fate="forged"), _replaced)
_line("another error was forged", lambda line: _entry(line, error_code=74), _forged)
_line("no error was forged", lambda line: _entry(line, error_code=0), _forged)
_line("an end was forged", lambda line: _entry(line, error_code=0, end_offset=11), _forged)
_line("a forged answer of another partition", lambda line: _entry(line, partition=7), _forged)
_line("a forged answer to another source", put(source=2), _forged)
_line("a forged answer of another target", put(target=2), _forged)
_line("a forged answer of another api", put(api="Fetch"), _forged)
_line("a forged question", put(direction="request"), _forged)
_line("a forged answer to no question", put(correlation_id=10**6), _forged)
_line("a replaced answer to no question", put(correlation_id=10**6), _replaced)
_line("a replaced answer of another end", lambda line: _entry(line, end_offset=77), _replaced)
_line("a replaced answer with an error", lambda line: _entry(line, error_code=3), _replaced)


def _passed_answer(line: Line) -> bool:
    is_answer = is_of(line, "OffsetForLeaderEpoch") and line["direction"] == "response"
    return bool(is_answer and line["fate"] == "passed")


_line("a true answer was forged", put(fate="forged"), _passed_answer)
_line("a true answer was replaced", put(fate="replaced"), _passed_answer)
add(
    "forgeries: a forged answer is not there",
    lambda run: run.drop_line(LINKS, _forged, "forged answer"),
)
add(
    "forgeries: a replaced answer is not there",
    lambda run: run.drop_line(LINKS, _replaced, "replaced answer"),
)
add(
    "forgeries: a forged answer came twice",
    lambda run: run.double_line(LINKS, _forged, "forged answer"),
)


def _act(name: str, edit: Callable[[Line], object]) -> None:
    def where(line: Line) -> bool:
        return bool(line["action"]["event"] == "ForgeAnswers")

    add(f"forgeries: {name}", lambda run: run.edit_line("actions.jsonl", edit, where, "forgery"))


_act("another error was to be forged", lambda o: o["action"].update(error="FENCED_LEADER_EPOCH"))
_act("another source was to be told", lambda line: line["action"].update(source=2))
_act("another target was to be forged", lambda line: line["action"].update(target=2))
