"""Changes to links.jsonl: what brokers said to each other."""

from collections.abc import Callable
from typing import Any

from tests.mutants.kinds import add, kind
from tests.mutants.run_copy import Line, NotApplicableError, RunCopy, is_of

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


def _add_to(field: str, by: int) -> Callable[[Detail], object]:
    return lambda entry: entry.update({field: entry[field] + by})


_FETCH, _EPOCH = "FETCH", "OFFSET_FOR_LEADER_EPOCH"
_CONTROL, _METADATA, _STOP = "LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA"
_entry("another fetch offset", _FETCH, "request", _add_to("fetch_offset", 1), field="fetch_offset")
_entry(
    "another current epoch",
    _FETCH,
    "request",
    _add_to("current_leader_epoch", 1),
    field="current_leader_epoch",
)
_entry(
    "another high watermark in an answer",
    _FETCH,
    "response",
    _add_to("high_watermark", 1),
    field="high_watermark",
)
_entry(
    "a high watermark far too high in an answer",
    _FETCH,
    "response",
    _add_to("high_watermark", 999),
    field="high_watermark",
)
_entry(
    "other records in an answer", _FETCH, "response", _add_to("base_offset", 1), field="base_offset"
)
_entry(
    "more records in an answer", _FETCH, "response", _add_to("last_offset", 3), field="last_offset"
)
_entry(
    "another epoch in an answer",
    _FETCH,
    "response",
    _add_to("last_leader_epoch", 1),
    field="last_leader_epoch",
)
_entry(
    "an error in an answer",
    _FETCH,
    "response",
    lambda entry: entry.update(error_code=6),
    field="high_watermark",
)
_entry(
    "another question for an epoch",
    _EPOCH,
    "request",
    _add_to("leader_epoch", 1),
    field="leader_epoch",
)
_entry("another end of an epoch", _EPOCH, "response", _add_to("end_offset", 1), field="end_offset")
_entry(
    "another answered epoch", _EPOCH, "response", _add_to("leader_epoch", 1), field="leader_epoch"
)
_entry(
    "an error for an epoch",
    _EPOCH,
    "response",
    lambda entry: entry.update(error_code=74),
    field="end_offset",
)
_entry("another leader told", _CONTROL, "request", lambda o: o.update(leader=2), field="leader")
_entry("another epoch told", _CONTROL, "request", _add_to("leader_epoch", 1), field="leader_epoch")
_entry("another ISR told", _CONTROL, "request", lambda entry: entry.update(isr=[2]), field="isr")
_entry(
    "an error of LeaderAndIsr",
    _CONTROL,
    "response",
    lambda entry: entry.update(error_code=11),
    field="error_code",
)
_entry(
    "another leader in the metadata",
    _METADATA,
    "request",
    lambda entry: entry.update(leader=2),
    field="leader",
)
_entry(
    "a deletion of a replica",
    _STOP,
    "request",
    lambda o: o.update(delete_partition=True),
    field="topic",
)


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
_line("a message that was cut", lambda line: line.update(fate="cut"), _CONTROL, direction="request")
_line("a question that was cut", lambda line: line.update(fate="cut"), _FETCH, direction="request")
_line("an answer that was cut", lambda line: line.update(fate="cut"), _FETCH, direction="response")
_line("a fate that is not known", lambda line: line.update(fate="eaten"))
_line("another source", lambda line: line.update(source=2), _FETCH)
_line("another target", lambda line: line.update(target=2), _FETCH)
_line("a source that is no number", lambda line: line.update(source="x"))
_line("another direction", lambda line: line.update(direction="response"), direction="request")
_line("another correlation", lambda line: line.update(correlation_id=10**6), _FETCH)
_line("another connection", lambda line: line.update(connection=999), _FETCH)
_line("another api", lambda line: line.update(api="LIST_OFFSETS"), _FETCH, direction="request")
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
_line("an hour later", lambda line: line.update(wall_time_s=line["wall_time_s"] + 3600))
_line("an hour earlier", lambda line: line.update(wall_time_s=line["wall_time_s"] - 3600))
_line("no time", lambda line: line.update(wall_time_s=None))
_line("no detail", lambda line: line.update(detail=None), _CONTROL, direction="request")
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

    return run.edit_line(LINKS, lambda line: line.update(fate="passed"), where, "cut message")


@kind("links: an answer came twice")
def _twice(run: RunCopy) -> str:
    lines = run.lines(LINKS)
    at = run.pick([i for i, line in enumerate(lines) if _is(_FETCH, "response")(line)], "answer")
    run.write_lines(LINKS, [*lines[: at + 1], *lines[at:]])
    return f"{LINKS}:{at + 1}"


@kind("links: the second half is gone")
def _half(run: RunCopy) -> str:
    lines = run.lines(LINKS)
    if not lines:
        raise NotApplicableError("the links saw nothing")
    run.write_lines(LINKS, lines[: len(lines) // 2])
    return f"{LINKS}:{len(lines) // 2}"


@kind("links: no file")
def _no_file(run: RunCopy) -> str:
    return run.remove(LINKS)


@kind("links: nothing in it")
def _nothing(run: RunCopy) -> str:
    return run.write(LINKS, b"")


@kind("links: no fetch of the partition at all")
def _no_fetches(run: RunCopy) -> str:
    lines = run.lines(LINKS)
    run.write_lines(LINKS, [line for line in lines if not is_of(line, _FETCH)])
    return LINKS
