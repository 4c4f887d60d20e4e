"""The file that installs the guard: ``python -m gen.guard_file``.

``deploy/operator`` holds what this prints; a test compares them.
"""

from __future__ import annotations

import sys
from typing import Any, Final

from winpool.api.admission import (
    API_GROUP,
    API_VERSION,
    BINDING_KIND,
    GUARD_NAME,
    POLICY_KIND,
    binding_spec,
    policy_spec,
)
from winpool.api.crd import file_of, manifest, text_of

FILE: Final = "deploy/operator/guard.yaml"
"""Where the result stands, from the root of the repository."""

COMMAND: Final = f"python -m gen.guard_file > {FILE}"

HEADER: Final = f"""\
# Keeps kubelets, and pods with the tokens of their node, from writing what only the operator and people may
# write on a node (docs/guard.md). The operator compares it word by word: one that was edited is not in force.
# Generated from operator/winpool/api/admission.py. Do not edit; run: {COMMAND}
"""


def manifests_of(name: str, *, policy: dict[str, Any], binding: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests of a policy and of its binding, which have the same name, by their specs."""
    version = f"{API_GROUP}/{API_VERSION}"
    return [
        manifest(POLICY_KIND, api_version=version, name=name, spec=policy),
        manifest(BINDING_KIND, api_version=version, name=name, spec=binding),
    ]


def documents() -> list[dict[str, Any]]:
    """Return the policy and its binding."""
    return manifests_of(GUARD_NAME, policy=policy_spec(), binding=binding_spec())


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return file_of(HEADER, map(text_of, documents()))


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
