"""Layouts of messages: the fields of an API's requests and responses, by version, from a text.

An API has a heading, its request and its response:

    STOP_REPLICA newest 4, flexible 2
        request: broker_epoch int64 1+, topics [] 1-2 (topic string, partitions []int32)
        response: error_code int16

A field has a name, a type, and the versions that carry it, as Kafka's message definitions write
them: `2+`, `0-4` or `3`; without any, all do. `[]int32` is an array. A structure has its fields in
parentheses in place of a type, an array of structures `[]` before these. `@1` before a name is the
tag of a tagged field (KIP-482). From version `flexible` on messages are flexible.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.wire import NEWEST, Field

_API = re.compile(r"(\w+) newest (\d+), flexible (\d+) request:(.*) response:(.*)")
_FIELD = re.compile(
    r"(?:@(?P<tag>\d+) )?(?P<name>\w+) ?(?P<array>\[\])? ?(?P<type>[a-z]\w*)?"
    r" ?(?:(?P<since>\d+)(?:(?P<open>\+)|-(?P<until>\d+))?)?(?P<inner>\()?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layouts of one API's messages: the newest version known, and the first flexible one."""

    newest: int
    flexible_since: int
    request: tuple[Field, ...]
    response: tuple[Field, ...]


def layouts(text: str) -> Mapping[int, Layout]:
    """Return the layout of each API in a text.

    Raises:
        ValueError: It is no such text; the message has the place where it stops being one.
    """
    return dict(_layout(" ".join(api.split())) for api in re.split(r"\n(?=\S)", text.strip()))


def _layout(text: str) -> tuple[int, Layout]:
    api = _API.fullmatch(text)
    if api is None:
        raise ValueError(f"no API: {text!r}")
    layout = Layout(
        newest=int(api[2]),
        flexible_since=int(api[3]),
        request=fields(api[4]),
        response=fields(api[5]),
    )
    return ApiKey[api[1]], layout


def fields(text: str) -> tuple[Field, ...]:
    """Return the fields of a text.

    Raises:
        ValueError: As of `layouts`.
    """
    plain = re.sub(r" ?([(),]) ?", r"\1", " ".join(text.split()))
    found, end = _fields(plain, 0)
    if end != len(plain):
        raise ValueError(f"no field: {plain[end:]!r}")
    return found


def _fields(text: str, at: int) -> tuple[tuple[Field, ...], int]:
    """Return the fields that begin at a place, and the place behind them."""
    found = []
    while True:
        field = _FIELD.match(text, at)
        if field is None:
            raise ValueError(f"no field: {text[at:]!r}")
        at = field.end()
        inner: tuple[Field, ...] = ()
        if field["inner"]:
            inner, at = _fields(text, at)
            if not text.startswith(")", at):
                raise ValueError(f"no end of {field['name']}: {text[at:]!r}")
            at += 1
        since = int(field["since"] or 0)
        only = NEWEST if field["open"] or not field["since"] else since
        found.append(
            Field(
                name=field["name"],
                type=field["type"] or "",
                struct=inner,
                array=field["array"] is not None,
                since=since,
                until=int(field["until"] or only),
                tag=None if field["tag"] is None else int(field["tag"]),
            )
        )
        if not text.startswith(",", at):
            return tuple(found), at
        at += 1
