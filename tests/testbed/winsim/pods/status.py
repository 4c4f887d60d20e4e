"""The status patches that a kubelet sends about its pods.

Pure; follows the kubelet at v1.36 (``kubelet_pods.go``, ``status/generate.go``). The patches are strategic
merges on ``pods/<name>/status`` that carry the UID, so that they cannot hit a namesake.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from testbed.winsim.clock import timestamp
from testbed.winsim.pods.steps import gates_open

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from testbed.winsim.pods.objects import Container, Pod

Patch = dict[str, Any]

_NOT_READY: Final = "ContainersNotReady"
_LOST: Final[Patch] = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}


def created(pod: Pod, *, host_ip: str, now: datetime) -> Patch:
    """Report a pod that has been admitted: its images are there, its containers are being created."""
    initializing = bool(pod.spec.init_containers)
    reason = "PodInitializing" if initializing else "ContainerCreating"
    waiting = {"waiting": {"reason": reason}}
    unready = f"containers with unready status: [{' '.join(_names(pod.spec.containers))}]"
    conditions = [
        _condition(pod, "PodReadyToStartContainers", "False", now=now),
        _initialized(pod, now=now, done=False) if initializing else _initialized(pod, now=now),
        _condition(pod, "Ready", "False", reason=_NOT_READY, message=unready, now=now),
        _condition(pod, "ContainersReady", "False", reason=_NOT_READY, message=unready, now=now),
        _condition(pod, "PodScheduled", "True", now=now),
    ]
    return _patch(
        pod,
        phase="Pending",
        conditions=conditions,
        startTime=timestamp(now),
        **_host(host_ip),
        **_statuses(pod, state=waiting, init_state=waiting),
    )


def running(pod: Pod, *, host_ip: str, pod_ip: str, now: datetime) -> Patch:
    """Report a pod whose containers run and are Ready; init containers have done their work."""
    moment = timestamp(now)
    done = {"terminated": _exit(started=moment, finished=moment)}
    return _patch(
        pod,
        phase="Running",
        conditions=[
            _condition(pod, "PodReadyToStartContainers", "True", now=now),
            _initialized(pod, now=now),
            *_readiness(pod, now=now),
            _condition(pod, "PodScheduled", "True", now=now),
        ],
        startTime=pod.status.start_time or moment,
        podIP=pod_ip,
        podIPs=[{"ip": pod_ip}],
        **_host(host_ip),
        **_statuses(pod, state={"running": {"startedAt": moment}}, init_state=done),
    )


def mended(pod: Pod, *, now: datetime) -> Patch:
    """Put right what is said about the readiness of a pod that runs."""
    return _patch(pod, conditions=_readiness(pod, now=now))


def stopped(pod: Pod, *, now: datetime) -> Patch:
    """Report a pod that was told to end and has: its containers exited by themselves.

    One that never started has failed: nobody can tell what became of its containers.
    """
    if pod.status.phase != "Running":
        return _ended(pod, phase="Failed", reason="PodFailed", state={"terminated": _LOST}, now=now)
    moment = timestamp(now)
    known = (each.state.running for each in pod.status.container_statuses)
    started = next((each.started_at for each in known if each and each.started_at), moment)
    state = {"terminated": _exit(started=started, finished=moment)}
    return _ended(pod, phase="Succeeded", reason="PodCompleted", state=state, now=now)


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
        **_statuses(pod, state=state, init_state=state),
    )


def _readiness(pod: Pod, *, now: datetime) -> list[Patch]:
    if gates_open(pod):
        ready = _condition(pod, "Ready", "True", now=now)
    else:
        shut = [
            gate.condition_type for gate in pod.spec.readiness_gates if not pod.is_true(gate.condition_type)
        ]
        message = ", ".join(f'the status of pod readiness gate "{gate}" is not "True"' for gate in shut)
        ready = _condition(pod, "Ready", "False", reason="ReadinessGatesNotReady", message=message, now=now)
    return [ready, _condition(pod, "ContainersReady", "True", now=now)]


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


def _statuses(pod: Pod, *, state: Patch, init_state: Patch) -> Patch:
    spec = pod.spec
    statuses: Patch = {"containerStatuses": [_container(pod, each, state=state) for each in spec.containers]}
    if spec.init_containers:
        statuses["initContainerStatuses"] = [
            _container(pod, each, state=state if each.sidecar else init_state, init=not each.sidecar)
            for each in spec.init_containers
        ]
    return statuses


def _container(pod: Pod, container: Container, *, state: Patch, init: bool = False) -> Patch:
    runs = "running" in state
    status = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "state": state,
        "lastState": {},
        "ready": runs,
        "started": runs,
        "restartCount": 0,
    }
    if "waiting" in state or state.get("terminated") is _LOST:
        return status
    identity = _container_id(pod, container)
    status |= {"imageID": image_id(container.image), "containerID": identity, "ready": runs or init}
    if not runs:
        status["state"] = {"terminated": {**state["terminated"], "containerID": identity}}
    return status


def _exit(*, started: str, finished: str) -> Patch:
    return {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": finished}


def _container_id(pod: Pod, container: Container) -> str:
    return f"containerd://{sha256(f'{pod.metadata.uid}/{container.name}'.encode()).hexdigest()}"


def image_id(image: str) -> str:
    """Return the reference by digest that a runtime gives for an image; the digest is made from the name."""
    repository = image.partition("@")[0]
    last = repository.rpartition("/")[2]
    if ":" in last:
        repository = repository.rpartition(":")[0]
    return f"{repository}@sha256:{sha256(image.encode()).hexdigest()}"


def _names(containers: Iterable[Container]) -> list[str]:
    return [each.name for each in containers]
