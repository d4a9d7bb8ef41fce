"""The layouts, field by field, beside the message definitions that each release carries."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.links.client_layouts import CLIENT_LAYOUTS
from kchaos.clusters.links.layouts import LAYOUTS
from kchaos.clusters.links.wire import Field
from kchaos.clusters.releases import KNOWN_RELEASES, release_of

_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*')
_FOLDER = "common/message/"
_SINCE = (2, 8)
_NEWEST = 1 << 15
_ALSO_CALLED = {
    "directory": {"id"},
    "error_code": {"partition_error_code"},
    "forgotten_topics": {"forgotten_topics_data"},
    "host": {"host_name", "v0_host"},
    "id": {"broker_id"},
    "is_kraft_controller": {"is_k_raft_controller"},
    "leader": {"leader_id"},
    "offsets": {"old_style_offsets"},
    "partition": {"index", "partition_id", "partition_index"},
    "partition_epoch": {"zk_version"},
    "partitions": {
        "partition_data",
        "results",
        "results_by_partition",
        "partition_errors",
        "partition_id",
        "partition_indexes",
        "partition_responses",
        "partition_result",
        "partition_states",
    },
    "port": {"v0_port"},
    "records": {"record_set"},
    "replica_directory_id": {"candidate_directory_id"},
    "replica_epoch": {"candidate_epoch"},
    "replica_id": {"candidate_id"},
    "topic": {"name", "topic_name"},
    "topics": {
        "replica_election_results",
        "responses",
        "results",
        "results_by_topic_v3_and_below",
        "topic_data",
        "topic_partitions",
        "topic_states",
    },
    "ungrouped_partitions": {
        "partition_errors",
        "remaining_partitions",
        "ungrouped_partition_states",
    },
}
"""What Kafka calls a field that a layout calls otherwise, in some message or release."""
_CLIENTS_STOP_AT = {ApiKey.ADD_PARTITIONS_TO_TXN: 3}
"""The last version of what only brokers send in later ones."""


class Shape(NamedTuple):
    """One field in one version: its tag is None in its place among the others."""

    name: str
    type: str
    is_array: bool
    tag: int | None
    inside: tuple[Shape, ...]


def versions(text: str) -> tuple[int, int]:
    if text == "none":
        return (_NEWEST, -1)
    first, _, last = text.rstrip("+").partition("-")
    return int(first), _NEWEST if text.endswith("+") else int(last or first)


def definitions_in(jar: Path) -> dict[str, dict[str, Any]]:
    with zipfile.ZipFile(jar) as opened:
        texts = {
            name.removeprefix(_FOLDER): opened.read(name).decode()
            for name in opened.namelist()
            if name.startswith(_FOLDER) and name.endswith(".json")
        }
    # One file of 2.8 goes on behind its end; Kafka's own reader stops there too.
    decode = json.JSONDecoder().raw_decode
    return {name: decode(_COMMENT.sub(r"\1", text).strip())[0] for name, text in texts.items()}


def defined(
    fields: list[dict[str, Any]], structs: dict[str, Any], version: int
) -> tuple[Shape, ...]:
    """The fields of one version as the definition has them."""
    shapes = []
    for field in fields:
        first, last = versions(field["versions"])
        if not first <= version <= last:
            continue
        kind = field["type"].removeprefix("[]")
        inside = field.get("fields") or structs.get(kind)
        is_tagged = "tag" in field and version >= versions(field["taggedVersions"])[0]
        shapes.append(
            Shape(
                name=re.sub(r"(?<!^)(?=[A-Z])", "_", field["name"]).lower(),
                type="struct" if inside else kind,
                is_array=field["type"].startswith("[]"),
                tag=int(field["tag"]) if is_tagged else None,
                inside=defined(inside, structs, version) if inside else (),
            )
        )
    return tuple(shapes)


def laid_out(fields: tuple[Field, ...], version: int) -> tuple[Shape, ...]:
    """The fields of one version as our layout has them."""
    return tuple(
        Shape(
            name=field.name,
            type="struct" if field.struct else field.type,
            is_array=field.array,
            tag=field.tag,
            inside=laid_out(field.struct, version),
        )
        for field in fields
        if field.since <= version <= field.until
    )


def differences(ours: tuple[Shape, ...], wanted: tuple[Shape, ...], at: str) -> list[str]:
    """Where a layout would read something else; a tag that it does not name is passed over."""
    tagged = {each.tag: each for each in wanted if each.tag is not None}
    in_place = [each for each in wanted if each.tag is None]
    pairs = list(zip([own for own in ours if own.tag is None], in_place, strict=False))
    pairs += [(own, tagged[own.tag]) for own in ours if own.tag in tagged]
    chosen = [f"{at}: {own}" for own in ours if own.tag is not None and own.tag not in tagged]
    if len(in_place) != len([own for own in ours if own.tag is None]):
        chosen.append(f"{at}: {[each.name for each in ours]} for {[each.name for each in wanted]}")
    for mine, theirs in pairs:
        # AddPartitionsToTxn has another shape for brokers from version 4 on.
        called = theirs.name.removeprefix("v3_and_below_")
        names = {mine.name} | _ALSO_CALLED.get(mine.name, set())
        if called not in names or mine[1:4] != theirs[1:4]:
            chosen.append(f"{at}: {mine[:4]} for {theirs[:4]}")
        chosen += differences(mine.inside, theirs.inside, f"{at}.{mine.name}")
    return chosen


@pytest.mark.cluster
@pytest.mark.parametrize(
    "release", [release for release in KNOWN_RELEASES if release_of(release).number >= _SINCE]
)
def test_each_layout_has_the_fields_that_the_release_s_own_definition_has(release: str):
    (jar,) = (
        each for each in resolve(release).class_path if each.name.startswith("kafka-clients-")
    )
    definitions = definitions_in(jar)
    collected: list[str] = []
    count = 0
    for api_key, layout in {**LAYOUTS, **CLIENT_LAYOUTS}.items():
        for side, fields in (("Request", layout.request), ("Response", layout.response)):
            name = f"{ApiKey(api_key).spelled}{side}"
            if f"{name}.json" not in definitions:
                continue  # The API is younger than this release, or gone, or had another name.
            definition = definitions[f"{name}.json"]
            structs = {each["name"]: each["fields"] for each in definition.get("commonStructs", [])}
            first, last = versions(definition["validVersions"])
            flexible_since = versions(definition.get("flexibleVersions", "none"))[0]
            if api_key in _CLIENTS_STOP_AT:
                last = min(last, _CLIENTS_STOP_AT[ApiKey(api_key)])
            if definition["apiKey"] != api_key or last > layout.newest:
                collected.append(f"{name}: key {definition['apiKey']}, newest version {last}")
            for version in range(first, last + 1):
                count += 1
                if (version >= flexible_since) != (version >= layout.flexible_since):
                    collected.append(f"{name} v{version}: flexible or not")
                wanted = defined(definition["fields"], structs, version)
                collected += differences(laid_out(fields, version), wanted, f"{name} v{version}")
    assert collected == []
    assert count > 90
