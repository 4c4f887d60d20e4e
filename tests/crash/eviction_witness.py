"""Which evictions were asked for in all corners, and whether the limits of the rounds permit them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from cluster.evictions import Eviction

Asked = tuple[float, Eviction]
"""An eviction, and when it was asked for, by ``time.monotonic``."""


class Witness:
    """Notes what the API server is asked for."""

    def __init__(self) -> None:
        self._seen: list[Asked] = []

    def admit(self, eviction: Eviction) -> bool:
        """Note one; all are permitted."""
        self._seen.append((time.monotonic(), eviction))
        return True

    def of(self, nodes: Sequence[str]) -> list[Asked]:
        """Return those of pods of these nodes."""
        return [(at, each) for at, each in self._seen if each.node in nodes]


def assert_within_limits(
    evictions: Sequence[Asked], *, second: str, last_seen: Callable[[str], float]
) -> None:
    """Assert one pod a node, one node at a time, and that each node has named its pod before.

    Args:
        evictions: those of one round. The same pod may be named twice: the API server may have refused once.
        second: the node that has to wait for the other.
        last_seen: returns when the pod of a UID was certainly still there.

    """
    pods = {each.node: each for _, each in reversed(evictions)}
    for at, each in evictions:
        assert each.grace is None, each
        assert each.uid is not None, each
        assert each.uid in each.intents, f"the node had not named the pod: {each}"
        assert each.pod_uid in (each.uid, ""), f"another pod of the name: {each}"
        assert each.uid == pods[each.node].uid, f"a second pod of the node: {each}"
        assert each.ending <= {each.uid}, f"while another pod was ending: {each}"
        if each.node == second:
            others = [other.uid for _, other in evictions if other.node != second and other.uid is not None]
            assert others, f"the first node has had none: {each}"
            since = at - max(map(last_seen, others))
            # How long after that depends on when its memory is measured to be back.
            assert since > 0, f"{-since:.0f} s before the pod of the other node was gone: {each}"
