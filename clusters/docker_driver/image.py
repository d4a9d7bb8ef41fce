"""The image that containers run in: found, or pulled, or a clear answer what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kchaos.clusters.docker_driver.engine import speaking
from kchaos.clusters.errors import MachineError
from kchaos.clusters.system.interrupts import interruptible

if TYPE_CHECKING:
    from docker import APIClient

_PULL_TIMEOUT_S = 900
MAKE_IT = "python -m kchaos.clusters.docker_driver.base_image"


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
    """Return once the engine has the image, pulling it if it must; raise MachineError.

    A remembered Ctrl-C is raised here; the engine may go on pulling.
    """
    from kchaos.clusters.docker_driver.deadlines import within

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

    def pull() -> None:
        with speaking(f"the image {image} cannot be pulled"):
            raise_refusal(within(_PULL_TIMEOUT_S, api.pull(image, stream=True, decode=True)))

    try:
        interruptible(pull)
    except MachineError as error:
        raise MachineError(f"{error}; or {make}") from error


def raise_refusal(answer: Iterable[Mapping[str, Any]]) -> None:
    """Read an answer to its end; raise the SDK's APIError for an error inside it.

    The engine begins to answer before it knows whether it will succeed.
    """
    from docker.errors import APIError

    for line in answer:
        if "error" in line:
            raise APIError("refused", explanation=str(line["error"]))
