"""Unpacking archives of unknown origin, also on the Pythons that cannot do it safely themselves."""

import os
import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack into a folder; raise tarfile.TarError for what would end up elsewhere or is no file.

    From 3.11.4 on that is the filter "data" of Python's own.
    """
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    for member in archive:
        _refuse_if_outside(member, folder)
        # As the filter does it: no owner, no special bits, and always readable by us.
        member.uid, member.gid = os.getuid(), os.getgid()
        member.uname = member.gname = ""
        member.mode = (member.mode & 0o755) | 0o600 if member.isreg() else 0o755
        archive.extract(member, folder)


def _refuse_if_outside(member: tarfile.TarInfo, folder: Path) -> None:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.ExtractError(f"{member.name!r} is neither a file nor a folder nor a link")
    places = [member.name]
    if member.issym():
        places.append(os.path.join(os.path.dirname(member.name), member.linkname))
    elif member.islnk():
        places.append(member.linkname)
    inside = os.path.realpath(folder)
    for place in places:
        target = os.path.realpath(os.path.join(inside, place))
        if os.path.isabs(place) or os.path.commonpath([inside, target]) != inside:
            raise tarfile.ExtractError(f"{member.name!r} leads out of the archive, to {place!r}")
