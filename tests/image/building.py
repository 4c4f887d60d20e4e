"""Builds the Dockerfile with buildah, in a storage of its own that is removed afterwards."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from builder import ROOT, command
from harness.manifests import shipped_image
from layout import joined, pushed
from release.addresses import Addresses
from winpool import __version__

NAME: Final = f"{shipped_image()}:{__version__}"
"""As the manifests name it, so that an image that was built here is the one that they ask for."""
LOCAL_BASE: Final = "localhost/base:latest"
CERTIFICATES: Final = Path("/etc/ssl/certs")
STEP_SECONDS: Final = 1800.0
"""Guard for one command of buildah: a build that downloads all packages takes three minutes on two cores."""


@dataclass(frozen=True, slots=True)
class Image:
    """What was built, with its files laid out in a folder."""

    rootfs: Path
    config: Mapping[str, Any]
    """As in the image: User, Env, Entrypoint, Cmd, Labels."""
    name: str
    """With its tag, as a Pod names it."""
    base: str
    """Empty, where it was pulled."""
    build_seconds: float
    """Or those of the pull."""
    removed_bytes: int
    """By ``image/slim.py``, as it says itself; 0, where it was pulled."""

    @property
    def venv(self) -> Path:
        """The virtual environment in the image."""
        return self.rootfs / "opt" / "winpool"

    @property
    def site_packages(self) -> Path:
        """What can be imported of it."""
        [found] = self.venv.glob("lib/python3*/site-packages")
        return found


class Storage:
    """A storage of buildah, in one folder; leave it by ``with``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for words in (("umount", "--all"), ("rm", "--all")):
            subprocess.run([*self._buildah, *words], env=_environment(), capture_output=True, check=False)
        shutil.rmtree(self._directory, ignore_errors=True)

    def add_base(self, tar: Path) -> str:
        """Make an image of the files in ``tar``, and return its name."""
        container = self._ask("from", "scratch")
        self._ask("add", "--quiet", container, str(tar), "/")
        self._ask("commit", "--quiet", container, LOCAL_BASE)
        self._ask("rm", container)
        return LOCAL_BASE

    def build(self, *, base: str, sources: Path = ROOT, name: str = NAME) -> Image:
        """Build the image with the very command of ``make image``, and lay out its files."""
        tool, verb, *rest = command(
            "buildah",
            name=name,
            version=__version__,
            revision="of a test",
            source=Addresses.read().repository,
            base=base,
            environment=os.environ,
        )
        assert tool == "buildah"
        began = time.monotonic()
        said = self._ask(verb, "--layers=false", *_volumes(), *rest, folder=sources)
        seconds = time.monotonic() - began
        removed = re.search(r"removed ([\d.]+) MB in all", said)
        assert removed, said
        config = json.loads(self._ask("inspect", "--type", "image", name))["OCIv1"]["config"]
        rootfs = Path(self._ask("mount", self._ask("from", name)))
        return Image(rootfs, config, name, base, seconds, removed_bytes=round(float(removed[1]) * 1e6))

    def write_layout(self, name: str, layout: Path, *, version: str) -> None:
        """Write an image of this storage into an OCI layout, as the one architecture of a list."""
        single = layout.with_name(f"{layout.name}-single")
        layout.parent.mkdir(parents=True, exist_ok=True)
        _, *push = pushed(name, layout=single, version=version)
        self._ask(*push)
        for _, *words in joined([single], layout=layout, version=version):
            self._ask(*words)

    def pull(self, name: str) -> Image:
        """Pull an image from a registry of this machine, and lay out its files."""
        began = time.monotonic()
        container = self._ask("from", "--quiet", "--tls-verify=false", f"docker://{name}")
        config = json.loads(self._ask("inspect", "--type", "container", container))["OCIv1"]["config"]
        rootfs = Path(self._ask("mount", container))
        return Image(rootfs, config, name, "", time.monotonic() - began, removed_bytes=0)

    def _ask(self, *words: str, folder: Path = ROOT) -> str:
        done = subprocess.run(
            [*self._buildah, *words],
            cwd=folder,
            env=_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if words[0] == "build" else subprocess.PIPE,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )
        said = f"{done.stdout}{done.stderr or ''}"
        assert done.returncode == 0, f"buildah {' '.join(words)}:\n{said[-6000:]}"
        return done.stdout.strip()

    @property
    def _buildah(self) -> list[str]:
        # It tries overlay, and copies all files of each layer (vfs) where the file system cannot do that.
        return [
            "buildah",
            "--root",
            str(self._directory / "storage"),
            "--runroot",
            str(self._directory / "run"),
        ]


def _environment() -> dict[str, str]:
    # A RUN in a chroot: it needs no right to make namespaces, and uses the network of the machine.
    return {**os.environ, "BUILDAH_ISOLATION": "chroot"}


def _volumes() -> list[str]:
    """Return what lets pip trust the authorities that this machine trusts."""
    places = [CERTIFICATES] if CERTIFICATES.is_dir() else []
    bundle = os.environ.get("PIP_CERT")
    if bundle and CERTIFICATES not in Path(bundle).parents:
        places.append(Path(bundle))
    return [f"--volume={place}:{place}:ro" for place in places]
