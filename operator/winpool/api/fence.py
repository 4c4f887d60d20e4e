"""The fence: admission policies that keep the operator's own account within what winpool is for.

RBAC knows verbs and resources: who may patch nodes may patch anything on them. The fence says which parts of
a node and of a pool the operator may change, so that neither a fault of the operator nor a stolen token does
more. It is rendered from the tables that the operator itself goes by: ``node_keys`` and the keys that a spec
may name (``syntax``).

What a rule does not name stays as it was: the rules compare all other fields of metadata, spec and status
with the old object, also those that a later Kubernetes adds. They go over the labels and annotations of a
node, which the guard must not do: only the operator's own writes pay for that, and the operator paces
writes that it repeats. A new kind of write is one line here, and the feature that needs it.

None of the expressions can fail on any object, since one that fails refuses the request. Their objects are
``dyn``: a list of the fields that each Kubernetes knows would be out of date with the next.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/using-api/cel/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api import syntax
from winpool.api.admission import make_binding_spec, named
from winpool.api.comparison import (
    SERVER_SET,
    no_new_entries,
    no_new_taints,
    old_and_new,
    only_open_entries,
    only_open_items,
    rule,
    same_but,
    unchanged,
)
from winpool.api.fence_policy import make_fence
from winpool.api.fence_requests import request_policies
from winpool.api.fields import under
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    GROUP,
    NAMESPACE,
    OS_LABEL,
    PLURAL,
    POOL_LABEL,
    RELEASE_FINALIZER,
    UPGRADE_REQUESTED_ANNOTATION,
    VERSION,
)
from winpool.api.node_keys import (
    BORROWED_ANNOTATIONS,
    NODE_KEYS,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    KeyKind,
    SetBy,
)
from winpool.api.rules import cel_list

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE_FENCE: Final = "winpool-fence-nodes"
"""Name of the policy about nodes, and of its binding."""
POOL_FENCE: Final = "winpool-fence-pools"
"""Name of the policy about pools, and of its binding."""
NO_EXECUTE_FENCE: Final = "winpool-fence-noexecute"
"""Name of the policy about NoExecute taints, and of its binding."""

PARAMETERS: Final = "winpool-fence"
"""Name of the ConfigMap, in the operator's namespace, that an admin sets the fence by."""
ALLOW_NO_EXECUTE: Final = "allowNoExecute"
"""Its key that says whether the operator may add NoExecute taints: anything but "true" means no.

An absent key means yes.
"""

ANNOTATIONS: Final = (*OWN_ANNOTATIONS, UPGRADE_REQUESTED_ANNOTATION, *BORROWED_ANNOTATIONS)
"""What the operator writes of annotations. ``winpool.dev/hold`` is for people: it keeps the operator away."""

CONDITIONS: Final = tuple(
    each.name for each in NODE_KEYS if each.kind is KeyKind.CONDITION and each.set_by is SetBy.MEMORY
)
"""What the operator writes of conditions. Those of upgrades have names that other programs act on, and no
room writes them yet."""

_LABELS: Final = (*OWN_LABELS, *syntax.ALLOWED_LABEL_KEYS)
_ALLOWED_DOMAINS: Final = (
    f"^{syntax.NODE_ROLE_DOMAIN.replace('.', '[.]')}/|{under((syntax.NODE_RESTRICTION_DOMAIN,))}"
)
_TAINT_KEYS: Final = tuple(sorted({key for key, _ in OWN_TAINTS}))
_CHANGED_ON_STRAYS: Final = (APPLIED_ANNOTATION, *BORROWED_ANNOTATIONS)
"""Annotations that get another value where a node that is no Windows node any more is released, or a part."""


def policies() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield name, spec of the policy and spec of its binding, as the API server gives them back."""
    yield NODE_FENCE, node_policy(), make_binding_spec(NODE_FENCE)
    yield POOL_FENCE, pool_policy(), make_binding_spec(POOL_FENCE)
    # Where the ConfigMap is missing, nothing is forbidden, as where it has no key.
    parameters = {"name": PARAMETERS, "namespace": NAMESPACE, "parameterNotFoundAction": "Allow"}
    binding = make_binding_spec(NO_EXECUTE_FENCE) | {"paramRef": parameters}
    yield NO_EXECUTE_FENCE, no_execute_policy(), binding
    yield from request_policies()


def node_policy() -> dict[str, Any]:
    """Return the policy that says what of a node the operator may change."""
    label_is_open = (
        f"key in {cel_list(_LABELS)} || key.matches('{_ALLOWED_DOMAINS}')"
        f" || !key.matches('{under(syntax.RESERVED_LABEL_DOMAINS)}')"
    )
    taint_is_open = (
        f"taint.key in {cel_list(_TAINT_KEYS)} || (!(taint.key in {cel_list(syntax.RESERVED_TAINT_KEYS)})"
        f" && !taint.key.matches('{under(syntax.RESERVED_TAINT_DOMAINS)}'))"
    )
    return make_fence(
        resources=("nodes", "nodes/status"),
        api_group="",
        version="v1",
        variables=(
            *old_and_new("labels", "metadata.?labels.orValue({})"),
            *old_and_new("annotations", "metadata.?annotations.orValue({})"),
            *old_and_new("taints", "?spec.?taints.orValue([])"),
            *old_and_new("unschedulable", "?spec.?unschedulable.orValue(false)"),
            *old_and_new("conditions", "?status.?conditions.orValue([])"),
            *old_and_new("spec", "?spec.orValue({})"),
            *old_and_new("status", "?status.orValue({})"),
            named("isWindows", f"variables.oldLabels[?'{OS_LABEL}'].orValue('') == 'windows'"),
        ),
        validations=(
            rule("request.operation == 'UPDATE'", "the operator neither creates nor deletes nodes"),
            same_but("metadata", but=("labels", "annotations", *SERVER_SET)),
            same_but("spec", but=("taints", "unschedulable")),
            same_but("status", but=("conditions",)),
            rule(
                only_open_entries("labels", label_is_open),
                "of labels the operator writes its own and those that a WindowsNodePool may set",
            ),
            rule(
                only_open_entries("annotations", f"key in {cel_list(ANNOTATIONS)}"),
                f"of annotations the operator writes only {', '.join(ANNOTATIONS)}",
            ),
            rule(
                only_open_items("taints", "taint", taint_is_open),
                "of taints the operator writes its own and those that a WindowsNodePool may set",
            ),
            rule(
                only_open_items("conditions", "condition", f"condition.type in {cel_list(CONDITIONS)}"),
                f"of conditions the operator writes only {', '.join(CONDITIONS)}",
            ),
            *_off_windows(),
        ),
    )


def _off_windows() -> Iterator[dict[str, str]]:
    """Yield the rules about a node that was not a Windows node before the write.

    The operator releases such a node where it has the label of a pool: it was a Windows node. A release
    removes, or restores the value from before in a key that pools share with others; only the record says
    which value that is, and an expression cannot read it. While the pool exists, only a part is released, and
    the record goes on to name the rest.
    """
    fields = ("labels", "annotations", "taints", "unschedulable", "conditions")
    same = " && ".join(map(unchanged, fields))
    same_taint = "old.key == taint.key && old.effect == taint.effect"
    yield rule(
        "variables.isWindows || ("
        f"{no_new_entries('labels', f'!(key in {cel_list(OWN_LABELS)})')}"
        f" && {no_new_entries('annotations', f'key in {cel_list(_CHANGED_ON_STRAYS)}')}"
        " && variables.taints.all(taint, taint in variables.oldTaints"
        f" || (!(taint.key in {cel_list(_TAINT_KEYS)}) && variables.oldTaints.exists(old, {same_taint})))"
        " && (!variables.unschedulable || variables.oldUnschedulable)"
        " && variables.conditions.all(condition, condition in variables.oldConditions))",
        f"on a node without the label {OS_LABEL}=windows the operator adds nothing,"
        " and changes no key of its own but the ownership record",
    )
    yield rule(
        f"variables.isWindows || '{POOL_LABEL}' in variables.oldLabels || ({same})",
        f"on a node without the labels {OS_LABEL}=windows and {POOL_LABEL} the operator changes nothing",
    )


def pool_policy() -> dict[str, Any]:
    """Return the policy that says what of a pool the operator may change: its finalizer and the status."""
    others = f"filter(each, each != '{RELEASE_FINALIZER}')"
    return make_fence(
        resources=(PLURAL, f"{PLURAL}/status"),
        api_group=GROUP,
        version=VERSION,
        variables=(
            *old_and_new("finalizers", "metadata.?finalizers.orValue([])"),
            *old_and_new("spec", "?spec.orValue({})"),
        ),
        validations=(
            rule(
                "request.operation == 'UPDATE'", "the operator neither creates nor deletes WindowsNodePools"
            ),
            same_but("metadata", but=("finalizers", *SERVER_SET)),
            rule("variables.spec == variables.oldSpec", "the operator does not change the spec of a pool"),
            rule(
                f"variables.finalizers.{others} == variables.oldFinalizers.{others}",
                f"of finalizers the operator writes only {RELEASE_FINALIZER}",
            ),
        ),
    )


def no_execute_policy() -> dict[str, Any]:
    """Return the policy by which an admin forbids the operator to add NoExecute taints.

    ConfigMaps without ``data`` or without the key allow them: the shipped one has none (``fence_file``).
    """
    allowed = f"params.?data.?{ALLOW_NO_EXECUTE}.orValue('true') == 'true'"
    no_new = no_new_taints("taint.effect == 'NoExecute'")
    policy = make_fence(
        resources=("nodes",),
        api_group="",
        version="v1",
        variables=old_and_new("taints", "?spec.?taints.orValue([])"),
        validations=(
            rule(
                f"{allowed} || {no_new}",
                f"ConfigMap {NAMESPACE}/{PARAMETERS} forbids the operator to add NoExecute taints"
                f" ({ALLOW_NO_EXECUTE} is not true)",
            ),
        ),
    )
    return policy | {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
