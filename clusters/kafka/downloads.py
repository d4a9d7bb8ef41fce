"""jgo's resolver with one session for all its requests, and with checksums that bind."""

import hashlib
from pathlib import Path
from typing import Any

import requests
from jgo.maven import PythonResolver
from requests.adapters import HTTPAdapter
from requests.exceptions import ChunkedEncodingError
from requests.exceptions import ConnectionError as RequestsConnectionError
from urllib3.exceptions import ReadTimeoutError
from urllib3.util import Retry

from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.pinned_jars import is_pinned

_TRIES = 3


class CheckedResolver(PythonResolver):
    """Resolves as jgo does and downloads by itself.

    jgo opens a connection for every one of some two hundred small files of a release, and only
    warns when a file's checksum is wrong; here connections are kept, and a wrong checksum is a
    MachineError. For a pinned jar none is fetched, since `maven.fetch` knows its digest.
    """

    def __init__(self) -> None:
        super().__init__()
        self._session = requests.Session()
        # A connection that is reset, or a server that is busy, is asked again.
        again = Retry(total=_TRIES, backoff_factor=1, status_forcelist=(502, 503, 504))
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, HTTPAdapter(max_retries=again))

    def download(self, artifact: Any) -> Path | None:
        """Fetch one file into the context's repository cache and return its path.

        Raises RuntimeError (as jgo does) when no repository has it, OSError when a repository
        cannot be asked, MachineError when the bytes are not what the repository says.
        """
        context = artifact.context
        for repository in context.remote_repos.values():
            prefix = artifact.component.path_prefix.as_posix()
            url = f"{repository.rstrip('/')}/{prefix}/{artifact.filename}"
            answer = self._get(url, context.timeout)
            if answer is None:
                continue
            if not is_pinned(artifact):
                self._check(url, answer, context.timeout)
            place = Path(artifact.cached_path)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(answer)
            return place
        raise RuntimeError(f"{artifact} is in none of {', '.join(context.remote_repos)}")

    def _get(self, url: str, timeout_s: float) -> bytes | None:
        for left in reversed(range(_TRIES)):
            try:
                answer = self._session.get(url, timeout=timeout_s)
                break
            except (ChunkedEncodingError, RequestsConnectionError) as error:
                # urllib3 tries nothing again once bytes have come.
                stopped = isinstance(error, ChunkedEncodingError) or isinstance(
                    error.args[0], ReadTimeoutError
                )
                if not left or not stopped:
                    raise
        if answer.status_code in (403, 404, 410):
            return None
        answer.raise_for_status()
        return bytes(answer.content)

    def _check(self, url: str, content: bytes, timeout_s: float) -> None:
        published = self._get(f"{url}.sha1", timeout_s)
        words = (published or b"").decode("ascii", "replace").split()
        digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
        if words and words[0].lower() != digest:
            raise MachineError(
                f"{url} has the SHA-1 {digest} and its repository says {words[0]}; "
                "try again, or look at the mirror"
            )
