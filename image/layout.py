"""``make image-layout``: writes the image of a release as an OCI image layout, which needs no registry.

It is built with buildah for one architecture, or put together of layouts that were built for one each. The
digest in the layout is the one that a registry gives it. It needs only the standard library, as builder.py.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from builder import ROOT, add_options, asked

if TYPE_CHECKING:
    from collections.abc import Sequence

LIST: Final = "localhost/winpool-release"
"""Name of what is put together, in the storage of buildah."""


def pushed(name: str, *, layout: Path, version: str) -> list[str]:
    """Return the command that writes an image of buildah into a layout, named by the version."""
    return ["buildah", "push", "--quiet", "--format=oci", name, f"oci:{layout}:{version}"]


def joined(layouts: Sequence[Path], *, layout: Path, version: str) -> list[list[str]]:
    """Return the commands that write one layout with the images of several."""
    return [
        ["buildah", "manifest", "create", LIST],
        *(["buildah", "manifest", "add", LIST, f"oci:{each}:{version}"] for each in layouts),
        ["buildah", "manifest", "push", "--quiet", "--all", "--rm", LIST, f"oci:{layout}:{version}"],
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the layout in place of an earlier one; return the exit code of the command that failed, or 0."""
    parser = argparse.ArgumentParser(prog="make image-layout", description=__doc__)
    parser.add_argument("layout", type=Path)
    add_options(parser)
    parser.add_argument(
        "--join", type=Path, nargs="*", default=[], help="layouts to put together: build none"
    )
    given = parser.parse_args(arguments)
    if shutil.which("buildah") is None:
        sys.stderr.write("make image-layout needs buildah: install the package\n")
        return 1
    layout = given.layout.resolve()
    if given.join:
        commands = joined([each.resolve() for each in given.join], layout=layout, version=given.version)
    else:
        commands = [asked("buildah", given), pushed(given.name, layout=layout, version=given.version)]
    shutil.rmtree(layout, ignore_errors=True)
    layout.parent.mkdir(parents=True, exist_ok=True)
    for each in commands:
        code = subprocess.run(each, cwd=ROOT, check=False).returncode
        if code != 0:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
