"""What can be chosen about containers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from clusters.errors import MachineError

T = TypeVar("T")

DEFAULT_IMAGE = "debian:bookworm-slim"


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerOptions:
    """How containers are made.

    ``image`` is any image with glibc and a shell: its Kafka and Java, if it has any, are not
    used. (A broker whose ``kafka`` is ``image:NAME`` runs in that image and uses both.)
    ``memory_mib`` and ``cpus`` limit each broker's container, None for no limit.
    """

    image: str = DEFAULT_IMAGE
    memory_mib: int | None = None
    cpus: float | None = None


def options_from(environment: Mapping[str, str] = os.environ) -> DockerOptions:
    """Return what KCHAOS_DOCKER_IMAGE, KCHAOS_DOCKER_MEMORY_MIB and KCHAOS_DOCKER_CPUS say.

    Raises MachineError for a limit that is no positive number.
    """
    return DockerOptions(
        image=environment.get("KCHAOS_DOCKER_IMAGE") or DEFAULT_IMAGE,
        memory_mib=_positive(environment, "KCHAOS_DOCKER_MEMORY_MIB", int),
        cpus=_positive(environment, "KCHAOS_DOCKER_CPUS", float),
    )


def _positive(environment: Mapping[str, str], name: str, read: Callable[[str], T]) -> T | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        value = read(text)
    except ValueError:
        value = read("0")
    if not value > 0:  # type: ignore[operator]
        raise MachineError(f"{name} is {text!r}; it must be a positive number")
    return value
