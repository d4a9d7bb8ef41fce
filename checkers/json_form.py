"""Dataclasses read from JSON: a type's hints are its shape, and each field is checked by them.

The other way is `to_json`, or `dataclasses.asdict` where every field is written. Understood are
plain types and unions of them, `Any`, literals, `X | None`, tuples, mappings by text or by whole
number, and dataclasses of these. A field with a default may be missing; `lacking` says which do
although whoever writes the value writes them.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

_T = TypeVar("_T")
SOMETIMES: Mapping[str, bool] = {"sometimes": True}
"""Metadata of a field that whoever writes the value may leave out."""
NOT_WRITTEN: Mapping[str, bool] = {"sometimes": True, "not written": True}
"""Metadata of a field that only whoever reads the value knows, such as its place."""
_LIMIT = 1 << 63
_Read = Callable[[Any], Any]
_PLAIN: Mapping[Any, tuple[tuple[type, ...], str]] = {
    int: ((int,), "whole number"),
    float: ((int, float), "number"),
    str: ((str,), "text"),
    bool: ((bool,), "true or false"),
    NoneType: ((NoneType,), "null"),
}


class ShapeError(ValueError):
    """A value has another shape than its type; the message names the field and what it has."""


def from_json(kind: type[_T], value: Any, *, allow_more: bool = False, **given: Any) -> _T:
    """Return the dataclass of that kind that the JSON value describes.

    With `allow_more`, unknown fields are ignored at any depth; otherwise they are refused. `given`
    fields are not read, since their values are known from elsewhere.

    Raises:
        ShapeError: A field is missing, unknown or of another type.
    """
    hint: Any = kind
    instance: _T = _dataclass(hint, allow_more, True)(value, given)
    return instance


def check_json(kind: type[Any], value: Any) -> None:
    """Raise ShapeError as `from_json` does with `allow_more`, without making an instance."""
    hint: Any = kind
    _dataclass(hint, True, False)(value, {})


def to_json(value: Any) -> dict[str, Any]:
    """Return the JSON that `from_json` reads as this dataclass, without optional defaults.

    The dataclasses in its fields, tuples and mappings are written likewise.
    """
    kind: Any = type(value)
    written: dict[str, Any] = {}
    for name, is_optional, default in _form(kind):
        item = getattr(value, name)
        if not is_optional or item != default:
            written[name] = item if type(item) in _PLAIN else _written(item)
    return written


@cache
def _form(kind: Any) -> tuple[tuple[str, bool, Any], ...]:
    """Return each field that is written, whether it is not with its default, and that."""
    return tuple(
        (field.name, bool(field.metadata.get("sometimes")), field.default)
        for field in dataclasses.fields(kind)
        if not field.metadata.get("not written")
    )


def _written(value: Any) -> Any:
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [to_json(element) for element in value]
    if isinstance(value, Mapping) and any(map(dataclasses.is_dataclass, value.values())):
        return {name: _written(item) for name, item in value.items()}
    return to_json(value) if dataclasses.is_dataclass(value) else value


def members(value: Any) -> dict[str, Any]:
    """Return every field of a dataclass by its name, unconverted.

    `json.dumps(value, default=members)` writes a dataclass as `dataclasses.asdict` shows it, and
    copies nothing of it.
    """
    kind: Any = type(value)
    return {name: getattr(value, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def lacking(kind: Any, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the place of each absent field that has a default and yet must be given.

    A null counts as nothing where null is the default.

    Args:
        kind: A dataclass.
        value: One that `from_json` takes for it.
    """
    for name, is_null in _defaulted(kind):
        if name not in value or (is_null and value[name] is None):
            yield name
    for name, inner in _nested(kind):
        yield from (f"{name}: {place}" for place in inner(value.get(name)))


@cache
def _reader(hint: Any, allow_more: bool, makes: bool) -> _Read:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return lambda value: value
    if hint in _PLAIN:
        return _plain(*_PLAIN[hint])
    if origin is Literal:
        known = ", ".join(map(repr, arguments))
        return _checked(lambda value: value in arguments, f"none of {known}")
    if origin in (Union, UnionType):
        others = [argument for argument in arguments if argument is not NoneType]
        if set(others) <= _PLAIN.keys():
            types = tuple(kind for argument in arguments for kind in _PLAIN[argument][0])
            return _plain(types, " or ".join(_PLAIN[other][1] for other in others))
        if len(others) == 1 and NoneType in arguments:
            inner = _reader(others[0], allow_more, makes)
            return lambda value: None if value is None else inner(value)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _many(_reader(arguments[0], allow_more, makes))
    if origin is tuple:
        return _row([_reader(argument, allow_more, makes) for argument in arguments])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments[0], _reader(arguments[1], allow_more, makes))
    if dataclasses.is_dataclass(hint):
        kind: Any = hint
        read = _dataclass(kind, allow_more, makes)
        return lambda value: read(value, {})
    raise TypeError(f"{hint} has no form in JSON")


@cache
def _defaulted(kind: Any) -> tuple[tuple[str, bool], ...]:
    """Return each field that must be given despite its default, and whether that is null."""
    return tuple(
        (field.name, field.default is None)
        for field in dataclasses.fields(kind)
        if not field.metadata.get("sometimes") and _has_default(field)
    )


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    missing = dataclasses.MISSING
    return field.default is not missing or field.default_factory is not missing


@cache
def _nested(kind: Any) -> tuple[tuple[str, Callable[[Any], Iterator[str]]], ...]:
    """Return each field with dataclasses in it, and a function that yields their missing places."""
    hints = get_type_hints(kind)
    inners = ((field.name, _inner(hints[field.name])) for field in dataclasses.fields(kind))
    return tuple((name, inner) for name, inner in inners if inner is not None)


def _inner(hint: Any) -> Callable[[Any], Iterator[str]] | None:
    if dataclasses.is_dataclass(hint):
        return lambda value: iter(()) if value is None else lacking(hint, value)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType) and NoneType in arguments:
        return _inner(next(argument for argument in arguments if argument is not NoneType))
    is_mapping = isinstance(origin, type) and issubclass(origin, Mapping)
    inside = _inner(arguments[1 if is_mapping else 0]) if is_mapping or origin is tuple else None
    if inside is None:
        return None
    inner = inside
    if is_mapping:
        return lambda value: (
            f"{name}: {place}" for name, item in (value or {}).items() for place in inner(item)
        )
    return lambda value: (place for item in value or () for place in inner(item))


def _plain(types: tuple[type, ...], name: str) -> _Read:
    def read(value: Any) -> Any:
        kind = type(value)
        is_bounded = kind in types and (
            -_LIMIT <= value < _LIMIT if kind is int else kind is not float or math.isfinite(value)
        )
        if not is_bounded:
            raise ShapeError(f"is no {name}, but {_shown(value)}")
        return value

    return read


def _checked(fits: Callable[[Any], bool], what: str) -> _Read:
    def read(value: Any) -> Any:
        if not fits(value):
            raise ShapeError(f"is {what}, but {_shown(value)}")
        return value

    return read


def _many(inner: _Read) -> _Read:
    def read(value: Any) -> Any:
        _listed(value)
        try:
            return tuple(map(inner, value))
        except ShapeError:  # Once more, one by one, so that the message names the place.
            return tuple(_inside(f"[{at}]", inner, item) for at, item in enumerate(value))

    return read


def _row(readers: list[_Read]) -> _Read:
    def read(value: Any) -> Any:
        if len(_listed(value)) != len(readers):
            raise ShapeError(f"has {len(value)} values and not {len(readers)}")
        pairs = enumerate(zip(readers, value, strict=True))
        return tuple(_inside(f"[{at}]", inner, item) for at, (inner, item) in pairs)

    return read


def _mapping(key: Any, inner: _Read) -> _Read:
    def read(value: Any) -> Any:
        for name in _object(value):
            if key is int and not (name.isascii() and name.isdecimal() and len(name) < 10):
                raise ShapeError(f"has {name!r}, which is no whole number")
        names = map(int, value) if key is int else value
        try:
            return dict(zip(names, map(inner, value.values()), strict=True))
        except ShapeError:  # Once more, one by one, so that the message names the place.
            return {name: _inside(name, inner, item) for name, item in value.items()}

    return read


@cache
def _dataclass(kind: Any, allow_more: bool, makes: bool) -> Callable[[Any, Mapping[str, Any]], Any]:
    hints = get_type_hints(kind)
    readers: dict[str, _Read] = {}  # Filled as fields occur: some are given and have no form.
    required = [field.name for field in dataclasses.fields(kind) if not _has_default(field)]
    always = frozenset(required)

    def read(value: Any, given: Mapping[str, Any]) -> Any:
        _object(value)
        if not value.keys() >= always:
            lacking = [name for name in required if name not in value and name not in given]
            if lacking:
                raise ShapeError(f"{', '.join(lacking)} missing")
        more = [] if allow_more else [name for name in value if name not in hints]
        if more:
            raise ShapeError(f"{kind.__name__} has no field {', '.join(sorted(more))}")
        fields = dict(given)
        name = ""
        try:
            for name, inner_value in value.items():
                if name in given:
                    continue
                reader = readers.get(name)
                if reader is None:
                    if name not in hints:
                        continue
                    reader = readers[name] = _reader(hints[name], allow_more, makes)
                fields[name] = reader(inner_value)
        except ShapeError as error:
            raise _placed(name, error) from error
        if not makes:
            return None
        try:
            return kind(**fields)
        except ValueError as error:
            raise ShapeError(str(error)) from error

    return read


def _inside(place: str, read: _Read, value: Any) -> Any:
    try:
        return read(value)
    except ShapeError as error:
        raise _placed(place, error) from error


def _placed(place: str, error: ShapeError) -> ShapeError:
    # "isr" and "[1] is no text" make "isr[1] is no text".
    said = str(error)
    joint = "" if said.startswith("[") else " " if said.startswith(("is ", "has ")) else ": "
    return ShapeError(f"{place}{joint}{said}")


def _object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise ShapeError(f"is no object, but {_shown(value)}")
    return value


def _listed(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ShapeError(f"is no list, but {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
