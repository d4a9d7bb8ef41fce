"""Records of the metadata log, decoded and encoded by definitions of the form of a release."""

import json
import zipfile
from collections.abc import Mapping

import pytest

from kchaos.checkers.formats.metadata_records import (
    MetadataRecord,
    MetadataRecordError,
    RecordDefinitions,
    definitions_in_jar,
)

FEATURE_LEVEL = """
// A comment before the definition, as Kafka's files begin with.
{ "apiKey": 12, "type": "metadata", "name": "FeatureLevelRecord",
  "validVersions": "0", "flexibleVersions": "0+", // and one behind a value
  "fields": [
    { "name": "Name", "type": "string", "versions": "0+", "about": "See https://kafka" },
    { "name": "FeatureLevel", "type": "int16", "versions": "0+" }
  ] }
"""


def tagged(tag: int | str, since: str = "0+", *, nullable: bool = False) -> Mapping[str, object]:
    fields = {"versions": since, "taggedVersions": since, "tag": tag}
    return fields | ({"nullableVersions": since} if nullable else {})


PARTITION_CHANGE = {
    "apiKey": 5,
    "type": "metadata",
    "name": "PartitionChangeRecord",
    "validVersions": "0-1",
    "flexibleVersions": "0+",
    "fields": [
        {"name": "PartitionId", "type": "int32", "versions": "0+", "default": "-1"},
        {"name": "TopicId", "type": "uuid", "versions": "0+"},
        {"name": "Isr", "type": "[]int32", "default": "null", **tagged("0", nullable=True)},
        {"name": "Leader", "type": "int32", "default": "-2", **tagged(1)},
        {
            "name": "Directories",
            "type": "[]uuid",
            "default": "null",
            **tagged(8, "1+", nullable=True),
        },
    ],
}
EVERYTHING = {
    "apiKey": 300,
    "type": "metadata",
    "name": "EverythingRecord",
    "validVersions": "0-2",
    "flexibleVersions": "0+",
    "fields": [
        {"name": "Flag", "type": "bool", "versions": "0+", "default": "true"},
        {"name": "Small", "type": "int8", "versions": "0+"},
        {"name": "Port", "type": "uint16", "versions": "0+"},
        {"name": "Large", "type": "int64", "versions": "0+", "default": "0x10"},
        {"name": "Rate", "type": "float64", "versions": "0+"},
        {"name": "Rack", "type": "string", "versions": "0+", "nullableVersions": "1+"},
        {"name": "Hmac", "type": "bytes", "versions": "0+"},
        {
            "name": "EndPoints",
            "type": "[]EndPoint",
            "versions": "0+",
            "fields": [
                {"name": "Host", "type": "string", "versions": "0+"},
                {"name": "Added", "type": "int32", "versions": "2+"},
            ],
        },
    ],
}
TOPIC_ID = "zj02F248SJuIp7M9eTZjQA"


def _texts(*definitions):
    texts = {d["name"] + ".json": json.dumps(d).encode() for d in definitions}
    return texts | {"FeatureLevelRecord.json": FEATURE_LEVEL.encode()}


DEFINITIONS = RecordDefinitions.from_texts(_texts(PARTITION_CHANGE, EVERYTHING))


def _change(version=0, **fields):
    return MetadataRecord(name="PartitionChangeRecord", version=version, fields=fields)


def test_a_record_that_a_controller_wrote_is_decoded():
    value = b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x1b" + b"\x00"

    record = DEFINITIONS.decode(value)

    assert record == MetadataRecord(
        name="FeatureLevelRecord",
        version=0,
        fields={"Name": "metadata.version", "FeatureLevel": 27},
    )
    assert DEFINITIONS.encode(record) == value


def test_definitions_are_known_by_the_order_of_their_numbers():
    assert DEFINITIONS.names == ("PartitionChangeRecord", "FeatureLevelRecord", "EverythingRecord")


def test_a_tagged_field_that_was_not_written_has_its_default():
    value = DEFINITIONS.encode(_change(PartitionId=3, TopicId=TOPIC_ID, Isr=[2, 1]))

    # Partition, topic id, one tagged field: number 0, nine bytes, two brokers.
    assert value[3 + 4 + 16 :] == b"\x01\x00\x09\x03" + b"\0\0\0\x02" + b"\0\0\0\x01"
    assert DEFINITIONS.decode(value).fields == {
        "PartitionId": 3,
        "TopicId": TOPIC_ID,
        "Isr": (2, 1),
        "Leader": -2,
    }


def test_a_leader_of_none_is_another_thing_than_no_change_of_the_leader():
    value = DEFINITIONS.encode(_change(PartitionId=0, TopicId=TOPIC_ID, Leader=-1))

    assert DEFINITIONS.decode(value).fields["Leader"] == -1
    assert DEFINITIONS.decode(value).fields["Isr"] is None


def test_an_empty_array_is_another_thing_than_none():
    value = DEFINITIONS.encode(_change(version=1, TopicId=TOPIC_ID, Isr=[], Directories=[TOPIC_ID]))

    assert DEFINITIONS.decode(value).fields["Isr"] == ()
    assert DEFINITIONS.decode(value).fields["Directories"] == (TOPIC_ID,)


def test_a_field_is_there_from_its_version_on():
    assert "Directories" not in DEFINITIONS.decode(DEFINITIONS.encode(_change())).fields
    assert "Directories" in DEFINITIONS.decode(DEFINITIONS.encode(_change(version=1))).fields


def test_a_tagged_field_that_no_definition_has_is_passed_over():
    value = DEFINITIONS.encode(_change(TopicId=TOPIC_ID))
    assert value.endswith(b"\x00")

    later = value[:-1] + b"\x01\x7f\x02\xaa\xbb"

    assert DEFINITIONS.decode(later) == DEFINITIONS.decode(value)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_each_type_of_field_comes_back_as_it_was_written(version):
    added = {"Added": 7} if version == 2 else {}
    fields = {
        "Flag": False,
        "Small": -7,
        "Port": 65535,
        "Large": -(1 << 62),
        "Rate": 0.5,
        "Rack": None if version else "r",
        "Hmac": b"\0\xff",
        "EndPoints": ({"Host": "höst"} | added, {"Host": ""} | added),
    }
    record = MetadataRecord(name="EverythingRecord", version=version, fields=fields)

    assert DEFINITIONS.decode(DEFINITIONS.encode(record)) == record


def test_a_field_that_is_not_given_has_its_default():
    record = MetadataRecord(name="EverythingRecord", version=0, fields={})

    fields = DEFINITIONS.decode(DEFINITIONS.encode(record)).fields

    assert (fields["Flag"], fields["Large"], fields["Rack"], fields["EndPoints"]) == (
        True,
        16,
        "",
        (),
    )


VALUE = DEFINITIONS.encode(_change(PartitionId=3, TopicId=TOPIC_ID, Isr=[2, 1], Leader=2))


def test_bytes_that_break_off_are_refused():
    assert len(VALUE) > 40
    for length in range(len(VALUE)):
        with pytest.raises(MetadataRecordError):
            DEFINITIONS.decode(VALUE[:length])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x02" + VALUE[1:], "frame version 2"),
        (b"\x01\x63" + VALUE[2:], "kind 99"),
        (b"\x01\x05\x02" + VALUE[3:], "knows 0 to 1"),
        (VALUE + b"\0", "1 bytes after its end"),
        (VALUE[:23] + b"\x01\x00\x06\x02\0\0\0\x02\xff", "Isr has 1 bytes after its end"),
        (VALUE[:23] + b"\x01\x00\x09\xff\xff\xff\xff\x0f\0\0\0\0", "elements are announced"),
        (b"\x01\xac\x02\x00" + bytes(1 + 1 + 2 + 8 + 8) + b"\0\0\0\0", "Rack is null"),
    ],
)
def test_a_value_of_another_form_is_refused_and_the_message_says_why(value, message):
    with pytest.raises(MetadataRecordError, match=message):
        DEFINITIONS.decode(value)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (MetadataRecord(name="StrangeRecord", version=0, fields={}), "StrangeRecord"),
        (_change(version=9), "version 9"),
        (_change(Directories=[]), "no field Directories"),
        (_change(Leader="many"), "cannot hold that"),
        (_change(Leader=1 << 40), "cannot hold that"),
    ],
)
def test_what_no_definition_has_is_not_encoded(record, message):
    with pytest.raises(MetadataRecordError, match=message):
        DEFINITIONS.encode(record)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({}, "no definition of any"),
        ({"A.json": b"{"}, "A.json"),
        ({"A.json": b"[]"}, "A.json"),
        (_texts(PARTITION_CHANGE | {"validVersions": 1}), "PartitionChangeRecord.json"),
        ({"A.json": b"[" * 100_000}, "A.json"),
        ({"A.json": b"\xff"}, "A.json"),
        (_texts(PARTITION_CHANGE | {"type": "request"}), "'request', not 'metadata'"),
        (_texts(PARTITION_CHANGE | {"flexibleVersions": "1+"}), "not all its versions"),
        (_texts(PARTITION_CHANGE | {"apiKey": 12}), "of kind 12, as does FeatureLevelRecord"),
        (
            _texts(
                PARTITION_CHANGE | {"fields": [{"name": "Odd", "type": "int128", "versions": "0+"}]}
            ),
            "int128",
        ),
    ],
)
def test_definitions_of_another_form_are_refused_by_their_file(texts, message):
    with pytest.raises(MetadataRecordError, match=message):
        RecordDefinitions.from_texts(texts)


def test_definitions_are_read_from_a_release_jar(tmp_path):
    jar = tmp_path / "kafka-metadata.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("common/metadata/FeatureLevelRecord.json", FEATURE_LEVEL)
        archive.writestr("common/message/Other.json", "{}")

    assert RecordDefinitions.from_texts(definitions_in_jar(jar)).names == ("FeatureLevelRecord",)


def test_a_jar_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "kafka-metadata.jar").write_bytes(b"no jar")

    with pytest.raises(MetadataRecordError, match="cannot be read"):
        definitions_in_jar(tmp_path / "kafka-metadata.jar")
