"""Source of Maven artifacts: jgo's resolver, under the user's Maven and jgo settings."""

import filecmp
import hashlib
import os
import shutil
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from kchaos.clusters.errors import MachineError, ReleaseError, UntrustedCertificate, is_untrusted
from kchaos.clusters.kafka.digests import read_sha256_of
from kchaos.clusters.kafka.pinned_jars import is_pinned, pinned, refuse_other_jars
from kchaos.clusters.system.cache import staging

LOCK_FILE = "jgo.lock.toml"
_DOWNLOADS_AT_ONCE = 6
_SEAL = "# the SHA-256 of all lines above: "


@dataclass(frozen=True, slots=True, kw_only=True)
class MavenSettings:
    """Those of the user's settings that are honoured.

    ``local_repositories`` are read and never written; ``remote_repositories`` (name, URL) are
    asked in order. Empty remote repositories leave jgo's own default, the central repository.
    """

    local_repositories: tuple[Path, ...]
    remote_repositories: tuple[tuple[str, str], ...]


def user_settings() -> MavenSettings:
    """Return the user's settings: jgo's (its file, M2_REPO) and Maven's settings.xml.

    Of settings.xml these are honoured: localRepository, a mirror of central (mirrorOf
    ``central``, ``*`` or ``external:*``, first match), and its server's user name and plain
    password. Proxies come from the environment. Other repositories and encrypted passwords
    are not read: jgo does not know settings.xml, so whatever is not named here has no effect.
    """
    from jgo.config import GlobalSettings

    settings = GlobalSettings.load()
    local = [Path(settings.repo_cache)]
    remote = list(settings.repositories.items())
    for file in (Path.home() / ".m2" / "settings.xml", _installation_settings()):
        if file is None or not file.is_file():
            continue
        root = _without_namespaces(file)
        named = root.findtext("localRepository")
        if named:
            home = named.replace("${user.home}", str(Path.home()))
            local.append(Path(os.path.expandvars(home)))
        mirror = _mirror_of_central(root)
        if mirror and not remote:
            remote.append(mirror)
    if remote and settings.repositories:
        from jgo.constants import MAVEN_CENTRAL_URL

        remote.append(("central", MAVEN_CENTRAL_URL))
    return MavenSettings(
        local_repositories=tuple(path for path in local if path.is_dir()),
        remote_repositories=tuple(remote),
    )


def _installation_settings() -> Path | None:
    home = os.environ.get("M2_HOME") or os.environ.get("MAVEN_HOME")
    return Path(home) / "conf" / "settings.xml" if home else None


def _without_namespaces(file: Path) -> ElementTree.Element:
    try:
        root = ElementTree.parse(file).getroot()
    except ElementTree.ParseError as error:
        raise MachineError(f"Maven's settings {file} cannot be read: {error}") from error
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _mirror_of_central(root: ElementTree.Element) -> tuple[str, str] | None:
    for mirror in root.findall("mirrors/mirror"):
        names = {name.strip() for name in (mirror.findtext("mirrorOf") or "").split(",")}
        url = (mirror.findtext("url") or "").strip().rstrip("/")
        if url and names & {"central", "*", "external:*"} and "!central" not in names:
            name = (mirror.findtext("id") or "mirror").strip()
            return name, _with_credentials(url, root, name)
    return None


def _with_credentials(url: str, root: ElementTree.Element, server_id: str) -> str:
    for server in root.findall("servers/server"):
        user, password = server.findtext("username"), server.findtext("password")
        if (server.findtext("id") or "").strip() == server_id and user and password:
            parts = urlsplit(url)
            host = f"{quote(user, safe='')}:{quote(password, safe='')}@{parts.netloc}"
            return urlunsplit(parts._replace(netloc=host))
    return url


def fetch(
    coordinates: tuple[str, ...], *, name: str, cache: Path, lock_file: Path, meant: str = ""
) -> None:
    """Resolve the coordinates, put every jar into ``cache/maven`` and write jgo's lock file.

    ``meant`` is what to propose when an artifact does not exist.

    Everything is fetched into a folder of its own first and each file is moved in one step,
    so an interrupted download leaves nothing that looks complete; the lock file is last.

    Raises ReleaseError when an artifact does not exist, MachineError when it cannot be fetched.
    """
    try:
        _fetch(coordinates, name, cache, lock_file)
    except RuntimeError as error:
        asked = f"did you mean {meant}" if meant else "is there such a release"
        raise ReleaseError(f"{name} cannot be had: {error}; {asked}?") from error
    except (OSError, ElementTree.ParseError) as error:
        if is_untrusted(error):
            raise UntrustedCertificate(name) from error
        raise MachineError(
            f"{name} could not be fetched: {error}; check the network, Maven's mirror in "
            "settings.xml and the free space"
        ) from error


def _fetch(coordinates: tuple[str, ...], name: str, cache: Path, lock_file: Path) -> None:
    from jgo.env import LockFile
    from jgo.maven import MavenContext

    from kchaos.clusters.kafka.downloads import CheckedResolver

    settings = user_settings()
    repository = cache / "maven"
    repository.mkdir(exist_ok=True)
    with staging(cache) as folder:
        context = MavenContext(
            resolver=CheckedResolver(),
            repo_cache=folder,
            local_repos=[repository, *settings.local_repositories],
            remote_repos=dict(settings.remote_repositories) or None,
            timeout=60,
        )
        dependencies = [context.create_dependency(coordinate) for coordinate in coordinates]
        for dependency in dependencies:
            dependency.scope = "compile"
        inputs, transitive = context.resolver.resolve(dependencies)
        wanted = [*inputs, *(d for d in transitive if d.scope in ("compile", "runtime"))]
        with ThreadPoolExecutor(_DOWNLOADS_AT_ONCE) as pool:
            list(pool.map(lambda dependency: _take(dependency.artifact, folder), wanted))
        _refuse_changed(folder)
        lock = LockFile.from_resolved_dependencies(wanted, environment_name=name)
        _move_all(folder, repository)
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = lock_file.with_suffix(".unfinished")
    lock.save(unfinished)
    text = unfinished.read_text(encoding="utf-8")
    unfinished.write_text(text + _seal_of(text), encoding="utf-8")
    unfinished.replace(lock_file)


def _take(artifact: Any, folder: Path) -> None:
    """Fetch a jar, check that it is whole, and copy it if it is from the user's repository.

    A pinned jar is whole if it has its digest, which `_refuse_changed` looks at. To unpack a jar
    takes seven times as long as that.
    """
    jar_path = Path(artifact.resolve())
    if not is_pinned(artifact):
        _refuse_damaged(jar_path)
    ours = artifact.cached_path
    if ours is not None and jar_path != ours and folder in Path(ours).parents:
        Path(ours).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(jar_path, ours)


def _refuse_damaged(jar_path: Path) -> None:
    try:
        with zipfile.ZipFile(jar_path) as jar:
            broken = jar.testzip()
    except zipfile.BadZipFile as error:
        raise MachineError(f"{jar_path} is no jar ({error}); delete it and try again") from error
    if broken is not None:
        raise MachineError(f"{jar_path} is damaged at {broken}; delete it and try again")


def _refuse_changed(folder: Path) -> None:
    """Refuse jars in a folder like a Maven repository that have other digests than those pinned."""
    jars = [jar.relative_to(folder).as_posix() for jar in folder.rglob("*.jar")]
    known = [place for place in jars if place in pinned()]
    refuse_other_jars({place: read_sha256_of(folder / place) for place in known})


def _move_all(folder: Path, repository: Path) -> None:
    """Move each file to its place, unless what is there is the same.

    Releases share jars. A class archive holds while the jars that it was made of keep the time at
    which they were written, and with a jar of one release those of all others would be lost.
    """
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        place = repository / file.relative_to(folder)
        if place.is_file() and filecmp.cmp(file, place, shallow=False):
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)


class BrokenLock(Exception):
    """A lock file is not the one that was written; the message says how that shows."""


def jars_of(lock_file: Path, cache: Path) -> dict[Path, str]:
    """Return the jars that a lock file names, in class-path order, with the SHA-256 of each.

    They are under ``cache/maven``; whether they are there is not looked at. Raises BrokenLock.
    """
    import tomllib

    try:
        text = lock_file.read_text(encoding="utf-8")
        before, mark, _ = text.rpartition(_SEAL)
        if not mark or text != before + _seal_of(before):
            raise BrokenLock(f"{lock_file} was not written to its end, or was changed")
        return {
            cache / "maven" / _place_of(entry): str(entry["sha256"])
            for entry in tomllib.loads(before)["dependencies"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BrokenLock(f"{lock_file} cannot be read: {error!r}") from error


def _place_of(entry: Mapping[str, str]) -> Path:
    group = Path(*entry["groupId"].split("."))
    artifact, version = entry["artifactId"], entry["version"]
    classifier = f"-{entry['classifier']}" if entry.get("classifier") else ""
    return group / artifact / version / f"{artifact}-{version}{classifier}.{entry['packaging']}"


def _seal_of(text: str) -> str:
    """Return the last line of a lock file, by which it is seen to be whole."""
    return f"{_SEAL}{hashlib.sha256(text.encode()).hexdigest()}\n"
