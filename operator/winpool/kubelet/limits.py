"""How often kubelets are polled, and how many at once. Times are in seconds.

Kubelets on Windows answer slowly: 2 s where Linux takes 0.1 s, and more than a minute under load
(kubernetes/kubernetes#74991, #104283). Ten requests at once made one hang for three minutes (#104111).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BASE_INTERVAL: Final = 60.0
"""Between two polls of a node. 5,000 nodes are 83 polls a second, and a leak takes longer than a minute."""

HOT_INTERVAL: Final = 10.0
"""Between two polls of a hot node, so that the two samples that an eviction needs are 10 s apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Between two polls of the same node, by the operator's settings; ``hot`` is at most ``base``."""

    base: float = BASE_INTERVAL
    hot: float = HOT_INTERVAL


HOT_POLLS_PER_SECOND: Final = 50
"""Polls of hot nodes within any second. More hot nodes are polled less often. With connections that are kept,
50 polls take 2 % of a core."""

SOON_POLLS_PER_SECOND: Final = 50
"""Polls that are brought forward, over all pools: a pool of 500 nodes is looked at again within hot nodes'
interval. In a pool of 3,000 nodes or more, each is due earlier anyway."""

MAX_IN_FLIGHT: Final = 64
"""Polls that wait for an answer. More gain nothing: 64 take 500 samples a second."""

MAX_LATE_IN_FLIGHT: Final = 16
"""Of these, polls of nodes that were late the last time: 48 places stay for the others, whatever happens."""

MAX_KEPT: Final = 128
"""Connections that are kept for the next poll. Each takes 32 kB (``wire``). A poll over a new connection
takes four times the CPU time."""

LONGEST_DEADLINE: Final = 10.0
"""For one poll, from the connection to the end of the body. metrics-server allows the same."""

DEADLINE_SHARE: Final = 0.8
"""The part of the interval that a poll may take, so that it has ended before the next one is due."""

LATE_SECONDS: Final = 5.0
"""A poll that takes longer makes its node a late one until the next poll. It occupies a place for as long as
a hundred healthy nodes do."""

LONGEST_BACKOFF: Final = 300.0
"""Between two polls of a node that keeps failing: after a failure has ended, the node is polled within five
minutes."""

JITTER_SHARE: Final = 0.05
"""An interval varies by this share in both directions, so that polls that began together do not stay
together."""

HOT_HEAD_START: Final = 10.0
"""The hottest node is polled before a node that has been due for less than so many seconds longer. A limit,
so that no node waits for ever."""

SPREAD_PER_NODE: Final = BASE_INTERVAL / 5000
"""New nodes are polled for the first time within this time for each of them, and within BASE_INTERVAL. A few
are polled at once, and a fleet of 5,000 nodes is not polled in one burst."""
