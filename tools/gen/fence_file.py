"""The file that installs the fence: ``python -m gen.fence_file``.

``deploy/operator`` holds what this prints; a test compares them.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from gen.guard_file import manifests_of
from winpool.api.crd import file_of, manifest, text_of
from winpool.api.fence import PARAMETERS, policies
from winpool.api.keys import NAMESPACE

FILE: Final = "deploy/operator/fence.yaml"
"""Where the result is, from the root of the repository."""

COMMAND: Final = f"python -m gen.fence_file > {FILE}"

HEADER: Final = f"""\
# Keeps the operator's own account within what winpool is for (docs/security.md).
# Generated from operator/winpool/api/fence.py. Do not edit; run: {COMMAND}
"""


def documents() -> list[dict[str, Any]]:
    """Return the policies, each with its binding, and the ConfigMap that an admin sets them by.

    The ConfigMap has no ``data``. An apply, by the client or by the server, changes only fields that the
    manifest has or had; so it leaves alone what the admin has written there.
    """
    fences = (manifests_of(name, policy=policy, binding=binding) for name, policy, binding in policies())
    return [
        *(each for fence in fences for each in fence),
        manifest("ConfigMap", api_version="v1", name=PARAMETERS, namespace=NAMESPACE),
    ]


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return file_of(HEADER, map(text_of, documents()))


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
