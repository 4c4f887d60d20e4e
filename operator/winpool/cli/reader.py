"""Reads pools, nodes, the version of the API server and who leads, through kubectl, as they are now."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.keys import LEASE, NAMESPACE
from winpool.api.model import InvalidSpecError
from winpool.api.spec import WindowsNodePool
from winpool.api.text import written_moment
from winpool.cli.kubectl import (
    GARBLED,
    Kubectl,
    KubectlError,
    NoSuchPoolError,
    NotAskedError,
    decoded,
    read_lease,
)
from winpool.kube.lists import ListPage
from winpool.kube.nodes import NODES_PATH, decode_page
from winpool.kube.pools import POOLS_PATH, PoolObject, decode_pool_page
from winpool.kube.wire import server_version
from winpool.model.pool import NO_ROOM, Pool, read_pool

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.api.selector import NodeSelector
    from winpool.model.node import Node


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes by name, and what is wrong with those that cannot be read."""

    nodes: tuple[Node, ...]
    unread: tuple[str, ...]


def list_pools(kubectl: Kubectl, **query: str) -> ListPage[Mapping[str, Any]]:
    """Return all pools that ``query`` selects, by name. Raises NotAskedError."""
    pages = kubectl.whole(POOLS_PATH, decode_pool_page, **query)
    found = (pool for page in pages for pool in page.items)
    pools = tuple(sorted(found, key=lambda each: str(each["metadata"]["name"])))
    return ListPage(pools, pages[0].resource_version)


def read_pools(kubectl: Kubectl) -> tuple[Pool, ...]:
    """Return all pools, read. Raises NotAskedError."""
    try:
        return tuple([read_pool(each, refusal=_no_room(each)) for each in list_pools(kubectl).items])
    except InvalidSpecError as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


def _no_room(body: Mapping[str, Any]) -> str:
    """Return that the operator does not read this spec for want of room, if it says so of this generation."""
    conditions = (body.get("status") or {}).get("conditions") or ()
    said = {(each.get("observedGeneration"), each.get("message")) for each in conditions}
    return NO_ROOM if (body["metadata"].get("generation"), NO_ROOM) in said else ""


def list_nodes(kubectl: Kubectl, selector: str = "", *, name: str = "") -> Nodes:
    """Return the nodes that have these labels, or the one of that name. Raises NotAskedError."""
    query = {"fieldSelector": f"metadata.name={name}"} if name else {}
    if selector:
        query["labelSelector"] = selector
    pages = kubectl.whole(NODES_PATH, decode_page, **query)
    return Nodes(
        tuple(sorted((node for page in pages for node in page.items), key=lambda each: each.name)),
        tuple(sorted(str(error) for page in pages for error in page.unreadable)),
    )


def read_version(kubectl: Kubectl) -> str:
    """Return the ``gitVersion`` of the API server. Raises NotAskedError."""
    return decoded(server_version.decode, kubectl.get("/version")).git_version


RENEWALS_SECONDS: Final = 5.0
"""In which a holder renews its Lease twice, of which one may fail (``lease_rules.RETRY_SECONDS``)."""


def leader_problem(kubectl: Kubectl) -> str:
    """Return why no operator leads, in a sentence; empty where one renews its Lease.

    One that looks old, or of the future, is read again after ``RENEWALS_SECONDS``: the clock here may be
    wrong. Raises NotAskedError where it cannot be read, also where there is none: an operator without leader
    election may run.
    """
    seen = read_lease(kubectl)
    age = (datetime.now(UTC) - seen.renewed).total_seconds() if seen.renewed is not None else -1.0
    if seen.holder and not 0 <= age <= seen.seconds:
        time.sleep(RENEWALS_SECONDS)
        before, seen = seen, read_lease(kubectl)
        if seen.mark == before.mark:
            last = written_moment(seen.renewed) if seen.renewed is not None else "not readable"
            return f"No operator leads: {seen.shown} does not renew its Lease (last renewal: {last})."
    return "" if seen.holder else f"No operator leads: no one holds the Lease {NAMESPACE}/{LEASE}."


def pool_and_version(name: str, flags: Sequence[str]) -> tuple[Mapping[str, Any], str]:
    """Return the pool, and the version of the API server. Raises NoSuchPoolError and NotAskedError."""
    with Kubectl(flags) as kubectl:
        return pool_content(kubectl, name), read_version(kubectl)


def pool_selector(kubectl: Kubectl, pool: str) -> NodeSelector:
    """Return the selector of a pool. Raises NoSuchPoolError and NotAskedError."""
    try:
        return WindowsNodePool.from_object(pool_content(kubectl, pool)).spec.node_selector
    except InvalidSpecError as error:
        raise NotAskedError(f"the pool {pool} cannot be read: {'; '.join(error.problems)}") from None


def pool_content(kubectl: Kubectl, name: str) -> Mapping[str, Any]:
    """Return the pool as the API server has it. Raises NoSuchPoolError and NotAskedError."""
    try:
        return dict(decoded(msgspec.json.Decoder(PoolObject).decode, kubectl.get(f"{POOLS_PATH}/{name}")))
    except KubectlError as error:
        if error.reason == "NotFound" and f'"{name}" not found' in error.said:
            raise NoSuchPoolError(name) from error
        raise
