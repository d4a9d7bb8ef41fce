"""Mounts of a container: its own folder, shared ones, read-only those that it runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.system.cache import cache_directory

if TYPE_CHECKING:
    from docker.types import Mount


def mounts_of(
    directory: Path,
    distribution: Distribution,
    java_of: Callable[[Distribution], Path],
    reads: Iterable[Path],
    *,
    shared: Iterable[Path] = (),
) -> list[Mount]:
    """Return the mounts of a JVM that works in a directory, each at the path that it has here.

    An image with a Kafka of its own needs nothing but the directory, and ``reads``: files that the
    JVM reads besides the distribution's. ``shared`` are folders that all JVMs write to.
    """
    read_only = list(reads)
    if not distribution.image:
        read_only += [java_of(distribution), *_folders(distribution)]
    read_only = without_nested(read_only)
    mounts = [_mount(path, read_only=True) for path in read_only]
    return [*mounts, _mount(directory), *map(_mount, shared)]


def _mount(path: Path, *, read_only: bool = False) -> Mount:
    """Mount a folder at its path; the engine is told where it really is.

    The way there may be by our link in a folder for everybody's temporary files, and the kernel
    does not let another user, the engine's for one, follow such a link.
    """
    from docker.types import Mount

    return Mount(str(path), os.path.realpath(path), type="bind", read_only=read_only)


def without_nested(folders: Iterable[Path]) -> list[Path]:
    """Return the folders that lie in none of the others, each once."""
    distinct = sorted(set(folders))
    return [f for f in distinct if not any(f != o and f.is_relative_to(o) for o in distinct)]


def _folders(distribution: Distribution) -> list[Path]:
    """Return the folders of the jars, and that of the class archives."""
    cache = cache_directory()
    maven = cache / "maven"
    jars = [maven if jar.is_relative_to(maven) else jar.parent for jar in distribution.class_path]
    return [folder for folder in (cache / "archives", *jars) if folder.is_dir()]
