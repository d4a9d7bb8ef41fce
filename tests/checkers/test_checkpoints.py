"""The text files beside the segments."""

from collections.abc import Callable

import pytest

from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.formats.checkpoints import (
    EpochEntry,
    PartitionMetadataFile,
    joined_offsets,
    parse_leader_epoch_checkpoint,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)


def test_leader_epochs_are_read_in_file_order():
    assert parse_leader_epoch_checkpoint("0\n2\n1 0\n2 11\n", file="f") == (
        EpochEntry(leader_epoch=1, start_offset=0),
        EpochEntry(leader_epoch=2, start_offset=11),
    )


def test_an_empty_checkpoint_has_no_entries():
    assert parse_leader_epoch_checkpoint("0\n0\n", file="f") == ()
    assert parse_offset_checkpoint("0\n0\n", file="f") == {}


def test_a_checkpoint_that_was_made_and_not_written_yet_has_no_entries():
    assert parse_leader_epoch_checkpoint("", file="f") == ()
    assert parse_offset_checkpoint("", file="f") == {}


def test_of_two_log_directories_that_one_says_an_offset_in_which_the_replica_lies():
    stale, own = {("t", 0): 3, ("u", 0): 1}, {("t", 0): 5}
    for directories in ([(stale, ["u-0"]), (own, ["t-0"])], [(own, ["t-0"]), (stale, ["u-0"])]):
        assert joined_offsets(directories) == {("t", 0): 5, ("u", 0): 1}
    # A replica that has moved is in the file of its new directory with the next checkpoint.
    assert joined_offsets([({}, ["t-0"]), (stale, [])]) == {("u", 0): 1}


def test_offsets_are_read_by_topic_and_partition():
    text = "0\n3\nt 0 17\nmy.topic-1 12 0\n__consumer_offsets 49 5\n"
    assert parse_offset_checkpoint(text, file="f") == {
        ("t", 0): 17,
        ("my.topic-1", 12): 0,
        ("__consumer_offsets", 49): 5,
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("\n", "line 2: the version or the count is missing"),
        ("0\n", "line 2: the version or the count is missing"),
        ("1\n0\n", "line 1: version 1 is not known"),
        ("x\n0\n", "line 1: the version 'x' is not a number"),
        ("0\n2\nt 0 1\n", "line 2: 2 entries are announced and 1 are there"),
        ("0\n1\nt 0 1\nt 1 1\n", "line 2: 1 entries are announced and 2 are there"),
        ("0\n1\nt 0\n", "line 3: 't 0' has 2 fields, not 3"),
        ("0\n2\nt 0 1\nt 0 1_0\n", "line 4: t-0 is there twice"),
        ("0\n1\nt 0 1_0\n", "line 3: the offset '1_0' is not a number"),
        ("0\n1\nt a 1\n", "line 3: the partition 'a' is not a number"),
        ("\x00\x00\n\x00\x00", "line 1"),
    ],
)
def test_a_broken_offset_checkpoint_is_refused_with_file_and_line(text: str, why: str):
    with pytest.raises(CheckpointError) as refused:
        parse_offset_checkpoint(text, file="dir/replication-offset-checkpoint")
    assert "dir/replication-offset-checkpoint, " in str(refused.value)
    assert why in str(refused.value)


def test_a_broken_leader_epoch_is_refused_with_its_line():
    with pytest.raises(CheckpointError, match="line 4: the start offset '1x' is not a number"):
        parse_leader_epoch_checkpoint("0\n2\n1 0\n2 1x\n", file="f")


def test_meta_properties_are_read_without_their_comments():
    text = "#\n#Mon Jan 01 00:00:00 UTC 2024\ncluster.id=a=b\nbroker.id=3\nversion=0\n"
    assert parse_meta_properties(text, file="f") == {
        "cluster.id": "a=b",
        "broker.id": "3",
        "version": "0",
    }


def test_partition_metadata_is_read():
    text = "version: 0\ntopic_id: 3b8ZlKvgTtGQJV1sVYgSxw\n"
    assert parse_partition_metadata(text, file="f") == PartitionMetadataFile(
        version=0, topic_id="3b8ZlKvgTtGQJV1sVYgSxw"
    )


@pytest.mark.parametrize(
    ("parse", "text", "why"),
    [
        (parse_meta_properties, "version=0\nbroker.id\n", "line 2: 'broker.id' is not name=value"),
        (parse_meta_properties, "broker.id=1\n", "f: no line gives the version"),
        (parse_meta_properties, "version=0\n", "f: neither broker.id nor node.id"),
        (parse_partition_metadata, "version: 0\n", "the line of topic_id is missing"),
        (parse_partition_metadata, "version: 0\ntopic_id:\n", "line 2"),
        (parse_partition_metadata, "version: x\ntopic_id: a\n", "line 1: the version 'x' is not"),
    ],
)
def test_broken_metadata_is_refused(parse: Callable[..., object], text: str, why: str):
    with pytest.raises(CheckpointError) as refused:
        parse(text, file="f")
    assert why in str(refused.value)
