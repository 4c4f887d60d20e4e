"""ValidatingAdmissionPolicies as data, and the guard, which keeps kubelets from writing our keys.

Everything that the API server would fill in is written out, so that what it has is equal to what was sent.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/.

The guard: an admission policy that keeps kubelets from writing our keys on nodes.

A kubelet may annotate its own Node as it likes and give itself most labels, so nothing that stands there
under ``winpool.dev/`` would give the operator a right to do what that kubelet may not do (P3). The policy
makes it so. It is made here from the one list of our keys; ``deploy/operator`` holds it as a file
(``guard_file``), and the operator compares what the API server has with what stands here.

Two rules for the expressions (ADR 0011): keys are compared by name, never by iterating over the maps of a
Node, or a kubelet with 20,000 labels would cost the API server seconds for each of its status reports; and
none of them can fail on any Node, since one that fails refuses the request.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from winpool.api.keys import GROUP, OPERATOR_USER, OWN_ANNOTATIONS, OWN_LABELS, PREFIX, REQUEST_ANNOTATIONS

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


GUARD_NAME: Final = "winpool-guard"
"""Name of the policy and of its binding."""

KUBELETS: Final = "system:nodes"
"""The group of all kubelets: https://kubernetes.io/docs/reference/access-authn-authz/node/."""

NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
"""What a token carries that is bound to a pod, and so to the node of the pod, which can obtain it.
https://kubernetes.io/docs/reference/access-authn-authz/service-accounts-admin/"""

REQUESTS_RESOURCE: Final = "nodeannotations"
REQUESTS_VERB: Final = "update"
"""The right by which a pod may write a request, such as ``hold``: this verb on a resource of the group
winpool.dev that nobody serves, with the name of the annotation. RBAC grants it like any other right."""

_IS_KUBELET: Final = f'"{KUBELETS}" in request.userInfo.?groups.orValue([])'
_IS_OF_A_NODE: Final = (
    f'{_IS_KUBELET} || (request.userInfo.?username.orValue("") != "{OPERATOR_USER}"'
    f' && "{NODE_NAME_EXTRA}" in request.userInfo.?extra.orValue({{}}))'
)


def policy_spec() -> dict[str, Any]:
    """Return the spec of the policy, as the API server gives it back."""
    return make_policy_spec(
        api_group="",
        version="v1",
        resources=("nodes", "nodes/status"),
        operations=("CREATE", "UPDATE"),
        condition=named("kubelets-and-pods-of-nodes", _IS_OF_A_NODE),
        variables=(
            named("annotations", "object.metadata.?annotations.orValue({})"),
            named("oldAnnotations", "oldObject == null ? {} : oldObject.metadata.?annotations.orValue({})"),
            named("labels", "object.metadata.?labels.orValue({})"),
            named("oldLabels", "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})"),
        ),
        validations=(
            _unchanged(OWN_ANNOTATIONS, now="annotations", before="oldAnnotations"),
            _unchanged(OWN_LABELS, now="labels", before="oldLabels"),
            *(_requested(key) for key in REQUEST_ANNOTATIONS),
        ),
    )


def binding_spec() -> dict[str, Any]:
    """Return the spec of the binding, as the API server gives it back."""
    return make_binding_spec(GUARD_NAME)


def _unchanged(keys: Sequence[str], *, now: str, before: str) -> dict[str, str]:
    listed = ", ".join(f'"{key}"' for key in keys)
    return validation(
        f"[{listed}].all(key, variables.{now}[?key] == variables.{before}[?key])",
        message=f"kubelets and the pods of a node may not write the {now} {', '.join(keys)}",
    )


def _requested(key: str) -> dict[str, str]:
    """Return the rule about an annotation that an account may be given the right to write.

    The authorizer is asked last, and so only where the annotation changes.
    """
    name = key.removeprefix(PREFIX)
    right = f'authorizer.group("{GROUP}").resource("{REQUESTS_RESOURCE}").name("{name}")'
    return validation(
        f'variables.annotations[?"{key}"] == variables.oldAnnotations[?"{key}"]'
        f' || (!({_IS_KUBELET}) && {right}.check("{REQUESTS_VERB}").allowed())',
        message=(
            f"kubelets may not write the annotation {key}, and the pods of a node only with the right to"
            f" {REQUESTS_VERB} {REQUESTS_RESOURCE}.{GROUP} named {name}: ClusterRole winpool-node-requester"
        ),
    )
