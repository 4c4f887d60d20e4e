"""Whether kubelets evict pods themselves: asked once of each, a few a second, and rarely again."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.kubelet.configz import KubeletEviction
from winpool.kubelet.outcome import Outcome, PollError

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.memory.connections import KubeletReader
    from winpool.kubelet.addresses import Target

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 6 * 3600.0
"""A kubelet reads its configuration when it starts, and a restart without another version is rare."""

UNREACHED_SECONDS: Final = 300.0
"""After a request that got no answer: the kubelet has closed the connection just then, or was slow."""

UNREACHED: Final = (Outcome.NO_CONNECTION, Outcome.TIMEOUT)

REFUSED_SECONDS: Final = 3600.0
"""After any other failure. Before 1.33 the right is missing, until the kubelet has another version."""

SPACING_SECONDS: Final = 1.0
"""Between two such requests to any nodes on average, so that 5,000 nodes get 109 requests a second after a
start of the operator, and not twice as many. They take 83 minutes; nothing waits for the answer."""

BURST: Final = 30
"""So many may come at once after a pause: a few nodes are polled in the same second, and asked in it."""

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

    def take(self, probe: Probe | None, *, version: str) -> bool:
        """Return whether a kubelet of that version is to be asked now; if so, this counts as asked.

        It counts also where the request does not follow, since the poll before it has failed. So no more
        polls than that keep their connection for it.
        """
        now = self._monotonic()
        if now < self._next_at - (BURST - 1) * SPACING_SECONDS:
            return False
        if probe is not None and probe.version == version and now < probe.again_at:
            return False
        self._next_at = max(self._next_at, now) + SPACING_SECONDS
        return True

    async def ask(self, client: KubeletReader, target: Target, *, version: str, deadline: float) -> Probe:
        """Ask a kubelet. What cannot be read is unknown."""
        try:
            found = await client.eviction(target, deadline=deadline)
        except PollError as error:
            log.debug("node %s: the configuration of its kubelet cannot be read: %s", target.node, error)
            pause = UNREACHED_SECONDS if error.outcome in UNREACHED else REFUSED_SECONDS
            return Probe(version, self._monotonic() + pause)
        return Probe(version, self._monotonic() + AGAIN_SECONDS, found)
