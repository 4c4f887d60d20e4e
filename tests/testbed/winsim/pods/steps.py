"""What a kubelet does next about a pod, told from the pod alone.

Pure, and without memory: whoever takes over from another process, or comes back after a silence, finds
what to do in what stands on the API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Pod

START_ANNOTATION: Final = "winsim/start-seconds"
STOP_ANNOTATION: Final = "winsim/stop-seconds"


class Do(StrEnum):
    """What can be done about a pod."""

    REFUSE = "refusing a pod"
    CREATE = "reporting a pod that is being created"
    RUN = "reporting a pod that runs"
    MEND = "reporting a pod that is Ready after all"
    STOP = "reporting a pod that has stopped"
    REMOVE = "removing a pod"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, so many seconds from now."""

    do: Do
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTiming:
    """How long containers take, in seconds. A pod may say otherwise by annotation."""

    start: float = 0.3
    stop: float = 0.3

    def start_of(self, pod: Pod) -> float:
        """Return how long the containers of a pod take to be Ready."""
        return _seconds(pod, START_ANNOTATION, default=self.start)

    def stop_of(self, pod: Pod) -> float:
        """Return how long they take to stop when told to; at the latest after the grace they are killed."""
        wanted = _seconds(pod, STOP_ANNOTATION, default=self.stop)
        grace = pod.metadata.deletion_grace_period_seconds
        return wanted if grace is None else min(wanted, grace)


def next_step(pod: Pod, *, family: str, timing: PodTiming) -> Step | None:
    """Return what the kubelet of a node of this family does about a pod of its own; None: nothing."""
    if pod.terminal:
        return Step(Do.REMOVE) if _is_to_be_removed(pod) else None
    if pod.metadata.deletion_timestamp:
        # What has not started has nothing to wait for.
        return Step(Do.STOP, timing.stop_of(pod) if pod.status.phase == "Running" else 0.0)
    if pod.status.phase == "Running":
        return None if is_ready(pod) else Step(Do.MEND)
    if refusal(pod, family=family):
        return Step(Do.REFUSE)
    delay = timing.start_of(pod)
    if delay and pod.status.start_time is None:
        return Step(Do.CREATE)
    return Step(Do.RUN, delay)


def _is_to_be_removed(pod: Pod) -> bool:
    """Whether it takes a kubelet's word for the pod to go; with a grace of 0 it waits for finalizers only."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds != 0


def is_ready(pod: Pod) -> bool:
    """Whether a pod that runs says what it should about its readiness.

    The controller manager says Ready=False of all pods on a node that has fallen silent; the kubelet that
    comes back says otherwise.
    """
    return pod.is_true("ContainersReady") and pod.is_true("Ready") is gates_open(pod)


def gates_open(pod: Pod) -> bool:
    """Whether all readiness gates of a pod are True."""
    return all(pod.is_true(gate.condition_type) for gate in pod.spec.readiness_gates)


def refusal(pod: Pod, *, family: str) -> tuple[str, str] | None:
    """Return reason and message where a node of this family does not admit the pod (kubelet, lifecycle)."""
    if pod.spec.os is not None and pod.spec.os.name != family:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def _seconds(pod: Pod, annotation: str, *, default: float) -> float:
    try:
        given = float(pod.metadata.annotations.get(annotation, default))
    except ValueError:
        return default
    return max(0.0, given) if isfinite(given) else default
