from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.engine_stand_in import Engine

if TYPE_CHECKING:
    from docker import APIClient


@pytest.fixture(scope="session")
def engine(docker_base: None) -> Iterator[APIClient]:
    """The engine, with the base image."""
    from kchaos.clusters.docker_driver.engine import connect

    with contextlib.closing(connect()) as api:
        yield api


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """A stand-in at the address where the engine is expected."""
    path = tmp_path / "engine.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
    monkeypatch.delenv("DOCKER_API_VERSION", raising=False)
    engine = Engine(path)
    serving = threading.Thread(target=engine.serve_forever, args=[0.05])
    serving.start()
    yield engine
    engine.closing.set()
    engine.shutdown()
    serving.join()
    engine.server_close()
