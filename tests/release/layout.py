"""The image of a release as files: an OCI image layout, which needs no registry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from release.install import ReleaseError

FOLDER: Final = "image"
"""In the folder of a release. It is no file of the release: a registry has what is in it."""
_NAME: Final = "org.opencontainers.image.ref.name"


def digest_of(layout: Path, version: str) -> str:
    """Return the digest of the image that has the version as its name; empty, where there is no layout.

    It is the one that a registry gives it when all of it is copied, for one architecture or for several.

    Raises:
        ReleaseError: the layout has no image of that name.

    """
    index = layout / "index.json"
    if not index.exists():
        return ""
    found = [
        each["digest"]
        for each in json.loads(index.read_text())["manifests"]
        if each.get("annotations", {}).get(_NAME) == version
    ]
    if len(found) != 1:
        raise ReleaseError(f"{layout} has no image {version}: remove the folder, and run make image-layout")
    return str(found[0])
