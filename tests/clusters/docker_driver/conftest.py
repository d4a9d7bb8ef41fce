from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from docker import APIClient


@pytest.fixture(scope="session")
def engine() -> Iterator[APIClient]:
    """The engine, with the base image; that is made if it can neither be found nor pulled."""
    from clusters.docker_driver.base_image import ensure_base_image
    from clusters.docker_driver.engine import connect
    from clusters.docker_driver.options import base_image

    api = connect()
    ensure_base_image(api, base_image())
    yield api
    api.close()
