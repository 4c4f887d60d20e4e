"""Which Kubernetes version the API server is.

The operator asks at the start, and whenever the node watch broke or ended early, as it does when the API
server restarts with another version. In a quiet cluster it never asks (P2).
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
"""Every authenticated user may read it, by the ClusterRole system:public-info-viewer.
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#api-discovery-roles"""


class ControlPlane:
    """The version of the API server as last read. ``on_change`` is called when it has changed."""

    def __init__(self, transport: Transport, *, on_change: Callable[[], None]) -> None:
        self.version = ""
        """``gitVersion``, such as v1.36.3; empty before it was first read."""
        self._transport = transport
        self._on_change = on_change

    async def ask(self) -> bool:
        """Ask for the version, and return whether it was read.

        Never raises an ApiError: the known version stays, and nodes matter more.
        """
        try:
            answer = await self._transport.request(Request(verb="get", resource="version", path=VERSION_PATH))
            found = wire.server_version.decode(answer).git_version
        except (ApiError, *wire.BROKEN) as error:
            known = self.version or "none"
            log.warning("cannot read the version of the API server: %s; the last known is %s", error, known)
            return False
        if not found:
            return False
        if found != self.version:
            log.info("the API server runs Kubernetes %s", found)
            self.version = found
            self._on_change()
        return True
