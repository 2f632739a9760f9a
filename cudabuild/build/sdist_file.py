# SPDX-License-Identifier: Apache-2.0
"""A finished source distribution: archives of an in-place build are taken out of it, signature files put in."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Mapping

from cudabuild.build.plan import is_artefact

__all__ = ["remove_artefacts"]


def remove_artefacts(path: str, needed: Mapping[str, bytes] | None = None) -> list[str]:
    """Takes what a build has put into the source tree out of a ``.tar.gz``; everything else stays as it is.

    Args:
        path: the source distribution.
        needed: path below the project -> contents of files that a build needs; those that are not there are put in.

    Returns:
        The names of what was taken out; the file is not touched where that is nothing, and nothing was missing.

    Raises:
        OSError: the file cannot be read, or written.
        tarfile.TarError: it is no tar file.
    """
    with tarfile.open(path, "r:gz") as source:
        members = source.getmembers()
        dropped = {member.name for member in members if member.isfile() and is_artefact(member.name)}
        top = members[0].name.partition("/")[0] if members else ""
        names = {member.name for member in members}
        added = {f"{top}/{name}": data for name, data in (needed or {}).items() if f"{top}/{name}" not in names}
        if not dropped and not added:
            return []
        kept = {member.name for member in members if not member.isdir()} - dropped
        folders = {os.path.dirname(name) for name in dropped}
        dropped |= {folder for folder in folders if not any(name.startswith(f"{folder}/") for name in kept)}
        with open(path, "rb") as stream:
            # Bytes 4 to 8 of the header of gzip: the back-end's own idea of when this was made.
            made = int.from_bytes(stream.read(8)[4:], "little")
        folder, name = os.path.split(os.path.abspath(path))
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        try:
            with (
                os.fdopen(handle, "wb") as sink,
                gzip.GzipFile("", "wb", fileobj=sink, mtime=made) as packed,
                tarfile.open(
                    fileobj=packed, mode="w", format=tarfile.PAX_FORMAT, pax_headers=source.pax_headers
                ) as target,
            ):
                for member in members:
                    if member.name not in dropped:
                        target.addfile(member, source.extractfile(member) if member.isreg() else None)
                for name, data in sorted(added.items()):
                    target.addfile(_describe(name, data, members), io.BytesIO(data))
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    return sorted(dropped)


def _describe(name: str, data: bytes, members: list[tarfile.TarInfo]) -> tarfile.TarInfo:
    """A member like those that are there: as reproducible as the back-end's own."""
    like = next((member for member in members if member.isreg()), tarfile.TarInfo())
    made = tarfile.TarInfo(name)
    made.size, made.mtime, made.mode = len(data), like.mtime, 0o644
    made.uid, made.gid, made.uname, made.gname = like.uid, like.gid, like.uname, like.gname
    return made
