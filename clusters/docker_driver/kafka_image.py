"""A Kafka that an image brings along, official or custom: its jars, its Java, its file system."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from clusters.distribution import IN_IMAGE, Distribution
from clusters.docker_driver.engine import connect, speaking
from clusters.docker_driver.image import ensure_image
from clusters.errors import ReleaseError
from clusters.releases import release_of

if TYPE_CHECKING:
    from docker import APIClient

# Where images keep Kafka's jars: Apache's, those that follow it, and Confluent's.
_PLACES = ("/opt/kafka/libs", "/opt/bitnami/kafka/libs", "/kafka/libs", "/usr/share/java/kafka")
_KAFKA_JAR = re.compile(r".*/kafka_2\.\d+-(\d[\w.\-]*?)(?:-ccs)?\.jar")
_SPOOL_BYTES = 16 << 20


def find_in_image(kafka: str, *, offline: bool, say: Callable[[str], None]) -> Distribution:
    """Return the Kafka called ``image:NAME``, pulling the image if needed.

    Raises ReleaseError and MachineError.
    """
    image = kafka.removeprefix(IN_IMAGE)
    api = connect()
    try:
        ensure_image(api, image, offline=offline, say=say)
        return _look_into(api, image)
    finally:
        api.close()


def _look_into(api: APIClient, image: str) -> Distribution:
    """Return the Kafka in an image that the engine has; nothing of the image is run for that.

    Raises ReleaseError when it has none, or a release that is not known.
    """
    from docker.errors import NotFound

    with speaking(f"the image {image} cannot be looked into"):
        made = api.create_container(image, command=["true"])["Id"]
        try:
            for place in _PLACES:
                try:
                    chunks, _ = api.get_archive(made, place)
                except NotFound:
                    continue
                with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as file:
                    for chunk in chunks:
                        file.write(chunk)
                    file.seek(0)
                    version = _version(file)
                if version:
                    return Distribution(
                        release=release_of(version).text,
                        class_path=(Path(place) / "*",),
                        source=f"{IN_IMAGE}{image}",
                    )
        finally:
            api.remove_container(made, v=True, force=True)
    raise ReleaseError(
        f"the image {image} has no kafka_2.1x-VERSION.jar in {', '.join(_PLACES)}: "
        "is it a Kafka image?"
    )


def _version(file: IO[bytes]) -> str:
    """Return the version that the server's jar is named after, empty without one."""
    with tarfile.open(fileobj=file) as tar:
        found = [_KAFKA_JAR.fullmatch(name) for name in tar.getnames()]
    return next((match[1] for match in found if match), "")
