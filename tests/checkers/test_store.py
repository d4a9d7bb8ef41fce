"""Addresses of places on an object store; the store itself is in tests/harness."""

from pathlib import Path

import pytest

from kchaos.checkers.store import StoredPlace, place_of, stored_place_of


@pytest.mark.parametrize(
    ("text", "bucket", "key", "name"),
    [
        ("s3://nights", "nights", "", "nights"),
        ("s3://nights/", "nights", "", "nights"),
        ("s3://nights/2026/monday/", "nights", "2026/monday", "monday"),
        ("s3://nights/run 1.tar.xz", "nights", "run 1.tar.xz", "run 1.tar.xz"),
    ],
)
def test_an_address_names_a_bucket_and_a_key(text: str, bucket: str, key: str, name: str):
    place = place_of(text)
    assert place == StoredPlace(bucket, key)
    assert place.name == name
    assert place_of(str(place)) == place
    assert str(place / "b") == f"{text.rstrip('/')}/b"


def test_anything_else_is_a_path():
    assert place_of("s3/nights") == Path("s3/nights")


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///monday", "s3://nights//monday", "s3://nights/a\nb"]
)
def test_an_address_without_a_bucket_or_a_name_is_refused(text: str):
    with pytest.raises(ValueError, match="no place such as s3://bucket"):
        place_of(text)


def test_what_must_be_on_a_store_is_no_path():
    with pytest.raises(ValueError, match="no place such as s3://bucket"):
        stored_place_of("nights/monday")
