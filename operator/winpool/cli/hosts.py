"""What pods are checked against: a host as a node reports it, or as somebody names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.support.compat import release_named
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from winpool.support.matrix import Matrix


@dataclass(frozen=True, slots=True)
class Host:
    """What a node runs: its kernelVersion and its containerRuntimeVersion, as its nodeInfo has them."""

    kernel_version: str
    runtime: str = ""

    @property
    def build_text(self) -> str:
        """What its kubelet writes into the label for the build; empty for what is no Windows."""
        version = parse_windows(self.kernel_version)
        return version.build_text if version else ""


def version_named(text: str, *, matrix: Matrix) -> str | None:
    """Return the version of Windows that ``text`` names: ``10.0.20348.1607``, or ``10.0.20348`` for ``2022``.

    A version is taken as it is, also one that is not in the data; None for what names none.
    """
    given = text.strip()
    version = parse_windows(given)
    if version is not None:
        return str(version)
    name = release_named(given, matrix=matrix)
    if name is None:
        return f"10.0.{given}" if given.isdigit() and parse_windows(f"10.0.{given}") else None
    return f"10.0.{matrix.releases[name].build}"
