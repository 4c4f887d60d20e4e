"""Refusals that may be over in a moment, and are not told to people before they have lasted.

An API server that starts answers requests before its authorizer has read roles and bindings, and refuses
everybody until then (kubernetes/kubernetes#121635; with many bindings it takes longer). Told at once, that
is a missing permission in every status and log, and a rule that is there already, to be added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import Forbidden, UnconfirmedRefusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.errors import ApiError

LASTS_SECONDS: Final = 5.0
"""A refusal that is as old is believed. Reading roles takes an API server about a second; a person who forgot
a rule waits that long to be told."""


MOST: Final = 1024
"""Refusals that are remembered, of any namespace. The oldest is forgotten: that one is a first one again."""


class FirstRefusals:
    """Knows since when each verb on a resource is refused in each namespace, and that it no longer is.

    Namespaces are told apart, or what one of them permits would hide for ever what another refuses.
    """

    __slots__ = ("_monotonic", "_since")

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[tuple[str, str, str | None], float] = {}

    def judge(self, error: ApiError) -> ApiError:
        """Return a refusal by RBAC that has not lasted yet as one that may pass, any other error as it is.

        What an admission policy refuses is of the object and not of a server that starts, and is believed.
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
        """Note that this was answered: the next refusal of it is a first one again."""
        if self._since:
            self._since.pop((verb, resource, namespace), None)
