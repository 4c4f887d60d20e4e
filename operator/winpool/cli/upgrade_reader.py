"""Reads once, with the user's own credentials, all that upgrades depend on.

The pools, all Windows nodes and the version of the API server. Where a pool has ``spec.upgrade``, also all
pods and PodDisruptionBudgets.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote, urlencode

from winpool.api.model import InvalidSpecError
from winpool.cli.reasons import GARBLED, NotAskedError, reason_of
from winpool.cli.upgrade_world import Cluster
from winpool.features.contract.taints import question_of
from winpool.kube.budgets import BudgetLister
from winpool.kube.client import Transport
from winpool.kube.control_plane import VERSION_PATH
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError, Forbidden, Gone
from winpool.kube.lists import LIST_ATTEMPTS, Pager, PageTooLarge
from winpool.kube.nodes import NODES_PATH, WINDOWS_SELECTOR, decode_page, listing_of
from winpool.kube.pods import PodLister
from winpool.kube.pools import LISTING
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN, server_version
from winpool.model.budgets import BudgetIndex
from winpool.model.pool import read_pool
from winpool.model.surveyor import Surveyor, work_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.model.survey import PoolQuestion

    Ask: TypeAlias = Callable[[Request], Awaitable[bytes | bytearray]]
    Plans: TypeAlias = Callable[[Cluster], Sequence[Pool]]


def read_cluster(
    plans: Plans,
    *,
    kubeconfig: str | None,
    context: str | None,
    node: str = "",
) -> Cluster:
    """Return what the cluster has.

    ``plans`` gets what was read of pools and nodes, and returns the pools that are planned: of those with
    ``spec.upgrade`` the pods are read too. What it raises ends the reading. ``node`` is the name of a node
    that is read also where it is no Windows node.
    Raises NotAskedError where there are no usable credentials, no answer, or no right to list pools or nodes.
    That pods cannot be listed is noted in the result.
    """
    try:
        return asyncio.run(_read(plans, kubeconfig=kubeconfig, context=context, node=node))
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error
    except (InvalidSpecError, *BROKEN) as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


async def _read(plans: Plans, *, kubeconfig: str | None, context: str | None, node: str) -> Cluster:
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    async with Transport(connection) as transport:
        return await read_with(transport.request, plans, node=node)


async def read_with(ask: Ask, plans: Plans, *, node: str = "") -> Cluster:
    """Return what ``read_cluster`` does, by requests that ``ask`` sends. Raises ApiErrors."""
    found, _ = await Pager(ask, LISTING).collect(lambda page: page.items)
    nodes, unread = await _nodes(ask)
    cluster = Cluster(
        pools=tuple(sorted(map(read_pool, found), key=lambda each: each.name)),
        nodes=nodes,
        unread=unread,
        version=await _version(ask),
        now=datetime.now(UTC),
    )
    if node and cluster.node(node) is None:
        cluster = replace(cluster, stranger=await _stranger(ask, node))
    wanted = [each for each in plans(cluster) if each.spec is not None and each.spec.upgrade is not None]
    questions = [each for pool in wanted if (each := question_of(pool, nodes, now=cluster.now))]
    return await _with_pods(ask, cluster, questions) if questions else cluster


async def _nodes(ask: Ask) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Return all Windows nodes by name, and what is wrong with those that cannot be read."""
    pages, _ = await Pager(ask, listing_of(WINDOWS_SELECTOR)).collect(lambda page: (page,))
    nodes = sorted((node for page in pages for node in page.items), key=lambda each: each.name)
    return tuple(nodes), tuple(sorted(str(error) for page in pages for error in page.unreadable))


async def _version(ask: Ask) -> str:
    answer = await ask(Request(verb="get", resource="version", path=VERSION_PATH))
    return server_version.decode(answer).git_version


async def _stranger(ask: Ask, name: str) -> Node | None:
    """Return the node of that name, whatever it runs on. A list needs no other right than the one above."""
    query = urlencode({"fieldSelector": f"metadata.name={name}"}, quote_via=quote)
    answer = await ask(Request(verb="list", resource="nodes", path=f"{NODES_PATH}?{query}"))
    return next(iter(decode_page(answer).items), None)


async def _with_pods(ask: Ask, cluster: Cluster, questions: Sequence[PoolQuestion]) -> Cluster:
    """Return ``cluster`` with what runs on its nodes, or with why that is not known."""
    budgets, problem = await _budgets(ask)
    lister, expired = PodLister(ask), 0
    while True:
        surveyor, started = Surveyor(questions, budgets=budgets), datetime.now(UTC)
        try:
            listed = await lister.list_all(see=surveyor.see, with_work=work_nodes(questions))
        except PageTooLarge:
            continue  # the next list asks for smaller pages
        except Gone as error:
            expired += 1
            if expired < LIST_ATTEMPTS:
                continue
            return replace(cluster, pods_problem=reason_of(error))
        except ApiError as error:
            return replace(cluster, pods_problem=reason_of(error), forbidden=isinstance(error, Forbidden))
        now = datetime.now(UTC)
        surveys = surveyor.finish(started=started, finished=now, unreadable=listed.unreadable_nodes)
        return replace(cluster, surveys=surveys, now=now, pods_problem=problem)


async def _budgets(ask: Ask) -> tuple[BudgetIndex | None, str]:
    """Return all PodDisruptionBudgets, or None and why they are not known."""
    try:
        return BudgetIndex(await BudgetLister(ask).list()), ""
    except ApiError as error:
        return None, reason_of(error)
