"""Places on an object store, s3://BUCKET/KEY: what lies there is read whole and never written over.

pyarrow asks the store. Endpoint, region and credentials are those of the usual environment
variables and files of AWS: AWS_ENDPOINT_URL for a store of one's own, AWS_REGION,
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import StoreError

SCHEME = "s3://"
MOST_BYTES = 1 << 30
"""So large an object is read at most; packs of runs have less than a megabyte, mostly."""
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REFUSED = ("ACCESS_DENIED", "INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH")
_REFUSED_TOKENS = ("INVALID_CLIENT_TOKEN_ID", "EXPIRED_TOKEN", "HTTP status 403")
_NO_ANSWER = ("NETWORK_CONNECTION", "REQUEST_TIMEOUT", "SERVICE_UNAVAILABLE")


@dataclass(frozen=True, slots=True)
class StoredPlace:
    """An object of a store, or the folder that all objects are in whose keys begin with it.

    Attributes:
        bucket: Its bucket, which must be there.
        key: Without slashes at its ends; "" for all of the bucket.
    """

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"{SCHEME}{self._path}"

    def __truediv__(self, name: str) -> "StoredPlace":
        """Return the place of that name in this folder."""
        return StoredPlace(self.bucket, f"{self.key}/{name}" if self.key else name)

    @property
    def name(self) -> str:
        """The last part of the key, or the bucket's name."""
        return self._path.rpartition("/")[2]

    def exists(self) -> bool:
        """Return whether the object exists.

        Raises:
            StoreError: The store cannot be asked.
        """
        with self._told():
            return bool(_filesystem().get_file_info(self._path).is_file)

    def size(self) -> int:
        """Return an object's size in bytes.

        Raises:
            StoreError: It is not there, or the store cannot be asked.
        """
        with self._told(), _filesystem().open_input_file(self._path) as opened:
            return int(opened.size())

    def objects(self) -> "list[StoredPlace]":
        """Return the objects in and below this folder, by name; none if it does not exist.

        Raises:
            StoreError: The store cannot be asked, or has no such bucket.
        """
        from pyarrow.fs import FileSelector

        with self._told():
            try:
                entries = _filesystem().get_file_info(FileSelector(self._path, recursive=True))
            except FileNotFoundError:
                # Of the folder: without its bucket that is another error.
                return []
        names = sorted(entry.path for entry in entries if entry.is_file)
        return [StoredPlace(*name.split("/", maxsplit=1)) for name in names]

    def read_bytes(self) -> bytes:
        """Return an object's content.

        Raises:
            StoreError: It is not there, is larger than `MOST_BYTES`, or breaks off.
        """
        with self._told(), _filesystem().open_input_file(self._path) as opened:
            size = opened.size()
            if size > MOST_BYTES:
                raise StoreError(f"{self} has {size} bytes: at most {MOST_BYTES} are read")
            content = bytes(opened.read())
        if len(content) != size:
            raise StoreError(f"{self} broke off: {len(content)} of its {size} bytes came")
        return content

    def write_new(self, content: bytes) -> None:
        """Create an object, whole or not at all.

        S3 has no lock: of two that make the same object at the same moment one may win.

        Raises:
            StoreError: Another object is there already, or the store refuses. One with the same
                content stays.
        """
        if self.exists():
            if self.read_bytes() != content:
                raise StoreError(
                    f"{self} exists with other content, and is never written over: name another "
                    "place"
                )
            return
        self.replace(content)

    def replace(self, content: bytes) -> None:
        """Replace an object, whole or not at all.

        Raises:
            StoreError: The store refuses.
        """
        with self._told():
            # Without a block: one that is left by an error would end the object where it is.
            stream = _filesystem().open_output_stream(self._path)
            stream.write(content)
            stream.close()

    @property
    def _path(self) -> str:
        return f"{self.bucket}/{self.key}" if self.key else self.bucket

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Reword the store's errors with the place and the remedy."""
        try:
            yield
        except FileNotFoundError as error:
            raise StoreError(f"{self} is not there") from error
        except OSError as error:
            raise StoreError(f"{self}: {_why(self.bucket, str(error))}") from error


Place = Path | StoredPlace
"""Where a run or a result lies: on this machine's disks, or on an object store."""


def files_in(folder: Place, suffix: str) -> Sequence[Place]:
    """Return a folder's files, or the objects in and below it, with this suffix, by name.

    Raises:
        StoreError: The store cannot be asked.
    """
    if isinstance(folder, StoredPlace):
        return [place for place in folder.objects() if place.name.endswith(suffix)]
    return sorted(folder.glob(f"*{suffix}"))


def replace(place: Place, content: bytes) -> None:
    """Replace a file or an object, whole or not at all.

    Raises:
        OSError: The disk refuses.
        StoreError: The store refuses.
    """
    if isinstance(place, StoredPlace):
        place.replace(content)
        return
    temporary = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.rename(place)
    finally:
        temporary.unlink(missing_ok=True)


def place_of(text: str) -> Place:
    """Return the place of a path or an address.

    Raises:
        ValueError: It begins like an address of an object store, and names no bucket.
    """
    return stored_place_of(text) if text.startswith(SCHEME) else Path(text)


def stored_place_of(text: str) -> StoredPlace:
    """Return the place on a store of an address.

    Raises:
        ValueError: It is none.
    """
    bucket, _, key = text.removeprefix(SCHEME).rstrip("/").partition("/")
    is_whole = text.startswith(SCHEME) and bucket and text.isprintable()
    if not is_whole or "" in (key or "-").split("/"):
        raise ValueError(f"{text!r} is no place such as s3://bucket/nights/monday")
    return StoredPlace(bucket, key)


def _filesystem() -> Any:
    """Return pyarrow's client of the store, for the current environment."""
    return _client(tuple((name, os.environ[name]) for name in sorted(os.environ) if _is_aws(name)))


def _is_aws(name: str) -> bool:
    return name.startswith("AWS_")


@functools.lru_cache(maxsize=4)
def _client(environment: tuple[tuple[str, str], ...]) -> Any:
    try:
        from pyarrow.fs import S3FileSystem
    except ImportError as error:
        raise StoreError(
            f"an object store needs {error.name}, which is not installed: pip install "
            "'kchaos[spark]'"
        ) from error
    named = dict(environment)
    # pyarrow asks its environment for credentials and the region, and not for the endpoint.
    endpoint = next((named[name] for name in _ENDPOINTS if named.get(name)), None)
    return S3FileSystem(endpoint_override=endpoint)


def _why(bucket: str, told: str) -> str:
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "AWS")
    if "NO_SUCH_BUCKET" in told:
        return f"the store ({endpoint}) has no bucket {bucket}: make it, or name another"
    if any(code in told for code in _NO_ANSWER):
        return (
            f"the store ({endpoint}) does not answer, or broke off; look at AWS_ENDPOINT_URL and "
            f"the network: {told}"
        )
    if any(code in told for code in (*_REFUSED, *_REFUSED_TOKENS)):
        has_any = any(map(os.environ.get, ("AWS_ACCESS_KEY_ID", "AWS_PROFILE")))
        what = "refuses these credentials" if has_any else "wants credentials, and none are set"
        return f"the store ({endpoint}) {what}: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; {told}"
    return told
