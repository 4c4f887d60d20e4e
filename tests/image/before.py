"""The operator before winpool was installed by one command: its sources, out of the history.

It has no leader election, and its manifests no Deployment. Its tree has no Dockerfile either, so it is built
by the one of this tree, with the requirements that it had itself.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from builder import ROOT
from image.building import Image

COMMIT: Final = "cc5d3e4809ba3bd155d0eebd66ade4bb00b1559b"
NAME: Final = "localhost/winpool:before"

OVERLAID: Final = ("Dockerfile", "image/slim.py", "requirements/build.txt")
"""What the build needs of this tree. None of it is in the image."""


@dataclass(frozen=True, slots=True)
class Before:
    """The operator before, ready to be installed and run."""

    tree: Path
    """Its sources, with the manifests that belong to it."""
    image: Image


def sources_of(commit: str, *, folder: Path) -> Path:
    """Lay out the sources of a commit in ``folder``, with what the build needs of this tree, and return it.

    Raises AssertionError with a sentence where the repository does not have the commit.
    """
    done = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=False)
    said = done.stderr.decode(errors="replace").strip()
    assert done.returncode == 0, (
        f"the sources of the earlier operator, commit {commit}, cannot be read in {ROOT} ({said}). "
        "In a shallow clone, run: git fetch --unshallow"
    )
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    for name in OVERLAID:
        assert not (folder / name).exists(), f"the earlier operator has a {name} of its own"
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder
