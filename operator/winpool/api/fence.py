"""The fence: admission policies that keep the operator's own account within what winpool is for.

RBAC knows verbs and resources: who may patch nodes may patch anything on them. The fence says which parts of
a node and of a pool the operator may change, so that neither a fault of the operator nor a stolen token does
more. It is rendered from the tables that the operator itself goes by: ``NODE_KEYS`` and the keys that a spec
may name (``fields``).

What a rule does not name stays as it was: the rules compare all other fields of metadata, spec and status
with the old object, also those that a later Kubernetes adds. They go over the labels and annotations of a
node, which the guard must not do: only the operator's own writes pay for that, and the operator paces
writes that it repeats. A new kind of write is one line here, and the feature that needs it.

None of the expressions can fail on any object, since one that fails refuses the request. Their objects are
``dyn``: a list of the fields that each Kubernetes knows would be out of date with the next.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/,
https://kubernetes.io/docs/reference/using-api/cel/.

Expressions that compare an object with the one before: what of it a write may change.

They are for the fence. A policy that uses them has the variables ``name`` and ``oldName`` (``old_and_new``).
None of them can fail, since one that fails refuses the request: any field may be missing.

Source: https://kubernetes.io/docs/reference/using-api/cel/.

The part of the fence about requests that change no field: evictions, deletions, and tokens of other accounts.

RBAC gives these rights with ``deploy/overlays/memory``, ``rollout`` and ``force`` only. Without them the
policies are never asked: they are in every installation all the same, so that no right can be there without
its fence.

An eviction is a request about a pod that an expression cannot read. So what is protected here is what the
request itself says: the namespace, and how the pod is to end. A drain has to evict pods of the system too,
memory pressure never does. Which of the two an installation has, a right says that the policy asks for.

A deletion is about a pod that an expression can read, though not its node. So what a drain never deletes is
refused: pods of DaemonSets and static pods, and those that are for other nodes than Windows nodes.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from winpool.api.admission import make_binding_spec, make_policy_spec, named, validation
from winpool.api.events import CLUSTER_EVENTS, EventReason
from winpool.api.fields import (
    ALLOWED_LABEL_KEYS,
    NODE_RESTRICTION_DOMAIN,
    NODE_ROLE_DOMAIN,
    RESERVED_LABEL_DOMAINS,
    RESERVED_TAINT_DOMAINS,
    RESERVED_TAINT_KEYS,
    under,
)
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    BORROWED_ANNOTATIONS,
    CONDITIONS,
    GROUP,
    NAMESPACE,
    OPERATOR_USER,
    OS_LABEL,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    PLURAL,
    POOL_LABEL,
    READER_ACCOUNT,
    RELEASE_FINALIZER,
    REPORTING_CONTROLLER,
    SYSTEM_NAMESPACE_PREFIXES,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_RETRY_ANNOTATION,
    VERSION,
)
from winpool.api.model import cel_list


def make_fence(
    *,
    resources: Iterable[str],
    api_group: str = "",
    version: str = "v1",
    variables: Iterable[dict[str, str]] = (),
    validations: Iterable[dict[str, str]],
) -> dict[str, Any]:
    """Return the spec of a policy about every write of the operator's account to ``resources``.

    Those are of the core group, unless another is named.
    """
    return make_policy_spec(
        api_group=api_group,
        version=version,
        resources=resources,
        operations=("CREATE", "UPDATE", "DELETE"),
        condition=named("the-operator", f'request.userInfo.?username.orValue("") == "{OPERATOR_USER}"'),
        variables=variables,
        validations=validations,
    )


SERVER_SET: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
"""Fields of metadata that the API server sets, whatever is sent."""


def old_and_new(name: str, path: str) -> tuple[dict[str, str], ...]:
    """Return the variables ``name`` and ``oldName``: what is at ``path``, sent and before."""
    return named(name, f"dyn(object).{path}"), named(_old(name), f"dyn(oldObject).{path}")


def _old(name: str) -> str:
    return f"old{name[0].upper()}{name[1:]}"


def _now_and_before(name: str) -> tuple[str, str]:
    return f"variables.{name}", f"variables.{_old(name)}"


def unchanged(name: str) -> str:
    """Return that a variable is what it was before."""
    now, before = _now_and_before(name)
    return f"{now} == {before}"


def rule(expression: str, message: str) -> dict[str, str]:
    """Return a rule about updates. What is created or deleted, the first rule of each policy refuses."""
    if "request.operation" not in expression:
        expression = f"request.operation != 'UPDATE' || ({expression})"
    return validation(expression, message=message)


def same_but(part: str, *, but: tuple[str, ...]) -> dict[str, str]:
    """Return the rule that of ``part`` of the object only the fields in ``but`` change."""
    now, before = f"dyn(object).?{part}.orValue({{}})", f"dyn(oldObject).?{part}.orValue({{}})"
    changed = (
        f"{now}.all(field, field in {cel_list(but)} || {now}[?field] == {before}[?field])"
        f" && {before}.all(field, field in {cel_list(but)} || field in {now})"
    )
    allowed = [each for each in but if each not in SERVER_SET]
    return rule(changed, f"of {part} the operator writes only {', '.join(allowed)}")


def only_open_entries(name: str, is_open: str) -> str:
    """Return that two maps differ only in keys for which ``is_open`` holds, which names ``key``."""
    now, before = _now_and_before(name)
    return (
        f"{unchanged(name)}"
        f" || ({now}.all(key, {now}[?key] == {before}[?key] || {is_open})"
        f" && {before}.all(key, key in {now} || {is_open}))"
    )


def only_open_items(name: str, item: str, is_open: str) -> str:
    """Return that two lists differ only in items for which ``is_open`` holds, which names ``item``."""
    now, before = _now_and_before(name)
    return (
        f"{now}.all({item}, {item} in {before} || {is_open})"
        f" && {before}.all({item}, {item} in {now} || {is_open})"
    )


def no_new_entries(name: str, may_change: str) -> str:
    """Return that a map has no new key, and a new value only where ``may_change`` holds.

    ``may_change`` names ``key``.
    """
    now, before = _now_and_before(name)
    return f"{now}.all(key, key in {before} && ({now}[?key] == {before}[?key] || {may_change}))"


EVICTION_FENCE: Final = "winpool-fence-evictions"
"""Name of the policy about evictions, and of its binding."""
POD_FENCE: Final = "winpool-fence-pods"
"""Name of the policy about deletions of pods, and of its binding."""
EVENT_FENCE: Final = "winpool-fence-events"
"""Name of the policy about events, and of its binding."""
TOKEN_FENCE: Final = "winpool-fence-tokens"  # noqa: S105 - a name
"""Name of the policy about tokens, and of its binding."""

TOKEN_SECONDS: Final = 600
"""How long a token may live at most: as long as one is asked for (``kube/tokens.py``)."""
_DEFAULT_SECONDS: Final = 3600
"""How long the API server has one live whose request does not say it."""

SYSTEM_PODS: Final = "systempods"
EVICT: Final = "evict"
"""The right to evict pods of the system's namespaces, in addition to the right to evict: this verb on a
resource of the group winpool.dev that nobody serves. It is not a parameter: those of a binding are looked up
before its conditions, so where the ConfigMap is missing, either nothing is refused, or the evictions of all
users are (``parameterNotFoundAction``):
https://github.com/kubernetes/apiserver/blob/v0.37.1/pkg/admission/plugin/policy/validating/dispatcher.go"""

_SYSTEM: Final = "|".join(SYSTEM_NAMESPACE_PREFIXES)
_MAY_EVICT_SYSTEM: Final = f"authorizer.group('{GROUP}').resource('{SYSTEM_PODS}').check('{EVICT}').allowed()"
_EVICTS_HERE: Final = (
    f"request.namespace != '{NAMESPACE}'"
    f" && (!request.namespace.matches('^({_SYSTEM})') || {_MAY_EVICT_SYSTEM})"
)
"""Whether the operator may evict pods of the request's namespace. The authorizer is asked last, and so only
about a namespace of the system."""


def eviction_policy() -> dict[str, Any]:
    """Return the policy that says which evictions the operator may ask for."""
    options = "dyn(object).?deleteOptions"
    return make_fence(
        resources=("pods/eviction",),
        validations=(
            validation(
                f"{options}.?preconditions.?uid.orValue('') != ''",
                message="an eviction of the operator names the UID of the pod",
            ),
            validation(
                f"!{options}.?gracePeriodSeconds.hasValue()",
                message="an eviction of the operator leaves the pod its own grace period",
            ),
            validation(
                _EVICTS_HERE,
                message=f"the operator evicts no pod of {NAMESPACE}, and those of a namespace that begins"
                f" with {' or '.join(SYSTEM_NAMESPACE_PREFIXES)} only with the right to"
                f" {EVICT} {SYSTEM_PODS}.{GROUP}: ClusterRole winpool-rollout",
            ),
        ),
    )


_MIRROR: Final = "kubernetes.io/config.mirror"
"""Annotation of the pods that the API server shows in place of static ones."""


def pod_policy() -> dict[str, Any]:
    """Return the policy that says which pods the operator may delete, and how.

    A request to delete a collection names no UID. A grace that a request does not name, or that is negative,
    the API server has set by now: that of the pod, 1, or 0 for a pod on no node.
    """
    pod, options = "dyn(oldObject)", "dyn(request.options)"
    spec, grace = f"{pod}.?spec", "variables.grace"
    own = f"{spec}.?terminationGracePeriodSeconds.orValue(0)"
    return make_fence(
        resources=("pods",),
        variables=(named("grace", f"{options}.?gracePeriodSeconds.orValue(0)"),),
        validations=(
            validation(
                "request.operation == 'DELETE'", message="the operator neither creates nor changes pods"
            ),
            _of_deletions(
                f"{options}.?preconditions.?uid.orValue('') != ''"
                f" && {options}.?preconditions.?resourceVersion.orValue('') != ''",
                "a deletion of the operator names the UID and the resourceVersion of the pod",
            ),
            _of_deletions(
                f"{grace} == 1 || ({grace} > 1 && {grace} <= {own})",
                "a deletion of the operator gives the pod at least a second, and no more than its own grace"
                " period",
            ),
            _of_deletions(
                _EVICTS_HERE,
                f"the operator deletes no pod of {NAMESPACE}, and those of a namespace that begins"
                f" with {' or '.join(SYSTEM_NAMESPACE_PREFIXES)} only with the right to"
                f" {EVICT} {SYSTEM_PODS}.{GROUP}: ClusterRole winpool-rollout",
            ),
            _of_deletions(
                f"!({pod}.?metadata.?annotations[?'{_MIRROR}'].hasValue())"
                f" && !{pod}.?metadata.?ownerReferences.orValue([]).exists(owner,"
                " owner.?controller.orValue(false) && owner.kind in ['DaemonSet', 'Node'])",
                "the operator deletes no pod that is static or of a DaemonSet",
            ),
            _of_deletions(
                f"{spec}.?os.?name.orValue('windows') == 'windows'"
                f" && {spec}.?nodeSelector[?'{OS_LABEL}'].orValue('windows') == 'windows'",
                "the operator deletes no pod that is for another system than Windows",
            ),
        ),
    )


def _of_deletions(expression: str, message: str) -> dict[str, str]:
    """Return a rule about deletions; the first rule of the policy refuses all other requests."""
    return validation(f"request.operation != 'DELETE' || ({expression})", message=message)


def event_policy() -> dict[str, Any]:
    """Return the policy that says which events the operator may write.

    Through this version of the API no update changes what an event is about or who reports it. So an event
    of others is not one of ours after an update, either.
    """
    event = "dyn(object)"
    return make_fence(
        resources=("events",),
        api_group="events.k8s.io",
        validations=(
            validation(
                f"request.namespace == '{CLUSTER_EVENTS}' || (request.operation != 'DELETE'"
                f" && {event}.?reportingController.orValue('') == '{REPORTING_CONTROLLER}'"
                f" && {event}.?reason.orValue('') == '{EventReason.POD_EVICTED}'"
                f" && {event}.?regarding.?kind.orValue('') == 'Pod'"
                f" && {event}.?regarding.?namespace.orValue('') == request.namespace"
                f" && {_EVICTS_HERE})",
                message=f"in other namespaces than {CLUSTER_EVENTS} the operator writes only events"
                f" {EventReason.POD_EVICTED} about Pods, where it may evict them",
            ),
        ),
    )


def token_policy() -> dict[str, Any]:
    """Return the policy that says which tokens the operator may ask for."""
    return make_fence(
        resources=("serviceaccounts/token",),
        validations=(
            validation(
                f"request.namespace == '{NAMESPACE}' && request.name == '{READER_ACCOUNT}'",
                message=f"the operator gets tokens of the ServiceAccount {NAMESPACE}/{READER_ACCOUNT} only",
            ),
            validation(
                f"dyn(object).?spec.?expirationSeconds.orValue({_DEFAULT_SECONDS}) <= {TOKEN_SECONDS}",
                message=f"a token that the operator gets lives at most {TOKEN_SECONDS} seconds",
            ),
        ),
    )


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
SERVED_ANNOTATIONS: Final = (UPGRADE_DONE_ANNOTATION, UPGRADE_RETRY_ANNOTATION)
"""What the operator only removes of annotations: what others have asked for, once it is served."""

_LABELS: Final = (*OWN_LABELS, *ALLOWED_LABEL_KEYS)
_ALLOWED_DOMAINS: Final = f"^{NODE_ROLE_DOMAIN.replace('.', '[.]')}/|{under((NODE_RESTRICTION_DOMAIN,))}"
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
    yield EVICTION_FENCE, eviction_policy(), make_binding_spec(EVICTION_FENCE)
    yield POD_FENCE, pod_policy(), make_binding_spec(POD_FENCE)
    yield EVENT_FENCE, event_policy(), make_binding_spec(EVENT_FENCE)
    yield TOKEN_FENCE, token_policy(), make_binding_spec(TOKEN_FENCE)


def node_policy() -> dict[str, Any]:
    """Return the policy that says what of a node the operator may change."""
    label_is_open = (
        f"key in {cel_list(_LABELS)} || key.matches('{_ALLOWED_DOMAINS}')"
        f" || !key.matches('{under(RESERVED_LABEL_DOMAINS)}')"
    )
    annotation_is_open = (
        f"key in {cel_list(ANNOTATIONS)}"
        f" || (key in {cel_list(SERVED_ANNOTATIONS)} && !(key in variables.annotations))"
    )
    taint_is_open = (
        f"taint.key in {cel_list(_TAINT_KEYS)} || (!(taint.key in {cel_list(RESERVED_TAINT_KEYS)})"
        f" && !taint.key.matches('{under(RESERVED_TAINT_DOMAINS)}'))"
    )
    return make_fence(
        resources=("nodes", "nodes/status"),
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
                only_open_entries("annotations", annotation_is_open),
                f"of annotations the operator writes only {', '.join(ANNOTATIONS)},"
                f" and removes {', '.join(SERVED_ANNOTATIONS)}",
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
    # One with another value is another taint: pods may tolerate the old value only.
    no_new = (
        "variables.taints.all(taint, !(taint.effect == 'NoExecute') || variables.oldTaints.exists(old,"
        " old.key == taint.key && old.effect == taint.effect"
        " && old.?value.orValue('') == taint.?value.orValue('')))"
    )
    policy = make_fence(
        resources=("nodes",),
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
