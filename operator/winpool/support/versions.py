"""Reads the versions that nodes report. What cannot be read is None; nothing raises.

``kernelVersion`` (``10.0.20348.1607``), ``kubeletVersion`` (``v1.24.7-eks-fb459a0``) and
``containerRuntimeVersion`` (``containerd://2.0.4+azure``) of a node's ``nodeInfo``. The texts are the
node's own, so every number is bounded in length before it is read.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import msgspec

_WINDOWS: Final = re.compile(r"10\.0\.(\d{1,10})(?:\.(\d{1,10}))?", re.ASCII)
"""Every Windows that runs containers is a 10.0. Ten digits: build and revision are 32-bit numbers in the
registry of Windows, and revisions above 32767 are common."""

_MAX_REVISION: Final = 2**31 - 1
"""What ``spec.os.targetRevision`` and the status have room for."""

_KUBERNETES: Final = re.compile(r"v?(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?([+-].{0,255})?", re.ASCII)
"""The suffix is free text of a vendor (``-eks-fb459a0``) or of a build (``-rc.0.3+531a28b82ee021``)."""

_RUNTIME: Final = re.compile(r"([a-z][a-z0-9.-]{0,62})://(.{0,255})", re.ASCII)
_RELEASE: Final = re.compile(
    r"v?(\d{1,5})\.(\d{1,5})(?:\.(\d{1,5}))?(?:-(alpha|beta|rc)[.]?(\d{1,5})?)?", re.ASCII
)


CONTAINERD: Final = "containerd"


class WindowsVersion(msgspec.Struct, frozen=True, gc=False):
    """A version of Windows 10.0, of a host or of an image.

    ``revision`` is None where the text has none, or one above int32: no Windows comes near it.
    """

    build: int
    revision: int | None = None

    @property
    def build_text(self) -> str:
        """What the kubelet writes into the label ``node.kubernetes.io/windows-build``."""
        return f"10.0.{self.build}"

    def __str__(self) -> str:
        return self.build_text if self.revision is None else f"{self.build_text}.{self.revision}"


class Minor(NamedTuple):
    """A minor version of Kubernetes. It has an order, and ``str`` writes it as people do: 1.36."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Release(NamedTuple):
    """A released or pre-released version of a container runtime, in the order of semantic versioning.

    ``stage`` is alpha, beta or rc; a final release has "~", which sorts behind them all.
    """

    major: int
    minor: int
    patch: int = 0
    stage: str = "~"
    number: int = 0

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor: the line that a project releases patches for."""
        return self.major, self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (
            "" if self.stage == "~" else f"-{self.stage}.{self.number}"
        )


class RuntimeVersion(msgspec.Struct, frozen=True):
    """A container runtime: its name as the kubelet writes it, and its version, None where it is unknown."""

    name: str
    release: Release | None


def parse_windows(text: str) -> WindowsVersion | None:
    """Read ``10.0.build[.revision]``: a kernelVersion, a windows-build label, an os.version."""
    found = _WINDOWS.fullmatch(text)
    if found is None:
        return None
    build, revision = found.groups()
    is_known = revision is not None and int(revision) <= _MAX_REVISION
    return WindowsVersion(int(build), int(revision) if is_known else None)


def build_text_of(text: str) -> str:
    """Return the build of a version of Windows, such as 10.0.20348; empty where the text is none."""
    version = parse_windows(text)
    return version.build_text if version else ""


_CLIENT: Final = re.compile(r"\bWindows 1[01]\b", re.ASCII | re.IGNORECASE)


def is_client_edition(os_image: str) -> bool:
    """Whether ``osImage`` names a client edition of Windows: Windows 11 writes "Windows 10" there, too.

    https://github.com/Siemens-Healthineers/K2s/issues/2551
    """
    return _CLIENT.search(os_image) is not None and "server" not in os_image.lower()


def parse_minor(text: str) -> Minor | None:
    """Read the minor of a Kubernetes version: of ``v1.24.7-eks-fb459a0``, ``1.36`` or ``1.35+``.

    None for ``v0.0.0-master+$Format:%H$`` too: so says a build that was given no version.
    https://github.com/kubernetes/component-base/blob/v0.36.0/version/base.go
    """
    found = _KUBERNETES.fullmatch(text)
    minor = Minor(int(found[1]), int(found[2])) if found else None
    return minor if minor != (0, 0) else None


def parse_release(text: str) -> Release | None:
    """Read a version of a runtime: ``2.0.4+azure``, ``1.4.0-beta.2``.

    Only alpha, beta and rc come before the release; any other suffix is a vendor's (``1.7.20-gke.1``,
    ``1.6.8-0ubuntu1``) and says nothing about the order. ``0.0.0`` is no release.
    """
    found = _RELEASE.match(text)
    if found is None or text[found.end() : found.end() + 1] not in ("", "+", "-"):
        return None
    major, minor, patch, stage, number = found.groups()
    release = Release(int(major), int(minor), int(patch or 0), stage or "~", int(number or 0))
    return release if release > Release(0, 0) else None


def parse_runtime(text: str) -> RuntimeVersion | None:
    """Read ``name://version``; None where not even the name can be read."""
    found = _RUNTIME.fullmatch(text)
    return None if found is None else RuntimeVersion(found[1], parse_release(found[2]))


def containerd_of(text: str) -> Release | None:
    """Read the version of containerd in ``containerd://version``; None where it is another runtime."""
    runtime = parse_runtime(text)
    return runtime.release if runtime and runtime.name == CONTAINERD else None
