"""Reports evictions to the detectors, which wait for the memory to return before they permit the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory import detector

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.memory.watched import WatchedNodes
    from winpool.memory.state import DetectorState


class EvictedPods:
    """Steps the detectors of ``watched``, by the clock ``monotonic``. A node that is not watched has none."""

    def __init__(self, watched: WatchedNodes, *, monotonic: Callable[[], float]) -> None:
        self._watched = watched
        self._monotonic = monotonic

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Note that a pod is being deleted that was measured to have ``share`` bytes, None if unknown."""
        self._step(node_uid, lambda state: detector.eviction_begun(state, uid=pod_uid, share=share))

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod is gone."""
        at = self._monotonic()
        self._step(node_uid, lambda state: detector.eviction_gone(state, uid=pod_uid, at=at))

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod was not evicted."""
        self._step(node_uid, lambda state: detector.eviction_refused(state, uid=pod_uid))

    def _step(self, node_uid: str, change: Callable[[DetectorState], DetectorState]) -> None:
        watched = self._watched.with_uid(node_uid)
        if watched is not None:
            watched.state = change(watched.state)
            self._watched.note(watched)


class NoDetectors:
    """For an operator that samples no memory."""

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Do nothing."""

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Do nothing."""

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Do nothing."""
