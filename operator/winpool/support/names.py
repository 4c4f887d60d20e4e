"""The names that people have for a release of Windows Server: its build, its tags, its title."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from winpool.support.images import guess_version
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from winpool.support.matrix import Matrix

_TITLE: Final = re.compile(r"windows server,?(?: version)? (?P<name>[a-z0-9]+)\b.*", re.IGNORECASE)
"""``Windows Server 2022 Datacenter``, ``Windows Server, version 20H2``."""

_BASE_IMAGE: Final = "windowsservercore"
"""A tag is read as one of Microsoft's own base images, where a bare 1809 counts too."""


def release_named(text: str, *, matrix: Matrix) -> str | None:
    """Return the release that ``text`` names, as ``spec.os.version`` writes it; None where it names none.

    It may be that name, a build (``20348``, ``10.0.20348``, ``10.0.20348.1607``), a tag of a base image
    (``ltsc2022``, ``windowsservercore-ltsc2022``) or a title (``Windows Server 2022``).
    """
    given = text.strip()
    titled = _TITLE.fullmatch(given)
    name = titled["name"] if titled else given
    found = next((each for each in matrix.releases if each.lower() == name.lower()), None)
    if found is not None or titled:
        return found
    version = (
        parse_windows(f"10.0.{given}" if given.isdigit() else given)
        or guess_version(f"{_BASE_IMAGE}:{given}", matrix=matrix)
    )  # fmt: skip
    release = matrix.release_of(version) if version else None
    return release.name if release else None
