"""ValidatingAdmissionPolicies as data: what the guard and the fence have in common.

Everything that the API server would fill in is written out, so that what it has is equal to what was sent.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api.manifests import manifest

if TYPE_CHECKING:
    from collections.abc import Iterable

API_GROUP: Final = "admissionregistration.k8s.io"
API_VERSION: Final = "v1"
POLICY_KIND: Final = "ValidatingAdmissionPolicy"
POLICIES: Final = "validatingadmissionpolicies"
BINDING_KIND: Final = "ValidatingAdmissionPolicyBinding"
BINDINGS: Final = "validatingadmissionpolicybindings"

DENY: Final = "Deny"


def make_policy_spec(
    *,
    api_group: str,
    version: str,
    resources: Iterable[str],
    operations: Iterable[str],
    condition: dict[str, str],
    variables: Iterable[dict[str, str]],
    validations: Iterable[dict[str, str]],
) -> dict[str, Any]:
    """Return the spec of a policy, as the API server gives it back.

    The policy is about ``operations`` on ``resources`` for which ``condition`` holds. A request for which an
    expression fails is refused.
    """
    declared = list(variables)
    return {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": [api_group],
                    "apiVersions": [version],
                    "operations": list(operations),
                    "resources": list(resources),
                    "scope": "*",
                }
            ],
        },
        "matchConditions": [condition],
        **({"variables": declared} if declared else {}),
        "validations": list(validations),
    }


def make_binding_spec(policy: str) -> dict[str, Any]:
    """Return the spec of the binding of a policy, as the API server gives it back."""
    return {"policyName": policy, "validationActions": [DENY]}


def named(name: str, expression: str) -> dict[str, str]:
    """Return a variable or a condition."""
    return {"name": name, "expression": expression}


def validation(expression: str, *, message: str) -> dict[str, str]:
    """Return what refuses, with ``message``, every request for which ``expression`` is false."""
    return {"expression": expression, "message": message, "reason": "Forbidden"}


def manifests_of(name: str, *, policy: dict[str, Any], binding: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the manifests of a policy and of its binding, which have the same name, by their specs."""
    version = f"{API_GROUP}/{API_VERSION}"
    return [
        manifest(POLICY_KIND, api_version=version, name=name, spec=policy),
        manifest(BINDING_KIND, api_version=version, name=name, spec=binding),
    ]
