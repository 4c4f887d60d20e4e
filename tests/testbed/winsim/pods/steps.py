"""What a kubelet does next about a pod, told from the pod alone.

Pure, and without memory: whoever takes over from another process, or comes back after a silence, finds
what to do in what stands on the API server.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final

from testbed.winsim.pods.pulls import (
    BACK_OFF,
    PULL_FAILED,
    RUN_FAILED,
    fits,
    pause_seconds,
    pull_seconds,
    runs_on,
)

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Pod

START_ANNOTATION: Final = "winsim/start-seconds"
STOP_ANNOTATION: Final = "winsim/stop-seconds"
RUN_ANNOTATION: Final = "winsim/run-seconds"
"""On a pod that is not restarted always: how long its containers run until they end, all with exit code 0."""
PULL_FAILURES_ANNOTATION: Final = "winsim/pull-failures"
"""On a pod: how many times its images cannot be pulled before they can."""
CHOWN_ANNOTATION: Final = "winsim/chown-fails"
"""On a pod with a token, "true": that cannot be mounted, as where an old kubelet is to change its owner."""
STUCK_ANNOTATION: Final = "winsim/stuck-terminating"
"""On a pod, "true": it hangs once it is deleted, until this is gone or the machine has been started again."""
UNMANAGED_ANNOTATION: Final = "winsim/unmanaged"
"""On a pod, "true": no kubelet reports about it, somebody else does."""

_AGAIN_SECONDS: Final = 60.0
"""Between two Events about the same obstacle. A kubelet tries more often, and counts in one Event."""

OS_LABEL: Final = "kubernetes.io/os"


class Do(StrEnum):
    """What can be done about a pod."""

    REFUSE = "refusing a pod"
    CREATE = "reporting a pod that is being created"
    FAIL_SANDBOX = "reporting a pod for which there is no network"
    FAIL_PAUSE = "reporting a pod whose sandbox has no image"
    FAIL_MOUNT = "reporting a pod whose volume cannot be mounted"
    FAIL_PULL = "reporting a pod whose image cannot be pulled"
    BACK_OFF = "reporting a pod whose image is not pulled for a while"
    FAIL_RUN = "reporting a pod whose image is for another Windows"
    RUN = "reporting a pod that runs"
    MEND = "reporting a pod whose readiness is another"
    LOSE = "reporting a pod whose machine has been started again"
    COMPLETE = "reporting a pod that has done its work"
    STOP = "reporting a pod that has stopped"
    REMOVE = "removing a pod"


WARNINGS: Final = frozenset({Do.FAIL_SANDBOX, Do.FAIL_PAUSE, Do.FAIL_MOUNT})
"""What is reported by an Event, and leaves the pod as it stands."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do, so many seconds from now."""

    do: Do
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Efforts:
    """What a kubelet knows of its efforts to start a pod, and the API server does not: it is lost with it.

    ``network_in`` is in how many seconds pods get a network, ``pauses`` whether the pause image of the node
    fits it, ``warned`` whether the pod's Event is written.
    """

    network_in: float = 0.0
    pauses: bool = True
    warned: bool = False
    failed_pulls: int = 0

    def after(self, do: Do) -> Efforts:
        """Return what is known once something has been done."""
        match do:
            case Do.FAIL_SANDBOX | Do.FAIL_PAUSE | Do.FAIL_MOUNT:
                return replace(self, warned=True)
            case Do.FAIL_PULL:
                return replace(self, failed_pulls=self.failed_pulls + 1)
            case Do.LOSE:
                return replace(self, warned=False)
            case _:
                return self


NONE_YET: Final = Efforts()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTiming:
    """How long containers take, in seconds. A pod may say otherwise by annotation.

    What takes minutes, pulls and the pauses between them, is ``time_scale`` times as fast.
    """

    start: float = 0.3
    stop: float = 0.3
    back_off: float = 10.0
    """From a pull that failed to the next look at the pod (``backOffPeriod`` of the kubelet)."""
    time_scale: float = 1.0

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

    def failures_of(self, pod: Pod) -> float:
        """Return how many times the images of a pod cannot be pulled, before they can."""
        return _seconds(pod, PULL_FAILURES_ANNOTATION, default=0.0)

    def pull_of(self, pod: Pod) -> float:
        """Return how long it takes to pull the images of a pod."""
        return pull_seconds(pod) / self.time_scale

    def until_back_off(self) -> float:
        """Return how long a kubelet says that a pull failed before it says that it waits."""
        return self.back_off / self.time_scale

    def until_pull(self, failures: int) -> float:
        """Return how long it waits from then on, after so many pulls that failed."""
        return max(0.0, pause_seconds(failures) - self.back_off) / self.time_scale


def next_step(
    pod: Pod,
    *,
    family: str,
    timing: PodTiming,
    now: datetime,
    build: str = "",
    ready: bool = True,
    booted: str = "",
    efforts: Efforts = NONE_YET,
) -> Step | None:
    """Return what the kubelet of a node of this family and build does about a pod of its own; None: nothing.

    Where ``ready`` is False its containers are not to be Ready, though they run. ``booted`` is when the
    machine was last started, empty where that was before its Node was made: what says of itself that it
    has run since before then does not run any more. ``efforts`` are those to start the pod.
    """
    if pod.metadata.annotations.get(UNMANAGED_ANNOTATION) == "true":
        return None
    if pod.terminal:
        return Step(Do.REMOVE) if _is_to_be_removed(pod) else None
    if pod.metadata.deletion_timestamp:
        if _is_stuck(pod, booted=booted):
            return None
        # What has not started has nothing to wait for.
        return Step(Do.STOP, timing.stop_of(pod) if pod.status.phase == "Running" else 0.0)
    if pod.status.phase == "Running":
        return _while_running(
            pod, timing=timing, now=now, build=build, ready=ready, booted=booted, efforts=efforts
        )
    if refusal(pod, family=family):
        return Step(Do.REFUSE)
    return _start(pod, family=family, timing=timing, build=build, efforts=efforts)


def _start(pod: Pod, *, family: str, timing: PodTiming, build: str, efforts: Efforts) -> Step | None:
    delay = timing.start_of(pod) + _without_network(pod, efforts)
    pull = timing.pull_of(pod)
    obstacle = _obstacle(pod, efforts)
    if (delay or pull or obstacle) and pod.status.start_time is None:
        return Step(Do.CREATE)
    if obstacle:
        return obstacle
    if not fits(pod, family=family):
        return _pull_in_vain(pod, delay=delay, timing=timing)
    if timing.failures_of(pod):
        return _pull(pod, delay=delay, timing=timing, failed=efforts.failed_pulls)
    return _run(pod, build=build, delay=delay + pull)


def _run(pod: Pod, *, build: str, delay: float) -> Step | None:
    if runs_on(pod, build=build):
        return Step(Do.RUN, delay)
    return None if RUN_FAILED in pod.waiting else Step(Do.FAIL_RUN, delay)


def _obstacle(pod: Pod, efforts: Efforts) -> Step | None:
    """Return what is said about what is in the way of a pod's sandbox: volumes are mounted before."""
    again = _AGAIN_SECONDS if efforts.warned else 0.0
    if pod.metadata.annotations.get(CHOWN_ANNOTATION) == "true" and pod.spec.token_volume:
        return Step(Do.FAIL_MOUNT, again)
    if not efforts.pauses:
        return Step(Do.FAIL_PAUSE, again)
    return Step(Do.FAIL_SANDBOX) if _without_network(pod, efforts) and not efforts.warned else None


def _without_network(pod: Pod, efforts: Efforts) -> float:
    """Return for how long there is no network for a pod; that of the host is always there."""
    return 0.0 if pod.spec.host_network else max(0.0, efforts.network_in)


def _is_stuck(pod: Pod, *, booted: str) -> bool:
    """Whether the containers of a pod do not end: those of before the last start of the machine have."""
    runs = pod.status.phase == "Running" and pod.status.running_since >= (booted or " ")
    return runs and pod.metadata.annotations.get(STUCK_ANNOTATION) == "true"


def _while_running(
    pod: Pod, *, timing: PodTiming, now: datetime, build: str, ready: bool, booted: str, efforts: Efforts
) -> Step | None:
    since = pod.status.running_since
    if since and since < booted:
        return Step(Do.LOSE)
    if not since and pod.waiting:
        delay = timing.start_of(pod) + _without_network(pod, efforts)
        return _obstacle(pod, efforts) or _run(pod, build=build, delay=delay)
    if not is_told(pod, ready=ready):
        return Step(Do.MEND)
    lasts = timing.run_of(pod)
    if lasts is None or not since:
        return None
    has_run = (now - datetime.fromisoformat(since)).total_seconds()
    return Step(Do.COMPLETE, max(0.0, lasts - has_run))


def _pull_in_vain(pod: Pod, *, delay: float, timing: PodTiming) -> Step | None:
    if BACK_OFF in pod.waiting:
        return None
    if PULL_FAILED in pod.waiting:
        return Step(Do.BACK_OFF, timing.until_back_off())
    return Step(Do.FAIL_PULL, delay)


def _pull(pod: Pod, *, delay: float, timing: PodTiming, failed: int) -> Step:
    """Return what is done about a pod whose images cannot be pulled at first."""
    if PULL_FAILED in pod.waiting:
        return Step(Do.BACK_OFF, timing.until_back_off())
    if BACK_OFF in pod.waiting:
        delay += timing.until_pull(failed)
    if failed < timing.failures_of(pod):
        return Step(Do.FAIL_PULL, delay)
    return Step(Do.RUN, delay + timing.pull_of(pod))


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
