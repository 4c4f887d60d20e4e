"""Whether kubelets evict pods themselves: asked once of each, a few a second, and rarely again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.kubelet.configz import KubeletEviction
from winpool.kubelet.outcome import PollError

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.memory.connections import KubeletReader
    from winpool.kubelet.addresses import Target

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 6 * 3600.0
"""A kubelet reads its configuration when it starts, and a restart without another version is rare."""

RETRY_SECONDS: Final = 3600.0
"""After a failure. Before 1.33 the right is missing, and stays so until the kubelet has another version."""

SPACING_SECONDS: Final = 0.2
"""Between two such requests to any nodes, so that a start of the operator does not double the polls. 5,000
nodes take 17 minutes; nothing waits for the answer."""

LEAST_SECONDS: Final = 1.0
"""What has to be left of the time of a poll, to ask within it."""


@dataclass(slots=True)
class Probe:
    """What a kubelet has said, the version of then, and when it is asked again."""

    version: str
    again_at: float
    found: KubeletEviction = KubeletEviction.UNKNOWN


class Probes:
    """Asks kubelets for their configuration. What was found stays with the node."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next_at = float("-inf")

    def is_due(self, probe: Probe | None, *, version: str) -> bool:
        """Whether a kubelet of that version is to be asked now."""
        now = self._monotonic()
        if now < self._next_at:
            return False
        return probe is None or probe.version != version or now >= probe.again_at

    async def ask(self, client: KubeletReader, target: Target, *, version: str, deadline: float) -> Probe:
        """Ask a kubelet. What cannot be read is unknown."""
        self._next_at = self._monotonic() + SPACING_SECONDS
        try:
            found = await client.eviction(target, deadline=deadline)
        except PollError as error:
            log.debug("node %s: the configuration of its kubelet cannot be read: %s", target.node, error)
            return Probe(version, self._monotonic() + RETRY_SECONDS)
        return Probe(version, self._monotonic() + AGAIN_SECONDS, found)
