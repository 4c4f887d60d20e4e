"""The status patches that a kubelet sends about its pods.

Pure; follows the kubelet at v1.36 (``kubelet_pods.go``, ``status/generate.go``). The patches are strategic
merges on ``pods/<name>/status`` that carry the UID, so that they cannot hit a namesake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from testbed.winsim.clock import timestamp
from testbed.winsim.pods.containers import (
    LOST,
    container_id,
    container_status,
    exited,
    lost_status,
    started_at,
    statuses,
    unknown_end,
)
from testbed.winsim.pods.pulls import RUN_FAILED, failure, mismatch
from testbed.winsim.pods.steps import gates_open

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from testbed.winsim.pods.objects import Container, Pod

Patch = dict[str, Any]

_NOT_READY: Final = "ContainersNotReady"


def created(pod: Pod, *, host_ip: str, now: datetime) -> Patch:
    """Report a pod that has been admitted: its images are there, its containers are being created."""
    return _pending(pod, host_ip=host_ip, pod_ip="", now=now)


def unpulled(
    pod: Pod, *, host_ip: str, pod_ip: str, fits: bool = False, back_off: bool, now: datetime
) -> Patch:
    """Report a pod that waits since its images cannot be pulled: its network is there already.

    They have no manifest for the node, or they fit and the registry does not serve them. Of init containers
    the first is the one that is waited for.
    """
    patch = _pending(pod, host_ip=host_ip, pod_ip=pod_ip, now=now)
    for container in _first(patch["status"]):
        container["state"] = {"waiting": failure(container["image"], fits=fits, back_off=back_off)}
    return patch


def unstarted(pod: Pod, *, host_ip: str, pod_ip: str, runtime: str, now: datetime) -> Patch:
    """Report a pod whose containers Windows has refused to start: they wait, and it says that it is Running.

    ``getPhase`` counts a container that waits and has ended before as one that will be started again.
    """
    patch = _pending(pod, host_ip=host_ip, pod_ip=pod_ip, now=now)
    for container in _first(patch["status"]):
        identity = container_id(pod, container["name"]).rpartition("/")[2]
        message = mismatch(identity, what=f'container "{identity}"', runtime=runtime)
        end = {"exitCode": 128, "reason": "StartError", "message": message, "finishedAt": timestamp(now)}
        container["state"] = {"waiting": {"reason": RUN_FAILED, "message": message}}
        container["lastState"] = {"terminated": end}
    if not pod.spec.init_containers:
        patch["status"]["phase"] = "Running"
    return patch


def running(pod: Pod, *, host_ip: str, pod_ip: str, now: datetime, ready: bool = True) -> Patch:
    """Report a pod whose containers run, and are Ready or not; init containers have done their work."""
    moment = timestamp(now)
    done = exited(started=moment, finished=moment)
    return _patch(
        pod,
        phase="Running",
        conditions=[
            _condition(pod, "PodReadyToStartContainers", "True", now=now),
            _initialized(pod, now=now),
            *_readiness(pod, ready=ready, now=now),
            _condition(pod, "PodScheduled", "True", now=now),
        ],
        startTime=pod.status.start_time or moment,
        **_network(pod_ip, instead_of=pod.status.pod_ip),
        **_host(host_ip),
        **statuses(pod, state={"running": {"startedAt": moment}}, init_state=done, ready=ready),
    )


def mended(pod: Pod, *, now: datetime, ready: bool = True) -> Patch:
    """Put right what is said about the readiness of a pod that runs, and about its containers if need be."""
    conditions = _readiness(pod, ready=ready, now=now)
    if pod.is_true("ContainersReady") is ready:
        return _patch(pod, conditions=conditions)
    state = {"running": {"startedAt": started_at(pod, default=timestamp(now))}}
    containers = [container_status(pod, each, state=state, ready=ready) for each in pod.spec.containers]
    return _patch(pod, conditions=conditions, containerStatuses=containers)


def stopped(pod: Pod, *, now: datetime) -> Patch:
    """Report a pod that was told to end and has: its containers exited by themselves.

    One that never started has failed: nobody can tell what became of its containers.
    """
    if pod.status.phase != "Running":
        return _ended(pod, phase="Failed", reason="PodFailed", state={"terminated": LOST}, now=now)
    moment = timestamp(now)
    started = started_at(pod, default=moment)
    state = exited(started=started, finished=moment)
    return _ended(pod, phase="Succeeded", reason="PodCompleted", state=state, now=now)


def lost(pod: Pod, *, now: datetime) -> Patch:
    """Report a pod whose containers have ended with their machine; they start again unless it says Never."""
    if pod.spec.restart_policy == "Never":
        end = unknown_end(started=started_at(pod, default=timestamp(now)))
        return _ended(pod, phase="Failed", reason="PodFailed", state=end, now=now)
    state = {"waiting": {"reason": "ContainerCreating"}}
    return _patch(
        pod,
        conditions=[
            _condition(pod, "PodReadyToStartContainers", "False", now=now),
            *_unready(pod, now=now),
        ],
        containerStatuses=[lost_status(pod, each, state=state) for each in pod.spec.containers],
    )


def refused(pod: Pod, *, reason: str, message: str, now: datetime) -> Patch:
    """Report a pod that is not admitted."""
    return _patch(
        pod,
        phase="Failed",
        reason=reason,
        message=f"Pod was rejected: {message}",
        startTime=timestamp(now),
    )


def removal(pod: Pod) -> Patch:
    """Return the options of the DELETE that ends a pod: at once, and this very one."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": pod.metadata.uid},
    }


def _patch(pod: Pod, **status: Any) -> Patch:
    return {
        "metadata": {"uid": pod.metadata.uid},
        "status": {"observedGeneration": pod.metadata.generation, **status},
    }


def _pending(pod: Pod, *, host_ip: str, pod_ip: str, now: datetime) -> Patch:
    initializing = bool(pod.spec.init_containers)
    waiting = {"waiting": {"reason": "PodInitializing" if initializing else "ContainerCreating"}}
    return _patch(
        pod,
        phase="Pending",
        conditions=[
            _condition(pod, "PodReadyToStartContainers", "True" if pod_ip else "False", now=now),
            _initialized(pod, now=now, done=not initializing),
            *_unready(pod, now=now),
            _condition(pod, "PodScheduled", "True", now=now),
        ],
        startTime=pod.status.start_time or timestamp(now),
        **(_network(pod_ip, instead_of=pod.status.pod_ip) if pod_ip else {}),
        **_host(host_ip),
        **statuses(pod, state=waiting, init_state=waiting),
    )


def _first(status: Patch) -> list[Patch]:
    """Return the statuses of the containers that are started first: the first init container, or all."""
    init: list[Patch] = status.get("initContainerStatuses", [])
    return init[:1] or status["containerStatuses"]


def _ended(pod: Pod, *, phase: str, reason: str, state: Patch, now: datetime) -> Patch:
    return _patch(
        pod,
        phase=phase,
        conditions=[
            _condition(pod, "PodReadyToStartContainers", "False", now=now),
            _condition(pod, "Initialized", "True", reason=reason if phase == "Succeeded" else "", now=now),
            _condition(pod, "Ready", "False", reason=reason, now=now),
            _condition(pod, "ContainersReady", "False", reason=reason, now=now),
            _condition(pod, "PodScheduled", "True", now=now),
        ],
        startTime=pod.status.start_time or timestamp(now),
        **statuses(pod, state=state, init_state=state),
    )


def _unready(pod: Pod, *, now: datetime) -> list[Patch]:
    message = f"containers with unready status: [{' '.join(_names(pod.spec.containers))}]"
    return [
        _condition(pod, kind, "False", reason=_NOT_READY, message=message, now=now)
        for kind in ("Ready", "ContainersReady")
    ]


def _readiness(pod: Pod, *, ready: bool, now: datetime) -> list[Patch]:
    if not ready:
        return _unready(pod, now=now)
    if gates_open(pod):
        whole = _condition(pod, "Ready", "True", now=now)
    else:
        shut = [
            gate.condition_type for gate in pod.spec.readiness_gates if not pod.is_true(gate.condition_type)
        ]
        message = ", ".join(f'the status of pod readiness gate "{gate}" is not "True"' for gate in shut)
        whole = _condition(pod, "Ready", "False", reason="ReadinessGatesNotReady", message=message, now=now)
    return [whole, _condition(pod, "ContainersReady", "True", now=now)]


def _initialized(pod: Pod, *, now: datetime, done: bool = True) -> Patch:
    if done:
        return _condition(pod, "Initialized", "True", now=now)
    message = f"containers with incomplete status: [{' '.join(_names(pod.spec.init_containers))}]"
    return _condition(
        pod, "Initialized", "False", reason="ContainersNotInitialized", message=message, now=now
    )


def _condition(
    pod: Pod, kind: str, status: str, *, reason: str = "", message: str = "", now: datetime
) -> Patch:
    """Write one condition; the time of transition is kept while the status holds, empty texts are removed."""
    seen = pod.condition(kind)
    condition: Patch = {
        "type": kind,
        "status": status,
        "reason": reason or None,
        "message": message or None,
        "observedGeneration": pod.metadata.generation,
    }
    if seen is None or seen.status != status:
        condition["lastTransitionTime"] = timestamp(now)
    return condition


def _host(host_ip: str) -> Patch:
    return {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}


def _network(pod_ip: str, *, instead_of: str = "") -> Patch:
    addresses: list[Patch] = [{"ip": pod_ip}]
    if instead_of not in ("", pod_ip):
        # A list that is merged by address: without this, both would stand there.
        addresses.append({"$patch": "replace"})
    return {"podIP": pod_ip, "podIPs": addresses}


def _names(containers: Iterable[Container]) -> list[str]:
    return [each.name for each in containers]
