"""The operator before winpool was installed by one command: its sources, out of the history.

It has no leader election, and its manifests no Deployment. Its tree has no Dockerfile either, so it is built
with that of a later commit which has the same requirements.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builder import ROOT
from image.building import Image

COMMIT: Final = "cc5d3e4809ba3bd155d0eebd66ade4bb00b1559b"
BUILT_AS: Final = "be16ef76dcf8c61f6c57f62b9854769e0dfdac5e"
"""The commit whose Dockerfile builds it. This tree's would not do: each cut of its ``image/slim.py`` has to
find something in the packages, and they change."""
NAME: Final = "localhost/winpool:before"

BUILD_FILES: Final = ("Dockerfile", "image/slim.py", "requirements/build.txt")
"""What the build needs of that commit. None of it is in the image."""


@dataclass(frozen=True, slots=True)
class Before:
    """The operator before, ready to be installed and run."""

    tree: Path
    """Its sources, with the manifests that belong to it."""
    image: Image


def sources_of(commit: str, *, built_as: str, folder: Path, repository: Path = ROOT) -> Path:
    """Lay out the sources of a commit in ``folder``, with what builds them of another one, and return it.

    Raises AssertionError with a sentence where the repository does not have one of the commits.
    """
    for archive in (_archived(repository, commit), _archived(repository, built_as, *BUILD_FILES)):
        with archive:
            twice = [each.name for each in archive if each.isfile() and (folder / each.name).exists()]
            assert twice == [], f"the earlier operator has a {twice[0]} of its own"
            archive.extractall(folder, filter="data")
    return folder


def _archived(repository: Path, commit: str, *paths: str) -> tarfile.TarFile:
    done = subprocess.run(
        ["git", "archive", commit, *paths], cwd=repository, capture_output=True, check=False
    )
    said = done.stderr.decode(errors="replace").strip()
    assert done.returncode == 0, (
        f"the sources of the earlier operator, commit {commit}, cannot be read in {repository} ({said}). "
        "In a shallow clone, run: git fetch --unshallow"
    )
    return tarfile.open(fileobj=io.BytesIO(done.stdout))
