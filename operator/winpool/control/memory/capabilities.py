"""What the status says of the sources of a pool's nodes: how many can tell what, renewed rarely.

Kubelets are asked for their configuration for minutes after a start. So what is reported is kept for a while:
passes that happen for other reasons must not write another status each time. No pass is woken for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.kubelet.configz import KubeletEviction
from winpool.objects.pressure import Capabilities, Capability

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from winpool.control.memory.watched_node import WatchedNode

FIRST_SECONDS: Final = 600.0
"""The first report waits for a sample of each source of each node, and no longer: some give none."""

RENEW_SECONDS: Final = 3600.0
"""At most one status for it in an hour: what nodes can tell changes with their versions and settings. 5,000
kubelets are asked for their configuration for 83 minutes, and a converged pool is silent (P2)."""


def capabilities_of(nodes: Collection[WatchedNode]) -> Capabilities:
    """Count what the sources of ``nodes`` can tell."""
    return Capabilities(
        nodes=len(nodes),
        commit_limit=_counted(each.has_commit_limit for each in nodes),
        pod_commit=_counted(each.has_pods_commit for each in nodes),
        paging=_counted(map(reports_paging, nodes)),
        kubelet_eviction=_counted(map(kubelet_evicts, nodes)),
    )


def reports_paging(watched: WatchedNode) -> bool | None:
    """Whether an exporter reports the paging of the node; None where one is to, and has not."""
    samples = (each.sample for each in watched.state.sources.values())
    if any(sample is not None and sample.hard_reads_per_second is not None for sample in samples):
        return True
    has_exporter = any(series is not None for series in watched.wanted.sources.values())
    return None if has_exporter else False


def kubelet_evicts(watched: WatchedNode) -> bool | None:
    """Whether the kubelet of the node evicts pods for memory itself; None where that is not known."""
    found = KubeletEviction.UNKNOWN if watched.probe is None else watched.probe.found
    return None if found is KubeletEviction.UNKNOWN else found is KubeletEviction.ARMED


class ToldCapabilities:
    """What was reported of each pool, and when."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._told: dict[str, _Told] = {}

    def of(self, pool: str, nodes: Collection[WatchedNode]) -> Capabilities | None:
        """Return what to report of the ``nodes`` of ``pool``; None where that is not known yet.

        It is renewed after RENEW_SECONDS, when other nodes or sources are watched, and once when all sources
        have given a sample and all kubelets were asked.
        """
        if not nodes:
            self.forget(pool)
            return None
        now, watched = self._monotonic(), frozenset((each.node.uid, *each.wanted.sources) for each in nodes)
        told = self._told.setdefault(pool, _Told(now, watched))
        is_other = told.watched != watched
        was_complete = told.is_complete and not is_other
        is_sampled = was_complete or all(map(_is_sampled, nodes))
        is_complete = was_complete or (is_sampled and all(map(_was_asked, nodes)))
        if told.capabilities is None:
            is_due = is_sampled or now - told.at >= FIRST_SECONDS
        else:
            is_due = is_other or now - told.at >= RENEW_SECONDS
        if is_due or is_complete is not was_complete:
            told = self._told[pool] = _Told(now, watched, capabilities_of(nodes), is_complete=is_complete)
        return told.capabilities

    def forget(self, pool: str) -> None:
        """Forget what was reported of ``pool``."""
        self._told.pop(pool, None)


@dataclass(frozen=True, slots=True)
class _Told:
    """``watched`` are the UIDs of the nodes, each with its sources."""

    at: float
    watched: frozenset[tuple[str, ...]]
    capabilities: Capabilities | None = None
    is_complete: bool = False


def _is_sampled(watched: WatchedNode) -> bool:
    """Whether each source of the node has given a sample."""
    return watched.wanted.sources.keys() <= watched.state.sources.keys()


def _was_asked(watched: WatchedNode) -> bool:
    """Whether the kubelet of the node was asked for its configuration, or is not to be asked."""
    return watched.probe is not None or watched.wanted.kubelet is None


def _counted(each_has: Iterable[bool | None]) -> Capability:
    found = list(each_has)
    return Capability(have=found.count(True), unknown=found.count(None))
