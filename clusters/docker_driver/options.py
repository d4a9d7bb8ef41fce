"""Options of containers, read from the environment."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from kchaos.clusters.errors import MachineError
from kchaos.clusters.spec import ClusterSpec

T = TypeVar("T")

DEFAULT_IMAGE = "debian:bookworm-slim"
IMAGE_VARIABLE = "KCHAOS_DOCKER_IMAGE"
MEMORY_VARIABLE, CPUS_VARIABLE = "KCHAOS_DOCKER_MEMORY_MIB", "KCHAOS_DOCKER_CPUS"


def base_image(environment: Mapping[str, str] = os.environ) -> str:
    """Return KCHAOS_DOCKER_IMAGE, or the default: an image with glibc and a shell.

    Its Kafka and Java, if it has any, are not used. (A broker whose ``kafka`` is ``image:NAME``
    runs in that image and uses both.)
    """
    return environment.get(IMAGE_VARIABLE) or DEFAULT_IMAGE


def with_limits(spec: ClusterSpec, environment: Mapping[str, str] = os.environ) -> ClusterSpec:
    """Return the spec, with KCHAOS_DOCKER_MEMORY_MIB and KCHAOS_DOCKER_CPUS where it has no limit.

    Raises MachineError for a limit that is no positive number.
    """
    memory_mib = _positive(environment, MEMORY_VARIABLE, int)
    cpus = _positive(environment, CPUS_VARIABLE, float)
    return replace(
        spec,
        broker_memory_mib=spec.broker_memory_mib or memory_mib,
        broker_cpus=spec.broker_cpus or cpus,
    )


def _positive(environment: Mapping[str, str], name: str, read: Callable[[str], T]) -> T | None:
    text = environment.get(name)
    if not text:
        return None
    try:
        value = read(text)
    except ValueError:
        value = read("0")
    if not 0 < value < math.inf:  # type: ignore[operator]
        kind = "whole number" if read is int else "number"
        raise MachineError(f"{name} is {text!r}; it must be a positive {kind}")
    return value
