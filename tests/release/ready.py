"""Whether a commit may become a release, and what to do if not."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from release.addresses import Addresses
from release.notes import has_section
from winpool import __version__

_STATUS: Final = ("-c", "core.excludesFile=", "status", "--porcelain", "--untracked-files=normal")
"""Whatever a person has set: a file that only their git does not name becomes a part of the wheel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkout:
    """What git says of the tree that a release is made from."""

    changed: Sequence[str]
    """Files that are not as in the commit."""
    tags: Sequence[str]
    """Of the commit."""
    seconds: int
    """When the commit was made, as Unix time. Archives of a release have it, so that two builds are equal."""

    @classmethod
    def read(cls, root: Path) -> Self:
        """Ask git. Raises CalledProcessError where there is no repository with a commit."""
        return cls(
            changed=[line[3:] for line in _git(root, *_STATUS).splitlines()],
            tags=_git(root, "tag", "--points-at", "HEAD").split(),
            seconds=int(_git(root, "log", "-1", "--format=%ct")),
        )


def faults(
    checkout: Checkout, *, addresses: Addresses, changelog: str, digest: str, version: str = __version__
) -> list[str]:
    """Return what keeps the commit from being a release, each as a sentence that says what to do."""
    tag = f"v{version}"
    found = {
        f"{', '.join(addresses.placeholders)} in deploy/release.env: placeholders, which nobody can reach. "
        "Set the real addresses, run make generate, and commit": addresses.placeholders,
        f"{_some(checkout.changed)} not as in the commit: commit or remove that": checkout.changed,
        f"the commit has no tag {tag}: run git tag {tag}, or correct the version in pyproject.toml, "
        "operator/winpool/__init__.py and deploy/operator/kustomization.yaml": tag not in checkout.tags,
        f"CHANGELOG.md has no section {version}: name the section Unreleased '## {version}', and begin an "
        "empty one above it": not has_section(changelog, version),
        "no image is pinned: run make image-layout, or give the digest of one that is pushed, as "
        "DIGEST=sha256:…": not digest,
    }
    return [sentence for sentence, holds in found.items() if holds]


def require_digest(digest: str) -> str:
    """Return it. Raises ValueError, with a sentence, where it is none."""
    if digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise ValueError(f"{digest} is no digest of an image: sha256: and 64 hexadecimal digits")
    return digest


def _some(files: Sequence[str]) -> str:
    """Return the first of the files and how many there are beside it."""
    if len(files) > 1:
        return f"{files[0]} and {len(files) - 1} more files are"
    return f"{''.join(files)} is"


def _git(root: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    ).stdout.rstrip("\n")
