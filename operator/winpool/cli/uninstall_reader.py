"""Reads what the plan of an uninstallation needs: eight lists, and no write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from winpool.api.admission import (
    API_GROUP,
    API_VERSION,
    BINDING_KIND,
    BINDINGS,
    GUARD_NAME,
    POLICIES,
    POLICY_KIND,
)
from winpool.api.fence import policies
from winpool.api.keys import CRD_NAME, NAMESPACE
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError, complete
from winpool.cli.kubectl_flags import shown
from winpool.cli.lenient import count, mapping, text
from winpool.cli.reader import list_nodes, list_pools
from winpool.cli.uninstall_plan import (
    Facts,
    FenceFact,
    GuardFact,
    Unread,
    deployment_fact,
    lease_fact,
    pool_fact,
)
from winpool.kube.guard import identity_of, problem_of
from winpool.kube.named import NamedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from winpool.cli.uninstall_plan import PoolFact

T = TypeVar("T")
Objects: TypeAlias = "tuple[Mapping[str, Any], ...]"

_IN_NAMESPACE: Final = f"namespaces/{NAMESPACE}"


class _Page(msgspec.Struct):
    """A page of a list of any kind."""

    metadata: dict[str, Any]
    items: list[dict[str, Any]] | None

    @property
    def continue_token(self) -> str:
        return text(self.metadata.get("continue"))


_decode: Final = msgspec.json.Decoder(_Page).decode


def read_facts(flags: Sequence[str]) -> Facts:
    """Return what the cluster has.

    Raises NotAskedError where kubectl cannot ask, and where the right to list pools or nodes is missing.
    Without another right, what it is for is an Unread.
    """
    with Kubectl(flags) as kubectl:
        return facts_of(kubectl, flags)


def facts_of(kubectl: Kubectl, flags: Sequence[str] = ()) -> Facts:
    """Return what ``read_facts`` does, by calls of ``kubectl``."""

    def listed(path: str, **query: str) -> Callable[[], Objects | Unread]:
        return kubectl.begin(lambda: _allowed(lambda: _items(kubectl, path, query))).result

    pools = _allowed(lambda: _pools(kubectl))
    nodes_of = kubectl.begin(lambda: _allowed(lambda: list_nodes(kubectl))).result
    namespaces = listed("/api/v1/namespaces", fieldSelector=f"metadata.name={NAMESPACE}")
    deployments = listed(
        f"/apis/apps/v1/{_IN_NAMESPACE}/deployments", labelSelector="app.kubernetes.io/name=winpool"
    )
    leases = listed(f"/apis/coordination.k8s.io/v1/{_IN_NAMESPACE}/leases")
    policies_of, bindings_of = (
        listed(f"/apis/{API_GROUP}/{API_VERSION}/{each}") for each in (POLICIES, BINDINGS)
    )
    crds = listed(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", fieldSelector=f"metadata.name={CRD_NAME}"
    )
    nodes = nodes_of()
    if isinstance(pools, Unread) or isinstance(nodes, Unread):
        raise NotAskedError("; ".join(each.why for each in (pools, nodes) if isinstance(each, Unread)))
    guard, fence = _guard_and_fence(policies_of(), bindings_of())
    return Facts(
        now=datetime.now(UTC),
        pools=pools,
        nodes=nodes.nodes,
        unread_nodes=nodes.unread,
        namespace=_made(namespaces(), bool),
        deployments=_made(deployments(), lambda found: tuple(map(deployment_fact, found))),
        leases=_made(leases(), lambda found: tuple(map(lease_fact, found))),
        guard=guard,
        fence=fence,
        crd=_made(crds(), bool),
        flags=shown(flags),
    )


def _allowed(read: Callable[[], T]) -> T | Unread:
    """Return what ``read`` does, or which right is missing. Raises NotAskedError for another reason."""
    try:
        return read()
    except KubectlError as error:
        if error.reason != "Forbidden":
            raise
        return Unread(str(error))


def _pools(kubectl: Kubectl) -> tuple[PoolFact, ...]:
    try:
        return tuple(map(pool_fact, list_pools(kubectl).pools))
    except KubectlError as error:
        if not error.is_missing_kind:
            raise
        return ()  # without the CRD there is no pool


def _items(kubectl: Kubectl, path: str, query: Mapping[str, str]) -> Objects:
    pages = complete(lambda: list(kubectl.pages(path, _decode, **query)))
    return tuple(each for page in pages for each in page.items or ())


def _made(found: Objects | Unread, make: Callable[[Objects], T]) -> T | Unread:
    return found if isinstance(found, Unread) else make(found)


def _guard_and_fence(
    policies_found: Objects | Unread, bindings_found: Objects | Unread
) -> tuple[GuardFact | Unread, FenceFact | Unread]:
    """Return what there is of the guard and of the fence, of which each policy has a binding of its name."""
    if isinstance(policies_found, Unread):
        return policies_found, policies_found
    if isinstance(bindings_found, Unread):
        return bindings_found, bindings_found
    has_policy, has_binding = _by_name(policies_found), _by_name(bindings_found)
    policy, binding = has_policy.get(GUARD_NAME), has_binding.get(GUARD_NAME)
    problem = problem_of(policy, binding)
    identity = identity_of(policy, binding) if policy and binding and not problem else ""
    parts = [
        (f"{kind} {name}", name in found)
        for name, _, _ in policies()
        for kind, found in ((POLICY_KIND, has_policy), (BINDING_KIND, has_binding))
    ]
    return (
        GuardFact(found=bool(policy or binding), problem=problem, identity=identity),
        FenceFact(
            found=any(is_there for _, is_there in parts),
            missing=tuple(part for part, is_there in parts if not is_there),
        ),
    )


def _by_name(found: Objects) -> Mapping[str, NamedObject]:
    return {each.name: each for each in map(_named, found)}


def _named(found: Mapping[str, Any]) -> NamedObject:
    metadata = mapping(found.get("metadata"))
    return NamedObject(
        name=text(metadata.get("name")),
        uid=text(metadata.get("uid")),
        resource_version=text(metadata.get("resourceVersion")),
        generation=count(metadata.get("generation")),
        spec=mapping(found.get("spec")),
        changed=None,
    )
