"""Which Windows an image is made for, read from its tag: a guess that may warn, and must never deny.

What counts is ``os.version`` of the image's index or configuration, which only a registry can show. Tags
of Microsoft's base images, and of images whose publishers follow them, name the release:
``nanoserver-1809``, ``windowsservercore-ltsc2022``, ``10.0.20348.2159``, ``20H2-KB4592438``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from winpool.support.versions import WindowsVersion, parse_windows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.support.matrix import Matrix

_BASE_IMAGES: Final = frozenset({"nanoserver", "windowsservercore", "servercore", "server", "windows"})
"""Words before a release in a tag, and last parts of the names of Microsoft's own base images."""

_KB: Final = re.compile(r"KB\d{6,8}", re.ASCII | re.IGNORECASE)
_FULL: Final = re.compile(r"10\.0\.\d{5}(?:\.\d{1,10})?", re.ASCII)
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
"""https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md#pulling-manifests"""


def guess_version(reference: str, *, matrix: Matrix) -> WindowsVersion | None:
    """Guess from the tag of ``reference`` (``registry:5000/team/app:1.2-ltsc2022``) what it is made for.

    None where the tag says nothing, names several releases, or there is no tag. A bare number such as 1809
    counts only where it is very likely a release: as the whole tag of one of Microsoft's base images,
    after the name of one, or before the number of an update.
    """
    name, tag = _split(reference)
    if not _TAG.fullmatch(tag):
        return None
    found = set(_named(tag, image=name.rpartition("/")[2].lower(), matrix=matrix))
    builds = {each.build for each in found}
    if len(builds) != 1:
        return None
    return max(found, key=lambda each: -1 if each.revision is None else each.revision)


def _split(reference: str) -> tuple[str, str]:
    """Return name and tag. A colon before a slash is a port, and what follows ``@`` is a digest."""
    before, at, _ = reference.partition("@")
    name, colon, tag = before.rpartition(":")
    if not colon or "/" in tag:
        return before, ""
    return (name, tag) if not at or tag else (before, "")


def _named(tag: str, *, image: str, matrix: Matrix) -> Iterator[WindowsVersion]:
    """Yield what every word of ``tag`` names."""
    builds = {word.lower(): each.build for each in matrix.file.releases for word in each.tags}
    words = tag.lower().replace("_", "-").split("-")
    before = ["", *words[:-1]]
    after = [*words[1:], ""]
    for word, previous, following in zip(words, before, after, strict=True):
        if _FULL.fullmatch(word):
            if (version := parse_windows(word)) is not None:
                yield version
        elif word in builds and (
            not word.isdigit()
            or previous in _BASE_IMAGES
            or _KB.fullmatch(following)
            or (len(words) == 1 and image in _BASE_IMAGES)
        ):
            yield WindowsVersion(10, 0, builds[word])
