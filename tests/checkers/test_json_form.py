"""Values read from JSON by their types: what is taken, and how what is refused is named."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import pytest

from kchaos.checkers.json_form import ShapeError, from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    offset: int
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    time: float
    flag: bool = False
    side: Literal["left", "right"] = "left"
    inner: tuple[Inner, ...] = ()
    pair: tuple[int, str] = (0, "")
    by_id: Mapping[int, Inner] = field(default_factory=dict)
    anything: Any = None
    code: int | str | None = 0

    def __post_init__(self) -> None:
        if self.time < 0:
            raise ValueError("time is before 1970")


def test_a_value_comes_back_as_it_was():
    value = Outer(
        time=1.5,
        flag=True,
        side="right",
        inner=(Inner(offset=1, name="a"), Inner(offset=2)),
        pair=(3, "x"),
        by_id={7: Inner(offset=4)},
        anything={"a": [1]},
        code="x",
    )

    assert from_json(Outer, json.loads(json.dumps(asdict(value)))) == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([], "is no object, but []"),
        ({}, "time missing"),
        ({"time": True}, "time is no number, but True"),
        ({"time": "1"}, "time is no number, but '1'"),
        ({"time": 1, "flag": 0}, "flag is no true or false, but 0"),
        ({"time": 1, "code": 1.5}, "code is no whole number or text, but 1.5"),
        ({"time": 1, "code": True}, "code is no whole number or text, but True"),
        ({"time": 1, "side": "up"}, "side is none of 'left', 'right', but 'up'"),
        ({"time": 1, "inner": {}}, "inner is no list, but {}"),
        ({"time": 1, "inner": [{}]}, "inner[0]: offset missing"),
        ({"time": 1, "inner": [{"offset": 1.0}]}, "inner[0]: offset is no whole number, but 1.0"),
        ({"time": 1, "inner": [{"offset": True}]}, "inner[0]: offset is no whole number, but True"),
        ({"time": 1, "pair": [1]}, "pair has 1 values and not 2"),
        ({"time": 1, "pair": [1, 2]}, "pair[1] is no text, but 2"),
        ({"time": 1, "by_id": {"x": {"offset": 1}}}, "by_id has 'x', which is no whole number"),
        ({"time": 1, "by_id": {"7": {}}}, "by_id: 7: offset missing"),
        ({"time": 1, "more": 1}, "Outer has no field more"),
        ({"time": 1, "inner": [{"offset": 1, "more": 1}]}, "inner[0]: Inner has no field more"),
        ({"time": -1}, "time is before 1970"),
    ],
)
def test_what_has_another_shape_is_refused_by_its_place(value: Any, told: str):
    with pytest.raises(ShapeError) as raised:
        from_json(Outer, value)

    assert str(raised.value) == told


def test_more_fields_are_passed_over_where_that_is_allowed():
    value = {"time": 1, "more": 1, "inner": [{"offset": 1, "more": 1}]}

    assert from_json(Outer, value, allow_more=True) == Outer(time=1, inner=(Inner(offset=1),))


def test_a_field_that_is_given_is_not_read():
    assert from_json(Outer, {"anything": 1}, time=2.0, anything=3) == Outer(time=2.0, anything=3)
