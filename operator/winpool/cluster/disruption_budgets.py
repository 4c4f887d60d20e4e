"""Lists all PodDisruptionBudgets of the cluster.

One list of all: the namespaces of the pods of a node are up to a hundred, and a cluster has fewer budgets
than Deployments.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster import victim_wire as wire
from winpool.cluster.envelope import ListReader
from winpool.cluster.errors import StreamGarbled, Unavailable
from winpool.cluster.pager import Listing, Pager
from winpool.cluster.request import Request
from winpool.pods.budgets import Budget, Requirement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ALWAYS_ALLOW: Final = "AlwaysAllow"
"""The value of ``unhealthyPodEvictionPolicy`` that lets pods go that are not Ready (KEP-3017)."""

BUDGETS_PATH: Final = "/apis/policy/v1/poddisruptionbudgets"

PAGE_LIMIT: Final = 500
"""What client-go and kubectl ask for."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""A budget has 1 to 3 kB."""

MOST: Final = 150_000
"""One for each pod of the largest cluster that Kubernetes supports."""

LIST_SECONDS: Final = 15.0
"""For the whole list, with all its pages. The pods of a node are listed before, in at most 10 s, and both
together permit nothing after 30 s (``memory.evicting``)."""

_list: Final = ListReader(
    wire.budget_list,
    resource="poddisruptionbudgets",
    kind="PodDisruptionBudgetList",
    api_version="policy/v1",
)


@dataclass(frozen=True, slots=True)
class BudgetPage:
    """One page of a list."""

    budgets: tuple[Budget, ...]
    resource_version: str
    continue_token: str

    @property
    def size(self) -> int:
        """How many budgets are on it."""
        return len(self.budgets)


class BudgetLister:
    """Lists the budgets of the cluster. ``request`` is as ``Transport.request``."""

    def __init__(self, request: Callable[[Request], Awaitable[bytes | bytearray]]) -> None:
        self._pager = Pager(request, LISTING)

    async def list(self) -> tuple[Budget, ...]:
        """Return all budgets, as of one moment, within LIST_SECONDS. Raises ApiErrors."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                found, _ = await self._pager.collect(lambda page: page.budgets)
        except TimeoutError:
            said = f"list poddisruptionbudgets: not all of them within {LIST_SECONDS:g} s"
            raise Unavailable(said, reason="Timeout") from None
        return found


def budget_request(*, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"limit": str(limit), **({"continue": token} if token else {})}
    path = f"{BUDGETS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="poddisruptionbudgets", path=path, reply_limit=PAGE_BYTES)


def decode_budgets(body: bytes | bytearray) -> BudgetPage:
    """Read one page. Raises StreamGarbled where one cannot be read: it may forbid the eviction (P4)."""
    page = _list.read(body)
    found: list[Budget] = []
    for item in page.items or ():
        if not isinstance(item, wire.BudgetObject) or not item.metadata.namespace:
            raise StreamGarbled("list poddisruptionbudgets: one that cannot be read")
        found.append(_budget(item))
    return BudgetPage(tuple(found), page.metadata.resource_version, page.metadata.continue_)


def _budget(found: wire.BudgetObject) -> Budget:
    metadata, status = found.metadata, found.status
    selector = found.spec.selector if found.spec else None
    is_current = status is not None and status.observed_generation >= metadata.generation
    policy = found.spec.unhealthy_pod_eviction_policy if found.spec else None
    return Budget(
        namespace=metadata.namespace,
        name=metadata.name,
        selects=selector is not None,
        labels=(selector.match_labels if selector else None) or {},
        requirements=tuple(
            Requirement(each.key, each.operator, frozenset(each.values or ()))
            for each in (selector.match_expressions if selector else None) or ()
        ),
        allowed=status.disruptions_allowed if status is not None and is_current else 0,
        lets_unready_go=policy == ALWAYS_ALLOW or (status is not None and _is_healthy(status)),
    )


def _is_healthy(status: wire.BudgetStatus) -> bool:
    """Whether the API server lets pods go that are not Ready, by any policy.

    As it does, this goes by the status also where that is older than the spec (``EvictionREST.Create`` in
    k8s.io/kubernetes, pkg/registry/core/pod/storage).
    """
    return status.current_healthy >= status.desired_healthy > 0


LISTING: Final = Listing(
    resource="poddisruptionbudgets",
    request=lambda limit, token: budget_request(limit=limit, token=token),
    decode=decode_budgets,
    page_limit=PAGE_LIMIT,
    page_bytes=PAGE_BYTES,
    most=MOST,
)
