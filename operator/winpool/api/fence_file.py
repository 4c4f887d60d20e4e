"""The file that installs the fence: ``python -m winpool.api.fence_file``.

``deploy/operator`` holds what this prints; a test compares them.
"""

import sys
from typing import Any, Final

import yaml

from winpool.api.fence import ALLOW_NO_EXECUTE, NAMESPACE, PARAMETERS, policies
from winpool.api.guard import BINDING_KIND, POLICY_KIND
from winpool.api.guard_file import policy_document

FILE: Final = "deploy/operator/fence.yaml"
"""Where the result is, from the root of the repository."""

COMMAND: Final = f"python -m winpool.api.fence_file > {FILE}"

HEADER: Final = f"""\
# Keeps the operator's own account within what winpool is for (docs/security.md).
# Generated from operator/winpool/api/fence.py. Do not edit; run: {COMMAND}
"""


def documents() -> list[dict[str, Any]]:
    """Return the policies, each with its binding, and the ConfigMap that an admin sets them by."""
    found = []
    for name, policy, binding in policies():
        found += [
            policy_document(POLICY_KIND, name=name, spec=policy),
            policy_document(BINDING_KIND, name=name, spec=binding),
        ]
    return [*found, _parameters()]


def _parameters() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": PARAMETERS,
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/name": "winpool"},
        },
        "data": {ALLOW_NO_EXECUTE: "true"},
    }


def render() -> str:
    """Return the file: YAML with a header that says where it comes from."""
    return HEADER + yaml.safe_dump_all(documents(), sort_keys=False, width=110)


def main() -> None:
    """Print the file."""
    sys.stdout.write(render())


if __name__ == "__main__":
    main()
