"""How often simulated nodes say that they live, given how many there are.

A Lease renewed every 10 s by 5,000 nodes is 500 writes a second, which take a whole core of the API
server. Above a thousand nodes the period therefore grows with their number, so that the load stays that of
a thousand; the controller manager's backoff grows with it, or it would take silence for death.
"""

import math
from dataclasses import dataclass
from typing import Final

from testbed.options import Options

KUBELET_PERIOD_SECONDS: Final = 10
"""A kubelet renews its Lease at a quarter of nodeLeaseDurationSeconds, which is 40."""
FULL_RATE_NODES: Final = 1_000
"""So many nodes renew at a kubelet's own pace; more share that rate."""
LEASE_PERIODS: Final = 4
"""Length of a Lease in renewals, as in the kubelet."""
GRACE_PERIODS: Final = 5
"""Renewals that may be missed before a node is Unknown: Kubernetes' own 50 s are five of 10 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeats:
    """The pace of a testbed. ``node_monitor_grace_seconds`` None leaves Kubernetes' own."""

    lease_duration_seconds: int
    node_monitor_grace_seconds: int | None

    @property
    def lease_period_seconds(self) -> float:
        """Seconds between two renewals of one Lease."""
        return self.lease_duration_seconds / LEASE_PERIODS

    @property
    def stretched(self) -> bool:
        """Whether the nodes speak less often than real ones do."""
        return self.lease_period_seconds > KUBELET_PERIOD_SECONDS

    def __str__(self) -> str:
        grace = self.node_monitor_grace_seconds
        backoff = "Kubernetes' own" if grace is None else f"{grace} s"
        return f"Leases are renewed every {self.lease_period_seconds:g} s, node-monitor-grace {backoff}"


def heartbeats(options: Options) -> Heartbeats:
    """Choose the pace for the nodes that a testbed starts with; what the options say stands."""
    nodes = options.windows + options.linux
    period = KUBELET_PERIOD_SECONDS * max(1.0, nodes / FULL_RATE_NODES)
    duration = options.lease_duration_seconds or math.ceil(LEASE_PERIODS * period)
    stretched = duration > LEASE_PERIODS * KUBELET_PERIOD_SECONDS
    grace = options.node_monitor_grace_seconds
    if grace is None and stretched:
        grace = math.ceil(GRACE_PERIODS * duration / LEASE_PERIODS)
    return Heartbeats(lease_duration_seconds=duration, node_monitor_grace_seconds=grace)
