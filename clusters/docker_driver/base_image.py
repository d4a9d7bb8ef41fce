"""Makes a base image without any image registry: a shell, glibc and zlib of Debian, imported.

    python -m kchaos.clusters.docker_driver.base_image [IMAGE]

Does nothing when the engine has the image. Needs mmdebstrap and a Debian mirror.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kchaos.clusters.docker_driver.engine import connect, speaking
from kchaos.clusters.docker_driver.image import ensure_image, has_image, raise_refusal
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.errors import MachineError

if TYPE_CHECKING:
    from docker import APIClient

_SUITE = "bookworm"
# Unpacked and not configured, so it has no package manager. All essential packages would take
# three times as long, and a JVM needs none of the others.
_PACKAGES = ("base-files", "coreutils", "dash", "libc-bin", "zlib1g")
_MAKE_TIMEOUT_S = 900
_IMPORT_TIMEOUT_S = 300
_CLEAN_UP_TIMEOUT_S = 60


def make_base_image(image: str) -> None:
    """Make the image and tag it so; raise MachineError when a tool or the mirror is missing."""
    from docker.utils import parse_repository_tag

    if shutil.which("mmdebstrap") is None:
        raise MachineError(
            f"the image {image} cannot be made: mmdebstrap is missing; apt-get install mmdebstrap"
        )
    with tempfile.TemporaryDirectory(prefix="kchaos-image-") as folder:
        tar = Path(folder) / "base.tar"
        _make_tar(image, tar)
        api = connect(timeout_s=_IMPORT_TIMEOUT_S)
        with speaking(f"the image {image} cannot be imported"):
            name, tag = parse_repository_tag(image)
            answer = api.import_image_from_file(str(tar), repository=name, tag=tag or "latest")
            raise_refusal(map(json.loads, answer.splitlines()))
        api.close()


def _make_tar(image: str, tar: Path) -> None:
    print(f"making {image} with mmdebstrap, which takes up to a minute", file=sys.stderr)
    command = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={','.join(_PACKAGES)}"]
    command += [_SUITE, str(tar)]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as making:
        try:
            _, written = making.communicate(timeout=_MAKE_TIMEOUT_S)
            said = written.strip().splitlines() or ["it printed nothing"]
            failed = said[-1] if making.returncode != 0 else ""
        except subprocess.TimeoutExpired:
            failed = f"it was not done after {_MAKE_TIMEOUT_S} s"
        finally:
            if making.poll() is None:
                # It removes what it has made so far, if it is asked and not killed.
                making.terminate()
                try:
                    making.wait(_CLEAN_UP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    making.kill()
    if failed:
        raise MachineError(
            f"mmdebstrap could not make the image {image}: {failed}. Check the free space, that "
            "apt-get update works and, if this is not Debian, that debian-archive-keyring is there"
        )


def ensure_base_image(api: APIClient, image: str) -> str:
    """Return how the engine came to have the image: it was there, was pulled, or was made."""
    if has_image(api, image):
        return "is there"
    try:
        ensure_image(api, image, say=lambda _text: None)
    except MachineError:
        make_base_image(image)
        return "was made"
    return "was pulled"


def main(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print(__doc__)
        return 0 if arguments in (["-h"], ["--help"]) else 64
    image = arguments[0] if arguments else base_image()
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        print(f"{image} {ensure_base_image(connect(), image)}")
    except (MachineError, OSError) as error:
        print(f"kchaos: {error}", file=sys.stderr)
        return 69
    except KeyboardInterrupt:
        print("kchaos: interrupted; nothing was left behind", file=sys.stderr)
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
