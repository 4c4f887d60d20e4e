"""What the tests of the image need of a machine. ``python tests/image/needs.py TARGET`` says what is missing.

``TARGET`` is that of the Makefile: ``test-image`` or ``test-release``.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from typing import Final

TOOLS: Final = {"buildah": "it builds the image", "crun": "it runs the image", "unshare": "of util-linux"}
RELEASE_TOOLS: Final = {
    **TOOLS,
    "skopeo": "it pushes the image",
    "docker-registry": "it is what the image is pushed to",
    "curl": "it downloads what a person installs",
}
TARGETS: Final = {"test-image": TOOLS, "test-release": RELEASE_TOOLS}
BASE_TOOL: Final = "mmdebstrap"

BASE_VARIABLE: Final = "WINPOOL_IMAGE_BASE"
"""Names the image to build on, in a registry. Not set: a base is made here, from packages of Debian."""


def missing(
    *, user: int, which: Callable[[str], str | None], base: str, target: str = "test-image"
) -> list[str]:
    """Return what the machine lacks, each as a sentence that says what to do."""
    found: list[str] = []
    if user != 0:
        found.append("it has to run as root, to build on a base of its own and to run as another user")
    for tool, purpose in TARGETS[target].items():
        if which(tool) is None:
            found.append(f"{tool} is missing ({purpose}): install the package")
    if not base and which(BASE_TOOL) is None:
        found.append(
            f"{BASE_TOOL} is missing (it makes the base): install the package, or name a published base: "
            f"make {target} BASE=docker.io/library/python:3.13-slim-trixie"
        )
    return found


def main() -> int:
    """Print what is missing in one line; return 1 where something is."""
    [target] = sys.argv[1:]
    base = os.environ.get(BASE_VARIABLE, "")
    found = missing(user=os.geteuid(), which=shutil.which, base=base, target=target)
    if found:
        print(f"make {target} cannot run here: {'; '.join(found)}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
