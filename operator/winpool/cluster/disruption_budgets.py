"""Lists PodDisruptionBudgets, of which only those of some namespaces are kept.

One list of all: the namespaces of the pods of a node are up to a hundred, and a cluster has fewer budgets
than Deployments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster import victim_wire as wire
from winpool.cluster.envelope import ListReader
from winpool.cluster.errors import StreamGarbled
from winpool.cluster.pager import Listing, Pager
from winpool.cluster.request import Request
from winpool.pods.budgets import Budget, Requirement

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container

BUDGETS_PATH: Final = "/apis/policy/v1/poddisruptionbudgets"

PAGE_LIMIT: Final = 500
"""What client-go and kubectl ask for."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""A budget has 1 to 3 kB."""

MOST: Final = 150_000
"""One for each pod of the largest cluster that Kubernetes supports."""

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

    async def list(self, namespaces: Container[str]) -> tuple[Budget, ...]:
        """Return the budgets of these namespaces, all as of one moment. Raises ApiErrors."""
        found, _ = await self._pager.collect(
            lambda page: [each for each in page.budgets if each.namespace in namespaces]
        )
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
    )


LISTING: Final = Listing(
    resource="poddisruptionbudgets",
    request=lambda limit, token: budget_request(limit=limit, token=token),
    decode=decode_budgets,
    page_limit=PAGE_LIMIT,
    page_bytes=PAGE_BYTES,
    most=MOST,
)
