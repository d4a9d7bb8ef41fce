"""Changes to links.jsonl: what brokers said to each other."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, RunCopy, is_of, more, put

LINKS = "links.jsonl"
Detail = dict[str, Any]


def _about(line: Line) -> list[Detail]:
    """The entries of a message about topics that are judged."""
    entries = (line.get("detail") or {}).get("partitions") or ()
    return [entry for entry in entries if not str(entry.get("topic", "__")).startswith("__")]


def _is(api: str, direction: str | None = None, *, field: str | None = None) -> Any:
    def where(line: Line) -> bool:
        return (
            is_of(line, api)
            and line["fate"] == "passed"
            and direction in (None, line["direction"])
            and line["source"] is not None
            and bool(_about(line))
            and (field is None or any(each.get(field) is not None for each in _about(line)))
        )

    return where


def _entry(
    name: str, api: str, direction: str, edit: Callable[[Detail], object], *, field: str
) -> None:
    def change(line: Line) -> None:
        for entry in _about(line):
            if entry.get(field) is not None:
                edit(entry)

    add(
        f"links: {name}",
        lambda run: run.edit_line(LINKS, change, _is(api, direction, field=field), f"{api} there"),
    )


_FETCH, _EPOCH = "Fetch", "OffsetForLeaderEpoch"
_CONTROL, _METADATA, _STOP = "LeaderAndIsr", "UpdateMetadata", "StopReplica"
_entry("another fetch offset", _FETCH, "request", more("fetch_offset", 1), field="fetch_offset")
_entry(
    "another current epoch",
    _FETCH,
    "request",
    more("current_leader_epoch", 1),
    field="current_leader_epoch",
)
_entry(
    "another high watermark in an answer",
    _FETCH,
    "response",
    more("high_watermark", 1),
    field="high_watermark",
)
_entry(
    "a high watermark far too high in an answer",
    _FETCH,
    "response",
    more("high_watermark", 999),
    field="high_watermark",
)
_entry(
    "other records in an answer", _FETCH, "response", more("base_offset", 1), field="base_offset"
)
_entry("more records in an answer", _FETCH, "response", more("last_offset", 3), field="last_offset")
_entry(
    "another epoch in an answer",
    _FETCH,
    "response",
    more("last_leader_epoch", 1),
    field="last_leader_epoch",
)
_entry("an error in an answer", _FETCH, "response", put(error_code=6), field="high_watermark")
_entry(
    "another question for an epoch",
    _EPOCH,
    "request",
    more("leader_epoch", 1),
    field="leader_epoch",
)
_entry("another end of an epoch", _EPOCH, "response", more("end_offset", 1), field="end_offset")
_entry("another answered epoch", _EPOCH, "response", more("leader_epoch", 1), field="leader_epoch")
_entry("an error for an epoch", _EPOCH, "response", put(error_code=74), field="end_offset")
_entry("another leader told", _CONTROL, "request", put(leader=2), field="leader")
_entry("another epoch told", _CONTROL, "request", more("leader_epoch", 1), field="leader_epoch")
_entry("another ISR told", _CONTROL, "request", put(isr=[2]), field="isr")
_entry("an error of LeaderAndIsr", _CONTROL, "response", put(error_code=11), field="error_code")
_entry("another leader in the metadata", _METADATA, "request", put(leader=2), field="leader")
_entry("a deletion of a replica", _STOP, "request", put(delete_partition=True), field="topic")


def _line(
    name: str, edit: Callable[[Line], object], *apis: str, direction: str | None = None
) -> None:
    def where(line: Line) -> bool:
        return any(_is(api, direction)(line) for api in apis or (_FETCH, _CONTROL, _EPOCH))

    add(f"links: {name}", lambda run: run.edit_line(LINKS, edit, where, "message there"))


def _without(name: str, *apis: str, direction: str) -> None:
    def where(line: Line) -> bool:
        return any(_is(api, direction)(line) for api in apis) and line["fate"] == "passed"

    add(f"links: {name}", lambda run: run.drop_line(LINKS, where, "message there"))


_without("a question to fetch is not there", _FETCH, direction="request")
_without("an answer with records is not there", _FETCH, direction="response")
_without("a question for an epoch is not there", _EPOCH, direction="request")
_without("an answer about an epoch is not there", _EPOCH, direction="response")
_without("a LeaderAndIsr is not there", _CONTROL, direction="request")
_line("a message that was cut", put(fate="cut"), _CONTROL, direction="request")
_line("a question that was cut", put(fate="cut"), _FETCH, direction="request")
_line("an answer that was cut", put(fate="cut"), _FETCH, direction="response")
_line("a fate that is not known", put(fate="eaten"))
_line("another source", put(source=2), _FETCH)
_line("another target", put(target=2), _FETCH)
_line("a source that is no number", put(source="x"))
_line("another direction", put(direction="response"), direction="request")
_line("another correlation", put(correlation_id=10**6), _FETCH)
_line("another connection", put(connection=999), _FETCH)
_line("another api", put(api="ListOffsets"), _FETCH, direction="request")
_line(
    "another controller epoch",
    lambda o: o["detail"].update(controller_epoch=7),
    _CONTROL,
    direction="request",
)
_line(
    "another controller",
    lambda o: o["detail"].update(controller_id=1),
    _CONTROL,
    direction="request",
)
_line("an hour later", more("wall_time_s", 3600))
_line("an hour earlier", more("wall_time_s", -3600))
_line("no time", put(wall_time_s=None))
_line("no detail", put(detail=None), _CONTROL, direction="request")
_line("partitions that are no list", lambda line: line["detail"].update(partitions=7))
_line(
    "an offset that is no number",
    lambda o: _about(o)[0].update(fetch_offset="x"),
    _FETCH,
    direction="request",
)
_line("no fields", lambda line: line.clear())


@kind("links: what was cut has passed")
def _passed(run: RunCopy) -> str:
    def where(line: Line) -> bool:
        is_wanted = any(is_of(line, api) for api in (_FETCH, _CONTROL)) and bool(_about(line))
        return line["fate"] == "cut" and is_wanted

    return run.edit_line(LINKS, put(fate="passed"), where, "cut message")


add(
    "links: an answer came twice",
    lambda run: run.double_line(LINKS, _is(_FETCH, "response"), "answer"),
)
add("links: the second half is gone", lambda run: run.halve(LINKS))
add("links: no file", lambda run: run.remove(LINKS))
add("links: nothing in it", lambda run: run.write(LINKS, b""))
add(
    "links: no fetch of the partition at all",
    lambda run: run.drop_lines(LINKS, lambda line: is_of(line, _FETCH)),
)
