"""Which Kubernetes version the API server is.

Asked for at the start, and whenever the node watch was broken off or ended before its time, as it is where
the API server is restarted on another version. A cluster in peace is never asked (P2).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.cluster import wire
from winpool.cluster.errors import ApiError
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)

VERSION_PATH: Final = "/version"
"""Open to all who are authenticated, by the ClusterRole system:public-info-viewer.
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#api-discovery-roles"""


class ControlPlane:
    """The version of the API server as last told. ``on_change`` is called when it is another one."""

    def __init__(self, transport: Transport, *, on_change: Callable[[], None]) -> None:
        self.version = ""
        """``gitVersion``, such as v1.36.3; empty as long as nothing was told."""
        self._transport = transport
        self._on_change = on_change

    async def ask(self) -> bool:
        """Ask for the version, and return whether it was told.

        Never raises an ApiError: what was known stays, and nodes matter more.
        """
        try:
            answer = await self._transport.request(Request(verb="get", resource="version", path=VERSION_PATH))
            found = wire.server_version.decode(answer).git_version
        except (ApiError, *wire.BROKEN) as error:
            known = self.version or "none"
            log.warning("the version of the API server could not be read, %s is kept: %s", known, error)
            return False
        if not found:
            return False
        if found != self.version:
            log.info("the API server is Kubernetes %s", found)
            self.version = found
            self._on_change()
        return True
