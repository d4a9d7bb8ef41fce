"""Changes to links.jsonl where a follower out of range asked with ListOffsets."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add
from tests.mutants.kinds_links import LINKS
from tests.mutants.run_copy import Line, is_of, put


def _asked(line: Line) -> bool:
    return bool(is_of(line, "ListOffsets") and line["direction"] == "request")


def _answered(line: Line) -> bool:
    return bool(is_of(line, "ListOffsets") and line["fate"] == "released")


def _entry(name: str, edit: Callable[[dict[str, Any]], object], where: Any) -> None:
    def change(line: Line) -> None:
        for partition in line["detail"]["partitions"]:
            edit(partition)

    add(f"offsets: {name}", lambda run: run.edit_line(LINKS, change, where, "such message"))


def _moved(by: int) -> Callable[[dict[str, Any]], object]:
    return lambda entry: entry.update(offset=entry["offset"] + by)


for _by in (-1, 1, 2, 3, 999):
    _entry(f"an end of {_by:+}", _moved(_by), _answered)
_entry("an error in place of an end", put(error_code=6), _answered)
_entry("a question for the start", put(timestamp=-2), _asked)
_entry("a question in another epoch", put(current_leader_epoch=1), _asked)
_entry("a question for another partition", put(partition=7), _asked)
add("offsets: no question", lambda run: run.drop_line(LINKS, _asked, "such message"))
add("offsets: no answer", lambda run: run.drop_line(LINKS, _answered, "such message"))
