"""The file that installs the guard: ``python -m winpool.api.guard_file``.

``deploy/operator`` holds what this prints; a test compares them.
"""

import sys
from typing import Any, Final

import yaml

from winpool.api.guard import (
    API_GROUP,
    API_VERSION,
    BINDING_KIND,
    GUARD_NAME,
    POLICY_KIND,
    binding_spec,
    policy_spec,
)

FILE: Final = "deploy/operator/guard.yaml"
"""Where the result stands, from the root of the repository."""

COMMAND: Final = f"python -m winpool.api.guard_file > {FILE}"

HEADER: Final = f"""\
# Keeps kubelets, and pods with the tokens of their node, from writing what only the operator and people may
# write on a node (docs/guard.md). The operator compares it word by word: one that was edited is not in force.
# Generated from operator/winpool/api/guard.py. Do not edit; run: {COMMAND}
"""


def documents() -> list[dict[str, Any]]:
    """Return the policy and its binding."""
    return [
        policy_document(POLICY_KIND, name=GUARD_NAME, spec=policy_spec()),
        policy_document(BINDING_KIND, name=GUARD_NAME, spec=binding_spec()),
    ]


def policy_document(kind: str, *, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of a policy or of its binding."""
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": kind,
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "winpool"}},
        "spec": spec,
    }


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return HEADER + yaml.safe_dump_all(documents(), sort_keys=False, width=110)


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
