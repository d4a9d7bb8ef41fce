"""Python's garbage collector while a run is judged."""

import gc

import pytest

from kchaos.checkers.garbage import no_garbage_collection


def test_the_collector_is_off_meanwhile_and_then_as_before() -> None:
    was_enabled: list[bool] = []

    @no_garbage_collection()
    def fail() -> None:
        was_enabled.append(gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    was_enabled.append(gc.isenabled())

    gc.disable()
    with no_garbage_collection():
        pass
    was_enabled.append(gc.isenabled())
    gc.enable()
    assert was_enabled == [False, True, False]
