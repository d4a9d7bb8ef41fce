import struct

import pytest

from kchaos.checkers.zookeeper_log import ZnodeChange, ZooKeeperLogError, read_ensemble
from tests.support.run_builder import (
    ACL,
    buffer,
    create_body,
    multi_body,
    set_body,
    string,
    transaction,
    transaction_log,
)

CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI = 1, 2, 5, 7, 13, 14
CREATE2, CREATE_CONTAINER, CREATE_TTL = 15, 19, 21
ERROR, CREATE_SESSION, CLOSE_SESSION = -1, -10, -11
# Written by ZooKeeper 3.4 under a Kafka 1.1.1 cluster: the closing of a session.
REAL_CLOSE_SESSION = bytes.fromhex(
    "000000006ce309db0000002001a1fd08775e000200000001000000000000004b000001a1fd0880f7fffffff542"
)


def changes(*transactions: bytes) -> list[ZnodeChange]:
    return list(read_ensemble([[("log.1", transaction_log(*transactions))]]))


def told(seen: list[ZnodeChange]) -> list[tuple[str, str, bytes | None, int]]:
    return [(each.operation, each.path, each.data, each.version) for each in seen]


def test_a_znode_is_created_set_and_deleted_with_growing_versions():
    changed = changes(
        transaction(1, CREATE, create_body("/a", b"one"), session=7, time_ms=1234),
        transaction(2, SET_DATA, set_body("/a", b"two", 1)),
        transaction(3, DELETE, string("/a")),
    )

    assert told(changed) == [
        ("create", "/a", b"one", 0),
        ("set", "/a", b"two", 1),
        ("delete", "/a", None, -1),
    ]
    assert [each.zxid for each in changed] == [1, 2, 3]
    assert (changed[0].session, changed[0].time_ms, changed[0].ephemeral_owner) == (7, 1234, 0)


def test_every_kind_of_creation_is_a_creation():
    container = string("/c") + buffer(None) + ACL + struct.pack(">i", 1)
    ttl = string("/t") + buffer(b"x") + ACL + struct.pack(">iq", 1, 60_000)

    changed = changes(
        transaction(1, CREATE2, create_body("/b", None)),
        transaction(2, CREATE_CONTAINER, container),
        transaction(3, CREATE_TTL, ttl),
    )

    assert told(changed) == [
        ("create", "/b", None, 0),
        ("create", "/c", None, 0),
        ("create", "/t", b"x", 0),
    ]


def test_a_digest_behind_the_body_changes_nothing():
    digest = struct.pack(">iq", 2, 1 << 60)

    changed = changes(
        transaction(1, CREATE, create_body("/a", b"one") + digest),
        transaction(2, SET_DATA, set_body("/a", b"two", 1) + digest),
    )

    assert told(changed) == [("create", "/a", b"one", 0), ("set", "/a", b"two", 1)]


def test_the_end_of_a_session_deletes_its_ephemerals_in_the_order_of_their_creation():
    changed = changes(
        transaction(1, CREATE, create_body("/z", b"", ephemeral=True), session=7),
        transaction(2, CREATE, create_body("/a", b"", ephemeral=True), session=7),
        transaction(3, CREATE, create_body("/other", b"", ephemeral=True), session=8),
        transaction(4, CREATE, create_body("/kept", b""), session=7),
        transaction(5, DELETE, string("/a"), session=7),
        transaction(6, CREATE, create_body("/b", b"", ephemeral=True), session=7),
        transaction(7, CLOSE_SESSION, b"", session=7),
    )

    assert [(each.path, each.ephemeral_owner) for each in changed if each.zxid == 7] == [
        ("/z", 7),
        ("/b", 7),
    ]


def test_a_session_that_names_its_paths_deletes_each_once():
    named = struct.pack(">i", 2) + string("/a") + string("/made-before-the-log")

    changed = changes(
        transaction(1, CREATE, create_body("/a", b"", ephemeral=True), session=7),
        transaction(2, CLOSE_SESSION, named, session=7),
    )

    assert [each.path for each in changed] == ["/a", "/a", "/made-before-the-log"]


def test_a_session_that_real_zookeeper_closed_is_read():
    session = 0x1A1FD08775E0002

    changed = changes(
        transaction(1, CREATE, create_body("/brokers/ids/1", b"", ephemeral=True), session=session),
        REAL_CLOSE_SESSION,
    )

    assert (changed[1].operation, changed[1].path, changed[1].zxid) == (
        "delete",
        "/brokers/ids/1",
        0x4B,
    )


def test_the_parts_of_a_multi_share_its_zxid():
    parts = [
        (CHECK, string("/epoch") + struct.pack(">i", 3)),
        (CREATE, create_body("/controller", b"1", ephemeral=True)),
        (SET_DATA, set_body("/epoch", b"4", 4)),
    ]

    changed = changes(transaction(9, MULTI, multi_body(parts), session=5))

    assert told(changed) == [("create", "/controller", b"1", 0), ("set", "/epoch", b"4", 4)]
    assert {each.zxid for each in changed} == {9}
    assert changed[0].ephemeral_owner == 5


def test_a_multi_that_failed_changes_nothing():
    parts = [(ERROR, struct.pack(">i", 0)), (ERROR, struct.pack(">i", -101))]

    assert changes(transaction(9, MULTI, multi_body(parts))) == []


def test_sessions_errors_and_permissions_change_no_znode():
    changed = changes(
        transaction(1, CREATE_SESSION, struct.pack(">i", 6000)),
        transaction(2, ERROR, struct.pack(">i", -110)),
        transaction(3, SET_ACL, string("/a") + ACL + struct.pack(">i", 1)),
    )

    assert changed == []


def test_preallocated_zeros_end_the_log():
    content = transaction_log(transaction(1, CREATE, create_body("/a", b""))) + bytes(4096)

    assert len(read_ensemble([[("log.1", content)]])) == 1


def test_a_member_that_got_a_snapshot_lacks_transactions_and_another_one_is_read():
    made = [transaction(zxid, CREATE, create_body(f"/{zxid}", b"")) for zxid in (1, 2, 3)]
    members = [[made[0], made[2]], made, made[:2]]

    read = read_ensemble([[("log.1", transaction_log(*each))] for each in members])
    assert [each.path for each in read] == ["/1", "/2", "/3"]


def test_a_torn_tail_ends_the_log_wherever_it_is_cut():
    first = transaction(1, CREATE, create_body("/a", b"one"))
    second = transaction(2, CREATE, create_body("/b", b"two"))
    whole = transaction_log(first, second)

    for size in range(len(whole) - len(second), len(whole)):
        for padding in (b"", bytes(64)):
            cut = whole[:size] + padding
            if padding and size == len(whole) - 1:
                continue  # Only the end byte is missing: the next test.
            changes_read = list(read_ensemble([[("log.1", cut)]]))
            assert [each.path for each in changes_read] == ["/a"], size


def test_a_record_without_its_end_byte_ends_the_log():
    content = transaction_log(transaction(1, CREATE, create_body("/a", b"one")))[:-1] + bytes(64)

    assert list(read_ensemble([[("log.1", content)]])) == []


def test_a_header_that_was_not_written_whole_is_an_empty_log():
    assert list(read_ensemble([[("log.1", b""), ("log.2", b"ZKLG\0\0\0\x02")]])) == []


def test_a_wrong_checksum_names_file_and_position():
    first = transaction(1, CREATE, create_body("/a", b"one"))
    content = bytearray(transaction_log(first, transaction(2, CREATE, create_body("/b", b"two"))))
    content[-10] ^= 1

    with pytest.raises(ZooKeeperLogError, match=f"log.1, position {16 + len(first)}: the checksum"):
        list(read_ensemble([[("log.1", bytes(content))]]))


def test_a_wrong_length_in_the_middle_is_damage_and_no_torn_tail():
    first = transaction(1, CREATE, create_body("/a", b"one"))
    content = bytearray(transaction_log(first, transaction(2, CREATE, create_body("/b", b"two"))))
    content[16 + 11] -= 1

    with pytest.raises(
        ZooKeeperLogError, match=r"position 16: a record of .* without its end byte"
    ):
        list(read_ensemble([[("log.1", bytes(content))]]))


def test_another_file_is_refused():
    with pytest.raises(ZooKeeperLogError, match="is no ZooKeeper transaction log"):
        list(read_ensemble([[("snapshot.0", b"ZKSN" + bytes(20))]]))


def test_an_unknown_transaction_is_refused_with_its_zxid():
    with pytest.raises(ZooKeeperLogError, match="position 16: transaction 0x5 of type 99"):
        changes(transaction(5, 99, string("/a")))


def test_ephemerals_are_known_from_one_file_to_the_next():
    first = transaction_log(transaction(1, CREATE, create_body("/a", b"", ephemeral=True)))
    second = transaction_log(transaction(2, CLOSE_SESSION, b""))

    files = [("log.1", first), ("log.2", second)]
    changes_read = list(read_ensemble([files]))

    assert told(changes_read)[1] == ("delete", "/a", None, -1)


def test_of_an_ensemble_the_member_that_saw_the_most_is_read():
    first = transaction_log(transaction(1, CREATE, create_body("/a", b"")))
    second = transaction_log(transaction(2, SET_DATA, set_body("/a", b"later", 1)))
    behind, ahead = [("log.1", first)], [("log.1", first), ("log.2", second)]

    for members in ([behind, ahead], [ahead, behind]):
        assert [change.zxid for change in read_ensemble(members)] == [1, 2]
    assert read_ensemble([]) == ()
    assert read_ensemble([[]]) == ()
