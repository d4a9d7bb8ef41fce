"""Changes to what stands once since format 4: high watermarks that were seen, and readings."""

from collections.abc import Callable

from tests.mutants.kinds import add
from tests.mutants.kinds_tier import TIER
from tests.mutants.run_copy import Line

SEEN = "observations.jsonl"
_MARK = "high-watermark"


def _is_mark(line: Line) -> bool:
    return bool(line["kind"] == _MARK)


def _seen(name: str, edit: Callable[[Line], object]) -> None:
    add(f"observations: {name}", lambda run: run.edit_line(SEEN, edit, _is_mark, _MARK))


def _other_mark(line: Line, by: int) -> None:
    for broker in sorted(line["seen"])[:1]:
        line["seen"][broker] += by


def _of_another_broker(line: Line) -> None:
    for broker in sorted(line["seen"])[:1]:
        line["seen"]["7"] = line["seen"].pop(broker)


def _of_one_broker_less(line: Line) -> None:
    for broker in sorted(line["seen"])[:1]:
        line["seen"].pop(broker)


_seen("a high watermark that was seen, higher", lambda o: _other_mark(o, 1))
_seen("a high watermark that was seen, lower", lambda o: _other_mark(o, -1))
_seen("a high watermark that was seen, of another broker", _of_another_broker)
_seen("a high watermark that was seen, of one broker less", _of_one_broker_less)
_seen("a high watermark that was seen, of another partition", lambda o: o.update(topic="u"))
_seen("a high watermark that was seen, in another step", lambda o: o.update(step=0))
_seen("a high watermark that was seen, with zxid 0", lambda o: o.update(zxid=0))
add(
    "observations: a high watermark that was seen is not there",
    lambda run: run.drop_line(SEEN, _is_mark, _MARK),
)
add(
    "tier: a reading with zxid 0",
    lambda run: run.edit_line(
        TIER, lambda line: line.update(zxid=0), lambda line: line["kind"] == "read", "reading"
    ),
)
