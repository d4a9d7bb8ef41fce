"""Signatures of seals, by OpenSSH: whose key signed a run's manifest.

The manifest has the checksum of each file of evidence, so who signs it signs the run.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kchaos.checkers.errors import RunDirectoryError, SignatureError
from kchaos.checkers.run_directory import MANIFEST, SIGNATURE, RunDirectory

_NAMESPACE = "kchaos"
"""The purpose that a signature names (`ssh-keygen -n`): no other signature is one of a seal."""


def digest_of(run: RunDirectory) -> str:
    """Return the SHA-256 of a sealed run's manifest, in hexadecimal digits."""
    return hashlib.sha256((run.path / MANIFEST).read_bytes()).hexdigest()


def sign(run: RunDirectory, key: Path) -> None:
    """Sign the seal of a run; the signature is beside it.

    Args:
        run: The run, which is sealed.
        key: A private key of OpenSSH, or a public one whose private key an agent has.

    Raises:
        SignatureError: ssh-keygen is not there, or refuses.
    """
    (run.path / SIGNATURE).write_bytes(signature_of((run.path / MANIFEST).read_bytes(), key))


def signature_of(content: bytes, key: Path) -> bytes:
    """Return a signature of some bytes; see `sign`."""
    said = _ssh_keygen("sign", "-f", str(key), given=content)
    if said.returncode != 0:
        raise SignatureError(f"nothing can be signed with {key}: {_last(said)}")
    return said.stdout


def require_signature(run: RunDirectory, keys: Path) -> None:
    """Refuse a run whose seal none of these keys signed.

    Args:
        run: The run.
        keys: A file with public keys as in a `.pub` file, one a line.

    Raises:
        RunDirectoryError: The seal has no signature, or none of one of the keys.
        SignatureError: ssh-keygen is not there.
    """
    if not (run.path / SIGNATURE).is_file():
        raise RunDirectoryError(f"{run.path} has no signature: {SIGNATURE} is missing")
    lines = [line for line in keys.read_text().splitlines() if line.strip()]
    with tempfile.TemporaryDirectory(prefix="kchaos-keys-") as folder:
        allowed = Path(folder) / "allowed_signers"
        allowed.write_text("".join(f"{_NAMESPACE} {line}\n" for line in lines))
        arguments = ("-f", str(allowed), "-I", _NAMESPACE, "-s", str(run.path / SIGNATURE))
        said = _ssh_keygen("verify", *arguments, given=(run.path / MANIFEST).read_bytes())
    if said.returncode != 0:
        raise RunDirectoryError(f"{run.path} is not signed by a key of {keys}: {_last(said)}")


def _ssh_keygen(
    purpose: str, *arguments: str, given: bytes
) -> "subprocess.CompletedProcess[bytes]":
    command: Sequence[str] = ("ssh-keygen", "-Y", purpose, "-n", _NAMESPACE, *arguments)
    try:
        return subprocess.run(command, input=given, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise SignatureError("ssh-keygen is not installed: install OpenSSH's client") from error


def _last(said: "subprocess.CompletedProcess[bytes]") -> str:
    words = (said.stderr + said.stdout).decode(errors="replace").strip().splitlines()
    return words[-1] if words else f"ssh-keygen ended with code {said.returncode}"
