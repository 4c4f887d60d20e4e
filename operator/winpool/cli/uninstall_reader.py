"""Reads what the plan of an uninstallation is made from: ten lists, and no write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from winpool.api.admission import GUARD_NAME
from winpool.api.fence import policies
from winpool.api.keys import CRD_NAME, NAMESPACE
from winpool.cli.kubectl import Kubectl, KubectlError, NotAskedError
from winpool.cli.kubectl_flags import shown
from winpool.cli.lenient import Fields
from winpool.cli.reader import list_nodes, read_pools
from winpool.cli.uninstall_plan import NAME_LABEL, DeploymentFact, Facts, FenceFact, GuardFact, LeaseFact
from winpool.kube.guard import BINDING, POLICY, identity_of, problem_of
from winpool.kube.lists import ListPage
from winpool.kube.wire import ListOf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from winpool.kube.named import NamedObject
    from winpool.model.pool import Pool

T = TypeVar("T")

_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_RIGHTS: Final = (f"{_RBAC}/clusterroles", f"{_RBAC}/clusterrolebindings")
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_list: Final = msgspec.json.Decoder(ListOf[dict[str, Any]])


def read_facts(kubectl: Kubectl, flags: Sequence[str]) -> Facts:
    """Return what the cluster has. Commands that are shown get those of ``flags`` that choose it.

    Raises NotAskedError where kubectl cannot ask, and where the right to list pools or nodes is missing.
    Where another right is missing, what it is for is None, and ``unread`` says which right.
    """
    unread: dict[str, str] = {}

    def known(part: str, read: Callable[[], T]) -> T | None:
        """Return what ``read`` does, or note which right is missing. Raises NotAskedError otherwise."""
        try:
            return read()
        except KubectlError as error:
            if error.reason != "Forbidden":
                raise
            unread[part] = str(error)
            return None

    def listed(
        path: str, decode: Callable[[bytes], ListPage[T]], **query: str
    ) -> Callable[[], tuple[T, ...]]:
        pages = kubectl.begin(lambda: kubectl.whole(path, decode, **query))
        return lambda: tuple(each for page in pages.result() for each in page.items)

    pools = known("the pools", lambda: _pools(kubectl))
    nodes_of = kubectl.begin(lambda: list_nodes(kubectl)).result
    namespaces = listed("/api/v1/namespaces", _objects, fieldSelector=f"metadata.name={NAMESPACE}")
    deployments = listed(_DEPLOYMENTS, _objects, labelSelector=NAME_LABEL)
    rights = [listed(each, _objects, labelSelector=NAME_LABEL) for each in _RIGHTS]
    leases = listed(_LEASES, _objects)
    policies_of = listed(POLICY.listing.collection, POLICY.decode_page)
    bindings_of = listed(BINDING.listing.collection, BINDING.decode_page)
    crds = listed(_CRDS, _objects, fieldSelector=f"metadata.name={CRD_NAME}")
    nodes, now = known("the nodes", nodes_of), datetime.now(UTC)
    if pools is None or nodes is None:
        raise NotAskedError("; ".join(unread.values()))
    return Facts(
        pools=pools,
        nodes=nodes.nodes,
        unread_nodes=nodes.unread,
        namespace=known("the namespace", lambda: bool(namespaces())),
        deployments=known("the Deployment", lambda: tuple(map(deployment_fact, deployments()))),
        leases=known("the Lease", lambda: tuple(lease_fact(each, now=now) for each in leases())),
        guard=known("the guard", lambda: guard_fact(policies_of(), bindings_of())),
        fence=known("the fence", lambda: fence_fact(policies_of(), bindings_of())),
        roles=known("the rights", lambda: tuple(sorted({_name(each) for read in rights for each in read()}))),
        crd=known("the CRD", lambda: bool(crds())),
        unread=unread,
        flags=shown(flags),
    )


def _pools(kubectl: Kubectl) -> tuple[Pool, ...]:
    try:
        return read_pools(kubectl)
    except KubectlError as error:
        if not error.is_missing_kind:
            raise
        return ()  # without the CRD there is no pool


def _objects(body: bytes) -> ListPage[Fields]:
    page = _list.decode(body)
    found = tuple(map(Fields, page.items or ()))
    return ListPage(found, page.metadata.resource_version, page.metadata.continue_)


def _name(found: Fields) -> str:
    return found.one("metadata").text("name")


def deployment_fact(found: Fields) -> DeploymentFact:
    """Read a Deployment."""
    return DeploymentFact(
        name=_name(found),
        replicas=found.one("spec").count("replicas"),
        ready_replicas=found.one("status").count("readyReplicas"),
        release=found.one("metadata").one("annotations").text("meta.helm.sh/release-name"),
    )


def lease_fact(found: Fields, *, now: datetime) -> LeaseFact:
    """Read a Lease. It is live where its holder has renewed it in time, as far as the clocks agree."""
    spec = found.one("spec")
    holder, renewed = spec.text("holderIdentity"), spec.moment("renewTime")
    live = renewed is not None and (now - renewed).total_seconds() <= spec.count("leaseDurationSeconds")
    return LeaseFact(name=_name(found), holder=holder, live=bool(holder) and live)


def guard_fact(policies_found: Iterable[NamedObject], bindings_found: Iterable[NamedObject]) -> GuardFact:
    """Return what there is of the guard."""
    policy, binding = (
        next((each for each in found if each.name == GUARD_NAME), None)
        for found in (policies_found, bindings_found)
    )
    problem = problem_of(policy, binding)
    identity = identity_of(policy, binding) if policy and binding and not problem else ""
    return GuardFact(found=bool(policy or binding), problem=problem, identity=identity)


def fence_fact(policies_found: Iterable[NamedObject], bindings_found: Iterable[NamedObject]) -> FenceFact:
    """Return what there is of the fence, of which each policy has a binding of its name."""
    there = [
        (kind.kind, {each.name for each in found})
        for kind, found in ((POLICY, policies_found), (BINDING, bindings_found))
    ]
    parts = [(f"{kind} {name}", name in names) for name, _, _ in policies() for kind, names in there]
    missing = tuple(part for part, is_there in parts if not is_there)
    return FenceFact(found=len(missing) < len(parts), missing=missing)
