"""Refusals that may be over in a moment, and are reported only when they have lasted.

An API server that starts answers requests before its authorizer has read roles and bindings, and refuses
every request until then (kubernetes/kubernetes#121635; with many bindings it takes longer). If this were
reported at once, each status and log would ask for a rule that exists already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import Forbidden, UnconfirmedRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.errors import ApiError

LASTS_SECONDS: Final = 5.0
"""A refusal that is this old is believed. An API server reads its roles in about a second; a person who
forgot a rule waits this long for the report."""


MOST: Final = 1024
"""Refusals that are remembered, of any namespace. Beyond it the oldest is forgotten, and counts as new
again."""


class FirstRefusals:
    """Knows since when each verb on a resource is refused in each namespace.

    Namespaces are distinguished. Otherwise what one of them permits would hide for ever what another refuses.
    """

    __slots__ = ("_monotonic", "_since")

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[tuple[str, str, str | None], float] = {}

    def judge(self, error: ApiError) -> ApiError:
        """Return a refusal by RBAC that has not lasted as an UnconfirmedRefusal, any other error as it is.

        A refusal by an admission policy concerns the object, not a server that starts, so it is believed.
        """
        if not isinstance(error, Forbidden) or error.permission is None:
            return error
        asked = error.permission
        now = self._monotonic()
        since = self._since.setdefault((asked.verb, asked.resource, asked.namespace), now)
        if len(self._since) > MOST:
            del self._since[next(iter(self._since))]
        if now - since >= LASTS_SECONDS:
            return error
        return UnconfirmedRefusal(error.message, status=error.status, retry_after=error.retry_after)

    def permitted(self, *, verb: str, resource: str, namespace: str | None) -> None:
        """Note that this was permitted: the next refusal of it is a first one again."""
        if self._since:
            self._since.pop((verb, resource, namespace), None)
