"""A policy of the API server that denies all that the operator writes to some nodes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.operator import USER
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

WHY: Final = "no changes on Fridays"
PROBE: Final = "example.com/probe"


@contextmanager
def denying(world: World, *nodes: str) -> Iterator[None]:
    """Have a policy of the API server deny all that the operator writes to these nodes, and the probe.

    It says so with the name of the node.
    """
    name = f"deny-{world.suffix}"
    kind: Object = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    policy: Object = {
        **kind,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["UPDATE"],
                        "resources": ["nodes"],
                    }
                ]
            },
            "validations": [
                {
                    "expression": f"!('{PROBE}' in object.metadata.labels) && "
                    f"(!(object.metadata.name in {[*nodes]}) || request.userInfo.username != '{USER}')",
                    "messageExpression": f"'{WHY} to ' + object.metadata.name",
                }
            ],
        },
    }
    binding: Object = {
        **kind,
        "kind": "ValidatingAdmissionPolicyBinding",
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    for each in (policy, binding):
        world.kubectl("apply", "-f", "-", stdin=json.dumps(each))
    try:
        eventually(lambda: _is_denied(world, nodes[0]), what="the policy is in force", every=0.2)
        yield
    finally:
        for each in (binding, policy):
            world.kubectl("delete", each["kind"], name)


def _is_denied(world: World, node: str) -> bool:
    """Whether the policy is in force already: it denies the probe to everybody, and so without a write."""
    return WHY in world.kubectl("label", "node", node, f"{PROBE}=yes", "--dry-run=server", check=False)
