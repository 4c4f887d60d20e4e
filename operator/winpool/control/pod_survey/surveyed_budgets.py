"""The PodDisruptionBudgets for a pass over all pods: none where they cannot be listed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.cluster.access import explained
from winpool.cluster.errors import ApiError, Forbidden, Gone, TooLarge
from winpool.cluster.outage import Outage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from winpool.pods.budgets import Budget

log = logging.getLogger(__name__)


class SurveyedBudgets:
    """Lists them when asked. ``list_budgets`` lists all of the cluster, and raises ApiErrors."""

    def __init__(
        self, list_budgets: Callable[[], Awaitable[Sequence[Budget]]], *, monotonic: Callable[[], float]
    ) -> None:
        self._list_budgets = list_budgets
        self._outage = Outage(
            "poddisruptionbudgets",
            logger=log,
            monotonic=monotonic,
            meanwhile="no node counts as one whose pods can be evicted, and the operator tries again",
        )
        self.forbidden = ""
        """Which right is missing, as a text for people; empty where none is known to be."""
        self.retry_after: float | None = None
        """For how many seconds the API server asked to be left alone when the last list failed."""

    async def list(self) -> Sequence[Budget] | None:
        """Return all budgets; None, with a line in the log, where they cannot be listed."""
        try:
            found = await self._list_budgets()
        except ApiError as error:
            self._failed(explained(error))
            return None
        except Exception as error:
            # A bug of ours must not end the passes over pods.
            log.debug("the list of PodDisruptionBudgets failed", exc_info=True)
            said = f"list poddisruptionbudgets: {type(error).__name__} in the operator: {error}"
            self._failed(ApiError(said))
            return None
        self.forbidden = ""
        self._outage.ended()
        return found

    def _failed(self, error: ApiError) -> None:
        self.retry_after = error.retry_after
        self._outage.failed(error)
        if isinstance(error, Forbidden):
            self.forbidden = error.message
        elif isinstance(error, Gone | TooLarge):
            # Budgets were listed, if not all of them. No other error says anything about rights.
            self.forbidden = ""
