"""Histories from files: in Jepsen's own form (history.edn), or the same as JSON.

A file has a map for each event, one after the other or in one vector. An operation begins with
`:type :invoke` and ends with `:ok`, `:fail` or `:info` of the same process:

    {:process 0, :type :invoke, :f :txn, :value [[:send 3 7] [:poll]]}
    {:process 0, :type :ok, :f :txn, :value [[:send 3 [12 7]] [:poll {3 [[11 6]]}]]}
    {:process 1, :type :invoke, :f :subscribe, :value [3 4]}

`:rebalance-log` names keys that were given or taken meanwhile. What is done by no process with a
number, and other functions than txn, send, poll, assign and subscribe, is passed over. As JSON
keywords are texts, and the keys of what was polled are too; there `.json` has one list, or, as
`.jsonl` does, an object in each line.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from kchaos.checkers.errors import HistoryError, RunDirectoryError
from kchaos.checkers.histories.edn import EdnError, edn_values
from kchaos.checkers.histories.operations import (
    Function,
    HistoryOperation,
    Outcome,
    Poll,
    Send,
    Value,
)
from kchaos.checkers.opening import bounded_json, read_bounded

JSON_NAMES = (".json", ".jsonl", ".ndjson")
_TYPES = ("invoke", *get_args(Outcome))
_FUNCTIONS = get_args(Function)
_NO_KEYS = ("assign", "subscribe")


def read_history(file: Path) -> tuple[HistoryOperation, ...]:
    """Return a history's operations in the order of their ends, unfinished ones last.

    Raises:
        HistoryError: The file cannot be read or is no history; the message names file and line.
    """
    try:
        content = read_bounded(file)
    except OSError as error:
        raise HistoryError(f"{file} cannot be read: {error.strerror or error}") from error
    except RunDirectoryError as error:
        raise HistoryError(str(error)) from error
    return history_of(content, file, is_json=file.suffix in JSON_NAMES)


def history_of(content: bytes, file: Path, *, is_json: bool) -> tuple[HistoryOperation, ...]:
    """Return the operations in a history's bytes.

    Raises:
        HistoryError: As `read_history`.
    """
    reading = _Reading()
    try:
        values = _json_values(content, file) if is_json else edn_values(content.decode())
        for line, value in values:
            reading.add(_event(value, f"{file}: line {line}", f"line {line}"))
    except EdnError as error:
        raise HistoryError(f"{file}: {error}") from error
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise HistoryError(f"{file}: line {line}: a byte that is no UTF-8") from error
    operations = reading.operations()
    if not operations:
        raise HistoryError(
            f"{file}: there is no operation of a client in it; a history has maps with :type, :f, "
            ":process and :value"
        )
    return operations


@dataclass(frozen=True, slots=True)
class _Event:
    """An operation's begin or end."""

    kind: str
    process: str
    function: str
    value: Any
    rebalanced: frozenset[str]
    place: str
    line: str


class _Reading:
    """Puts begins and ends together."""

    def __init__(self) -> None:
        self._begun: dict[str, _Event] = {}
        self._ended: list[HistoryOperation] = []

    def add(self, event: _Event | None) -> None:
        """Take in the next event; None is one that is of no client."""
        if event is None:
            return
        begun = self._begun.pop(event.process, None)
        if event.kind == "invoke":
            if begun is not None:
                raise HistoryError(
                    f"{event.place}: process {event.process} begins an operation before that of "
                    f"{begun.line} has ended"
                )
            self._begun[event.process] = event
            return
        if begun is not None and begun.function != event.function:
            raise HistoryError(
                f"{event.place}: process {event.process} ends {event.function!r}, and began "
                f"{begun.function!r} at {begun.line}"
            )
        self._end(event, begun)

    def _end(self, event: _Event, begun: _Event | None) -> None:
        if event.function not in _FUNCTIONS:
            return
        value = event.value
        if value is None and begun is not None:
            value = begun.value  # A client that crashed tells nothing more.
        is_keys = event.function in _NO_KEYS
        self._ended.append(
            HistoryOperation(
                index=len(self._ended),
                process=event.process,
                outcome=cast(Outcome, event.kind),
                function=cast(Function, event.function),
                actions=() if is_keys else tuple(_actions(value, event.place)),
                keys=_keys(value, event.place) if is_keys else (),
                rebalanced=event.rebalanced,
                read_at=event.line,
            )
        )

    def operations(self) -> tuple[HistoryOperation, ...]:
        """Return all operations; an unfinished one is not known to be done."""
        for event in self._begun.values():
            self._end(replace(event, kind="info"), None)
        self._begun.clear()
        return tuple(self._ended)


def _event(value: Any, place: str, line: str) -> _Event | None:
    if not isinstance(value, Mapping):
        raise HistoryError(f"{place}: an event is a map, and this is {_short(value)}")
    missing = [name for name in ("type", "f", "process") if name not in value]
    if missing:
        raise HistoryError(f"{place}: the event has no {' and no '.join(missing)}")
    kind, function, process = value["type"], value["f"], value["process"]
    if isinstance(process, bool) or not isinstance(process, int):
        return None  # A fault is injected by a process with a name.
    if kind not in _TYPES:
        raise HistoryError(
            f"{place}: the type is {_short(kind)}, and it must be {', '.join(_TYPES)}"
        )
    if not isinstance(function, str):
        raise HistoryError(f"{place}: f is {_short(function)}, and it must be a name")
    return _Event(
        kind=kind,
        process=str(process),
        function=function,
        value=value.get("value"),
        rebalanced=frozenset(_rebalanced(value.get("rebalance-log"), place)),
        place=place,
        line=line,
    )


def _actions(value: Any, place: str) -> Iterator[Send | Poll]:
    if value is None:
        return
    if not isinstance(value, list):
        raise HistoryError(f"{place}: the value is {_short(value)}, and it must be a list")
    for action in value:
        match action:
            case ["send", key, [offset, sent]]:
                yield Send(
                    key=_key(key, place), value=_value(sent, place), offset=_offset(offset, place)
                )
            case ["send", key, sent]:
                yield Send(key=_key(key, place), value=_value(sent, place))
            case ["poll"] | ["poll", None]:
                yield Poll()
            case ["poll", dict() as came]:
                yield Poll(records={_key(key, place): _records(came[key], place) for key in came})
            case _:
                raise HistoryError(
                    f"{place}: {_short(action)} is no action; there are [:send key value], "
                    "[:send key [offset value]], [:poll] and [:poll {key [[offset value] ...]}]"
                )


def _records(came: Any, place: str) -> tuple[tuple[int | None, Value], ...]:
    if not isinstance(came, list):
        raise HistoryError(f"{place}: {_short(came)} was polled, and it must be a list")
    records: list[tuple[int | None, Value]] = []
    for record in came:
        match record:
            case [offset, value]:
                records.append((_offset(offset, place), _value(value, place)))
            case _:
                raise HistoryError(
                    f"{place}: {_short(record)} was polled, and it must be [offset value]"
                )
    return tuple(records)


def _keys(value: Any, place: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise HistoryError(f"{place}: the value is {_short(value)}, and it must be a list of keys")
    return tuple(_key(key, place) for key in value)


def _rebalanced(log: Any, place: str) -> Iterator[str]:
    for event in log if isinstance(log, list) else ():
        keys = event.get("keys") if isinstance(event, Mapping) else None
        yield from _keys(keys or [], place)


def _key(key: Any, place: str) -> str:
    if isinstance(key, bool) or not isinstance(key, int | str):
        raise HistoryError(f"{place}: a key is {_short(key)}, and it must be a number or a name")
    return str(key)


def _value(value: Any, place: str) -> Value:
    if isinstance(value, list | dict):
        raise HistoryError(
            f"{place}: a value is {_short(value)}, and it must be a number, a text or nil"
        )
    return cast(Value, value)


def _offset(offset: Any, place: str) -> int | None:
    if offset is None:
        return None
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 1 << 63:
        raise HistoryError(f"{place}: an offset is {_short(offset)}, and no log has such a one")
    return offset


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _json_values(content: bytes, file: Path) -> Iterator[tuple[int, Any]]:
    """Yield the line and the value of each object of a list, or of each line."""
    if not content.lstrip().startswith(b"["):
        for number, said in enumerate(content.splitlines(), start=1):
            if said.strip():
                yield number, _json_value(said, file, number)
        return
    first = content[: content.index(b"[")].count(b"\n") + 1
    values: Sequence[Any] = _json_value(content, file, first)
    text = content.decode()
    position, last_counted, line = text.index("[") + 1, 0, 1
    decoder = json.JSONDecoder()
    for value in values:
        position = next(at for at in range(position, len(text)) if text[at] not in " \t\r\n,")
        line += text.count("\n", last_counted, position)
        last_counted = position
        yield line, value
        _, position = decoder.raw_decode(text, position)


def _json_value(content: bytes, file: Path, line: int) -> Any:
    try:
        return bounded_json(content)
    except UnicodeDecodeError:
        raise
    except json.JSONDecodeError as error:
        line += error.lineno - 1
        raise HistoryError(f"{file}: line {line}: it is no JSON: {error.msg}") from error
    except ValueError as error:
        raise HistoryError(f"{file}: line {line}: it is no JSON: {error}") from error
