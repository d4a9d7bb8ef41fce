"""Damage of every sort to a log of ZooKeeper's: each is read, or an error says where it is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kchaos.checkers.zookeeper_log import ZooKeeperLogError, read_ensemble
from tests.support.run_builder import create_body, multi_body, string, transaction, transaction_log

pytestmark = pytest.mark.slow

CREATE, DELETE, MULTI = 1, 2, 14


@given(st.binary(max_size=80), st.integers(0, 60), st.binary(min_size=1, max_size=4))
def test_whatever_bytes_a_log_has_they_are_changes_or_a_named_error(
    tail: bytes, place: int, damage: bytes
):
    body = bytearray(multi_body([(CREATE, create_body("/a", b"x")), (DELETE, string("/a"))]))
    body[place : place + len(damage)] = damage
    first = transaction(1, CREATE, create_body("/a", b"one"))
    content = transaction_log(first, transaction(2, MULTI, bytes(body)), tail)

    told = "nothing"
    try:
        (first_change, *_) = read_ensemble([[("log.1", content)]])
        told = first_change.path
    except ZooKeeperLogError as error:
        told = str(error)

    assert told == "/a" or told.startswith("log.1, position")
