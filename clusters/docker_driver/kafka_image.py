"""A Kafka that an image brings along, official or custom: its jars, its Java, its file system."""

from __future__ import annotations

import os
import re
import secrets
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kchaos.checkers.formats.metadata_records import MetadataRecordError, definitions_in_jar
from kchaos.clusters.docker_driver.engine import connect, speaking
from kchaos.clusters.docker_driver.image import ensure_image
from kchaos.clusters.docker_driver.leftovers import remove_run
from kchaos.clusters.docker_driver.owner import labels_of
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.kafka.distribution import IN_IMAGE, Distribution
from kchaos.clusters.releases import release_of

if TYPE_CHECKING:
    from docker import APIClient

# Where images keep Kafka's jars: Apache's, those that follow it, and Confluent's.
_PLACES = ("/opt/kafka/libs", "/opt/bitnami/kafka/libs", "/kafka/libs", "/usr/share/java/kafka")
_KAFKA_JAR = re.compile(r".*/kafka_2\.\d+-(\d[\w.\-]*)\.jar")
_METADATA_JAR = re.compile(r".*/kafka-metadata-\d[\w.\-]*\.jar")
_NO_BROKER = ("-sources", "-javadoc", "-scaladoc", "-test", "-test-sources", "-node-docs")
# Confluent counts its own versions, in the names of its jars since 5.4: 5.4 is Kafka 2.4, 6.0 is
# 2.6, 7.0 is 3.0, 8.0 is 4.0. Before, it marked Kafka's.
_CONFLUENT = re.compile(r"(\d)\.(\d+)\.\d+-ccs")
_MARKED = re.compile(r"(.*)-cp\d+")
_CONFLUENT_LINES = {"5": ("2", 0), "6": ("2", 6), "7": ("3", 0), "8": ("4", 0)}
_LOOK_TIMEOUT_S = 120
# What was found, by name and image id: an image does not change, and its jars take time to read.
_found: dict[tuple[str, str], Distribution] = {}
_SPOOL_BYTES = 16 << 20


def find_in_image(kafka: str, *, offline: bool, say: Callable[[str], None]) -> Distribution:
    """Return the Kafka called ``image:NAME``, pulling the image if needed.

    Raises ReleaseError and MachineError.
    """
    image = kafka.removeprefix(IN_IMAGE)
    if not image:
        raise ReleaseError(f"{kafka} names no image: use {IN_IMAGE}NAME, as in image:apache/kafka")
    api = connect()
    try:
        ensure_image(api, image, offline=offline, say=say)
        with speaking(f"the image {image} cannot be looked into"):
            image_id = str(api.inspect_image(image)["Id"])
            if (image, image_id) not in _found:
                _found[image, image_id] = _look_into(api, image)
        return _found[image, image_id]
    finally:
        api.close()


def _look_into(api: APIClient, image: str) -> Distribution:
    """Return the Kafka in an image that the engine has; nothing of the image is run for that.

    Raises ReleaseError when it has none, or a release that is not known.
    """
    from docker.errors import NotFound

    from kchaos.clusters.docker_driver.deadlines import within

    run = f"kchaos-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        made = api.create_container(image, command=["true"], labels=labels_of(run))["Id"]
        for place in _PLACES:
            try:
                chunks, _ = api.get_archive(made, place)
            except NotFound:
                continue
            with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
                for chunk in within(_LOOK_TIMEOUT_S, chunks):
                    file.write(chunk)
                file.seek(0)
                version = _version(file)
                file.seek(0)
                definitions = _definitions(file)
            if version:
                return Distribution(
                    release=release_of(version).text,
                    class_path=(Path(place) / "*",),
                    source=f"{IN_IMAGE}{image}",
                    definitions=definitions,
                )
    finally:
        remove_run(api, run)
    raise ReleaseError(
        f"the image {image} has no kafka_2.1x-VERSION.jar in {', '.join(_PLACES)}: "
        "is it a Kafka image?"
    )


def _version(file: IO[bytes]) -> str:
    """Return the version that the server's jar is named after, empty without one."""
    with tarfile.open(fileobj=file) as tar:
        matches = [_KAFKA_JAR.fullmatch(name) for name in tar.getnames()]
    versions = [match[1] for match in matches if match and not match[1].endswith(_NO_BROKER)]
    return kafka_version(versions[0]) if versions else ""


def _definitions(file: IO[bytes]) -> dict[str, bytes]:
    """Return what metadata records consist of; nothing before KRaft.

    Raises ReleaseError for a broken jar.
    """
    with tarfile.open(fileobj=file) as tar:
        for member in tar:
            jar = tar.extractfile(member) if _METADATA_JAR.fullmatch(member.name) else None
            if jar is None:
                continue
            try:
                return definitions_in_jar(jar)
            except MetadataRecordError as error:
                raise ReleaseError(f"{member.name} of the image: {error}") from error
    return {}


def kafka_version(version: str) -> str:
    """Return the Kafka that a jar's version stands for.

    Which patch release one of Confluent's has in it, its name does not tell: it counts as the
    last known one of its line.
    """
    marked = _MARKED.fullmatch(version)
    if marked is not None:
        return marked[1]
    own = _CONFLUENT.fullmatch(version)
    if own is None or own[1] not in _CONFLUENT_LINES:
        return version
    major, first = _CONFLUENT_LINES[own[1]]
    of_line = release_of(f"{major}.{first + int(own[2])}.0")
    return of_line.line.known[-1] if of_line.line.known else of_line.text
