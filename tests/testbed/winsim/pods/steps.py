"""What a kubelet does next about a pod, told from the pod alone.

Pure, and without memory: whoever takes over from another process, or comes back after a silence, finds
what to do in what stands on the API server.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final

from testbed.winsim.pods.pulls import BACK_OFF, PULL_FAILED, fits

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Pod

START_ANNOTATION: Final = "winsim/start-seconds"
STOP_ANNOTATION: Final = "winsim/stop-seconds"
RUN_ANNOTATION: Final = "winsim/run-seconds"
"""On a pod that is not restarted always: how long its containers run until they end, all with exit code 0."""
UNMANAGED_ANNOTATION: Final = "winsim/unmanaged"
"""On a pod, "true": no kubelet reports about it, somebody else does."""

OS_LABEL: Final = "kubernetes.io/os"


class Do(StrEnum):
    """What can be done about a pod."""

    REFUSE = "refusing a pod"
    CREATE = "reporting a pod that is being created"
    FAIL_PULL = "reporting a pod whose image cannot be pulled"
    BACK_OFF = "reporting a pod whose image is not pulled for a while"
    RUN = "reporting a pod that runs"
    MEND = "reporting a pod whose readiness is another"
    LOSE = "reporting a pod whose machine has been started again"
    COMPLETE = "reporting a pod that has done its work"
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
    back_off: float = 10.0
    """From a pull that failed to the next look at the pod (``backOffPeriod`` of the kubelet)."""

    def start_of(self, pod: Pod) -> float:
        """Return how long the containers of a pod take to be Ready."""
        return _seconds(pod, START_ANNOTATION, default=self.start)

    def run_of(self, pod: Pod) -> float | None:
        """Return how long the containers of a pod run until they end by themselves; None: for ever."""
        if RUN_ANNOTATION not in pod.metadata.annotations or pod.spec.restart_policy == "Always":
            return None
        seconds = _seconds(pod, RUN_ANNOTATION, default=-1.0)
        return seconds if seconds >= 0 else None

    def stop_of(self, pod: Pod) -> float:
        """Return how long they take to stop when told to; at the latest after the grace they are killed."""
        wanted = _seconds(pod, STOP_ANNOTATION, default=self.stop)
        grace = pod.metadata.deletion_grace_period_seconds
        return wanted if grace is None else min(wanted, grace)


def next_step(
    pod: Pod, *, family: str, timing: PodTiming, now: datetime, ready: bool = True, booted: str = ""
) -> Step | None:
    """Return what the kubelet of a node of this family does about a pod of its own; None: nothing.

    Where ``ready`` is False its containers are not to be Ready, though they run. ``booted`` is when the
    machine was last started, empty where that was before its Node was made: what says of itself that it
    has run since before then does not run any more.
    """
    if pod.metadata.annotations.get(UNMANAGED_ANNOTATION) == "true":
        return None
    if pod.terminal:
        return Step(Do.REMOVE) if _is_to_be_removed(pod) else None
    if pod.metadata.deletion_timestamp:
        # What has not started has nothing to wait for.
        return Step(Do.STOP, timing.stop_of(pod) if pod.status.phase == "Running" else 0.0)
    if pod.status.phase == "Running":
        return _while_running(pod, timing=timing, now=now, ready=ready, booted=booted)
    if refusal(pod, family=family):
        return Step(Do.REFUSE)
    delay = timing.start_of(pod)
    if delay and pod.status.start_time is None:
        return Step(Do.CREATE)
    if not fits(pod, family=family):
        return _pull(pod, delay=delay, timing=timing)
    return Step(Do.RUN, delay)


def _while_running(pod: Pod, *, timing: PodTiming, now: datetime, ready: bool, booted: str) -> Step | None:
    since = pod.status.running_since
    if since and since < booted:
        return Step(Do.LOSE)
    if not since and pod.waiting:
        return Step(Do.RUN, timing.start_of(pod))
    if not is_told(pod, ready=ready):
        return Step(Do.MEND)
    lasts = timing.run_of(pod)
    if lasts is None or not since:
        return None
    has_run = (now - datetime.fromisoformat(since)).total_seconds()
    return Step(Do.COMPLETE, max(0.0, lasts - has_run))


def _pull(pod: Pod, *, delay: float, timing: PodTiming) -> Step | None:
    if BACK_OFF in pod.waiting:
        return None
    return Step(Do.BACK_OFF, timing.back_off) if PULL_FAILED in pod.waiting else Step(Do.FAIL_PULL, delay)


def _is_to_be_removed(pod: Pod) -> bool:
    """Whether it takes a kubelet's word for the pod to go; with a grace of 0 it waits for finalizers only."""
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds != 0


def is_told(pod: Pod, *, ready: bool) -> bool:
    """Whether a pod that runs says what it should about its readiness.

    The controller manager says Ready=False of all pods on a node that has fallen silent; the kubelet that
    comes back says otherwise.
    """
    return pod.is_true("ContainersReady") is ready and pod.is_true("Ready") is (ready and gates_open(pod))


def gates_open(pod: Pod) -> bool:
    """Whether all readiness gates of a pod are True."""
    return all(pod.is_true(gate.condition_type) for gate in pod.spec.readiness_gates)


def refusal(pod: Pod, *, family: str) -> tuple[str, str] | None:
    """Return reason and message where a node of this family does not admit the pod.

    ``predicateAdmitHandler.Admit`` in ``pkg/kubelet/lifecycle/predicate.go``: first the label of the pod
    (not its node selector, in spite of the reason), then its field.
    """
    if pod.metadata.labels.get(OS_LABEL, family) != family:
        message = f"Failed to admit pod as the `{OS_LABEL}` label doesn't match node label"
        return "PodOSSelectorNodeLabelDoesNotMatch", message
    if pod.spec.os is not None and pod.spec.os.name != family:
        return "PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"
    return None


def _seconds(pod: Pod, annotation: str, *, default: float) -> float:
    text = pod.metadata.annotations.get(annotation)
    try:
        given = float(text) if text is not None else default
    except ValueError:
        return default
    if text is None or not isfinite(given):
        return default
    return max(0.0, given)
