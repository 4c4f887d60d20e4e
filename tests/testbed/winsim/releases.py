"""Releases of Windows Server that can be installed on simulated machines, by their names.

Pure. What is installed on a machine is one text, the ``kernelVersion`` of its node: the build says the
release, what follows it the revision.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, PlainValidator

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.winsim.machines import OperatingSystem

BUILDS: Final[Mapping[str, str]] = {"2019": "10.0.17763", "2022": "10.0.20348", "2025": "10.0.26100"}
"""The release in the way in which people say it, and its build."""
_NAMES: Final = {build: f"Windows Server {release} Datacenter" for release, build in BUILDS.items()}
_BUILD: Final = re.compile(r"\d+\.\d+\.\d+")
_MOST_REVISIONS: Final = 65535
"""A revision has 16 bits in the version of a Windows file."""


def kernel_of(release: str, revision: int) -> str:
    """Return the ``kernelVersion`` of a release at a revision."""
    return f"{BUILDS[release]}.{revision}"


def release_of(kernel: str) -> str:
    """Return the release whose build a ``kernelVersion`` has; empty where none of them has it."""
    build = kernel.rpartition(".")[0]
    return next((release for release, known in BUILDS.items() if known == build), "")


def patched(kernel: str, revision: int) -> str:
    """Return the ``kernelVersion`` of the same build at another revision.

    Raises:
        ValueError: it names no build.

    """
    found = _BUILD.match(kernel)
    if found is None:
        raise ValueError(f"{kernel!r} names no build of Windows that could get another revision")
    return f"{found[0]}.{revision}"


def installed(kernel: str, *, before: OperatingSystem) -> OperatingSystem:
    """Return what a machine runs on which this kernel has been installed in place of what was there before.

    Runtime and images stay as they were: nobody asks a node for more than their names.
    """
    found = _BUILD.match(kernel)
    name = _NAMES.get(found[0], before.image) if found else before.image
    return replace(before, kernel=kernel, image=name)


def _release(given: Any) -> str:
    # A number in a scenario file is meant as the name that it spells.
    text = str(given) if isinstance(given, int) and not isinstance(given, bool) else given
    if text not in BUILDS:
        raise ValueError(f"{given!r} is no release of Windows Server that is simulated: {', '.join(BUILDS)}")
    return str(text)


Release = Annotated[str, PlainValidator(_release)]
"""A field of a model that holds a release."""
Revision = Annotated[int, Field(ge=1, le=_MOST_REVISIONS)]
"""A field of a model that holds a revision."""
