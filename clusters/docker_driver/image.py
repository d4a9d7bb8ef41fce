"""The image that containers run in: found, or pulled, or a clear answer what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from clusters.docker_driver.engine import CALL_TIMEOUT_S, speaking
from clusters.errors import MachineError

if TYPE_CHECKING:
    from docker import APIClient

_PULL_TIMEOUT_S = 300
MAKE_IT = "python -m clusters.docker_driver.base_image"


def has_image(api: APIClient, image: str) -> bool:
    """Return whether the engine has the image."""
    from docker.errors import ImageNotFound

    with speaking(f"the engine was asked for the image {image}"):
        try:
            api.inspect_image(image)
        except ImageNotFound:
            return False
    return True


def ensure_image(
    api: APIClient, image: str, *, offline: bool = False, say: Callable[[str], None]
) -> None:
    """Return once the engine has the image, pulling it if it must; raise MachineError."""
    if has_image(api, image):
        return
    make = (
        f"make a base image without a registry with `{MAKE_IT} {image}`, or name another one "
        "in KCHAOS_DOCKER_IMAGE"
    )
    if offline:
        raise MachineError(
            f"the engine has no image {image} and --offline forbids pulling it; {make}"
        )
    say(f"pulling the image {image}")
    name, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "")
    api.timeout = _PULL_TIMEOUT_S
    try:
        with speaking(f"the image {image} cannot be pulled"):
            api.pull(name, tag=tag or "latest")
    except MachineError as error:
        raise MachineError(f"{str(error).rpartition(';')[0]}; {make}") from error
    finally:
        api.timeout = CALL_TIMEOUT_S
    if not has_image(api, image):
        raise MachineError(f"the image {image} was pulled and is not there; {make}")
