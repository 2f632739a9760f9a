# SPDX-License-Identifier: Apache-2.0
"""A finished source distribution: the archives of an in-place build are taken out of it."""

from __future__ import annotations

import contextlib
import gzip
import os
import tarfile
import tempfile

from cudabuild.build.plan import is_artefact

__all__ = ["remove_artefacts"]


def remove_artefacts(path: str) -> list[str]:
    """Takes what a build has put into the source tree out of a ``.tar.gz``; everything else stays as it is.

    Returns:
        The names of what was taken out; the file is not touched where that is nothing.

    Raises:
        OSError: the file cannot be read, or written.
        tarfile.TarError: it is no tar file.
    """
    with tarfile.open(path, "r:gz") as source:
        members = source.getmembers()
        dropped = {member.name for member in members if member.isfile() and is_artefact(member.name)}
        if not dropped:
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
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    return sorted(dropped)
