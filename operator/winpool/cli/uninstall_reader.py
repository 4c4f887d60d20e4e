"""Reads what the plan of an uninstallation needs: a few lists and gets, and no write."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

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
from winpool.cli.lenient import items, mapping
from winpool.cli.reasons import GARBLED, NotAskedError, reason_of
from winpool.cli.uninstall_plan import (
    Facts,
    FenceFact,
    GuardFact,
    Unread,
    deployment_fact,
    lease_fact,
    pool_fact,
)
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError, Forbidden, NotFound
from winpool.kube.guard import identity_of, problem_of
from winpool.kube.lists import Pager
from winpool.kube.named import Target
from winpool.kube.nodes import listing_of
from winpool.kube.pools import LISTING
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from winpool.cli.uninstall_plan import DeploymentFact, LeaseFact, PoolFact
    from winpool.kube.lists import ListPage
    from winpool.kube.named import NamedObject
    from winpool.model.node import Node

T = TypeVar("T")

_ALL_NODES: Final = ""
"""As a selector. What is on a node can be an annotation or a taint only, which nothing selects by."""

_IN_NAMESPACE: Final = f"namespaces/{NAMESPACE}"
_DEPLOYMENTS: Final = Request(
    verb="list",
    resource="deployments",
    path=f"/apis/apps/v1/{_IN_NAMESPACE}/deployments?labelSelector=app.kubernetes.io%2Fname%3Dwinpool",
)
_LEASES: Final = Request(
    verb="list", resource="leases", path=f"/apis/coordination.k8s.io/v1/{_IN_NAMESPACE}/leases"
)
_NAMESPACES: Final = Request(
    verb="list",
    resource="namespaces",
    path=f"/api/v1/namespaces?fieldSelector=metadata.name%3D{NAMESPACE}",
)


def read_facts(*, kubeconfig: str | None, context: str | None) -> Facts:
    """Return what the cluster has.

    Raises NotAskedError where there are no usable credentials or no answer, and where the right to list pools
    or nodes is missing. Without another right, what it is for is an Unread.
    """
    try:
        return asyncio.run(_read(kubeconfig=kubeconfig, context=context))
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error
    except (*BROKEN, json.JSONDecodeError) as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


async def _read(*, kubeconfig: str | None, context: str | None) -> Facts:
    flags = {"--kubeconfig": kubeconfig, "--context": context}
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    async with Transport(connection) as transport:
        pools, nodes = await _allowed(_pools(transport)), await _allowed(_nodes(transport))
        if refused := [each.why for each in (pools, nodes) if isinstance(each, Unread)]:
            raise NotAskedError("; ".join(refused))
        assert not isinstance(pools, Unread)
        assert not isinstance(nodes, Unread)
        known, unread = nodes
        return Facts(
            now=datetime.now(UTC),
            pools=pools,
            nodes=known,
            unread_nodes=unread,
            namespace=await _allowed(_namespace(transport)),
            deployments=await _allowed(_deployments(transport)),
            leases=await _allowed(_leases(transport)),
            guard=await _allowed(_guard(transport)),
            fence=await _allowed(_fence(transport)),
            crd=await _allowed(_crd(transport)),
            flags=tuple(part for flag, value in flags.items() if value for part in (flag, value)),
        )


async def _allowed(answer: Awaitable[T]) -> T | Unread:
    """Return the answer, or which right is missing. Raises the other ApiErrors."""
    try:
        return await answer
    except Forbidden as error:
        return Unread(reason_of(error))


async def _pools(transport: Transport) -> tuple[PoolFact, ...]:
    try:
        found, _ = await Pager(transport.request, LISTING).collect(lambda page: page.items)
    except NotFound:
        return ()  # without the CRD there is no pool
    return tuple(sorted(map(pool_fact, found), key=lambda each: each.name))


async def _nodes(transport: Transport) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Return all nodes, and of those that cannot be read what is wrong with them."""

    def both(page: ListPage[Node]) -> list[tuple[tuple[Node, ...], tuple[str, ...]]]:
        return [(page.items, tuple(str(error) for error in page.unreadable))]

    pages, _ = await Pager(transport.request, listing_of(_ALL_NODES)).collect(both)
    return (
        tuple(node for nodes, _ in pages for node in nodes),
        tuple(problem for _, problems in pages for problem in problems),
    )


async def _namespace(transport: Transport) -> bool:
    return bool(await _items(transport, _NAMESPACES))


async def _deployments(transport: Transport) -> tuple[DeploymentFact, ...]:
    return tuple(map(deployment_fact, await _items(transport, _DEPLOYMENTS)))


async def _leases(transport: Transport) -> tuple[LeaseFact, ...]:
    return tuple(map(lease_fact, await _items(transport, _LEASES)))


async def _items(transport: Transport, request: Request) -> list[Mapping[str, Any]]:
    answer = json.loads(await transport.request(request))
    return [mapping(each) for each in items(mapping(answer).get("items"))]


async def _guard(transport: Transport) -> GuardFact:
    policy = await _named(transport, _policy(GUARD_NAME))
    binding = await _named(transport, _binding(GUARD_NAME))
    problem = problem_of(policy, binding)
    identity = identity_of(policy, binding) if policy and binding and not problem else ""
    return GuardFact(found=bool(policy or binding), problem=problem, identity=identity)


async def _fence(transport: Transport) -> FenceFact:
    parts = [target for name, _, _ in policies() for target in (_policy(name), _binding(name))]
    missing = [each for each in parts if await _named(transport, each) is None]
    return FenceFact(
        found=len(missing) < len(parts), missing=tuple(f"{each.kind} {each.name}" for each in missing)
    )


async def _crd(transport: Transport) -> bool:
    target = Target(
        group="apiextensions.k8s.io",
        version="v1",
        resource="customresourcedefinitions",
        kind="CustomResourceDefinition",
        name=CRD_NAME,
    )
    return await _named(transport, target) is not None


async def _named(transport: Transport, target: Target) -> NamedObject | None:
    page = target.decode_page(await transport.request(target.list_request()))
    return next(iter(page.items), None)


def _policy(name: str) -> Target:
    return Target(group=API_GROUP, version=API_VERSION, resource=POLICIES, kind=POLICY_KIND, name=name)


def _binding(name: str) -> Target:
    return Target(group=API_GROUP, version=API_VERSION, resource=BINDINGS, kind=BINDING_KIND, name=name)
