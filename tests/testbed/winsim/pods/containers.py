"""What a kubelet says about the containers of a pod. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from testbed.winsim.pods.objects import Container, ContainerStatus, Pod

Patch = dict[str, Any]

LOST: Final[Patch] = {
    "exitCode": 137,
    "reason": "ContainerStatusUnknown",
    "message": "The container could not be located when the pod was terminated",
}


def statuses(pod: Pod, *, state: Patch, init_state: Patch, ready: bool = True) -> Patch:
    """Return the lists of container statuses of a pod.

    Args:
        pod: what they are of.
        state: of its containers, and of init containers that run beside them.
        init_state: of the other init containers.
        ready: whether containers that run are Ready.

    """
    spec = pod.spec
    main = [container_status(pod, each, state=state, ready=ready) for each in spec.containers]
    found: Patch = {"containerStatuses": main}
    if spec.init_containers:
        found["initContainerStatuses"] = [
            container_status(pod, each, state=state if each.sidecar else init_state, init=not each.sidecar)
            for each in spec.init_containers
        ]
    return found


def container_status(
    pod: Pod, container: Container, *, state: Patch, init: bool = False, ready: bool = True
) -> Patch:
    """Return the status of one container; ``ready`` is for one that runs, ``init`` for one that is done."""
    runs = "running" in state
    seen = _seen(pod, container)
    starts = seen.restart_count if seen else 0
    status = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "state": state,
        "lastState": dict(seen.last_state) if seen else {},
        "ready": runs and ready,
        "started": runs,
        "restartCount": starts,
    }
    if "waiting" in state or state.get("terminated") is LOST:
        return status
    identity = container_id(pod, container.name, start=starts)
    status |= {"imageID": image_id(container.image), "containerID": identity}
    status["ready"] = (runs and ready) or init
    if not runs:
        status["state"] = {"terminated": {**state["terminated"], "containerID": identity}}
    return status


def lost_status(pod: Pod, container: Container, *, state: Patch) -> Patch:
    """Return the status of a container that ended with its machine, and is about to be started again.

    The words are those of containerd for a container that it finds dead (``Unknown``, 255).
    """
    seen = _seen(pod, container)
    status = container_status(pod, container, state=state)
    if seen is not None and seen.state.running is not None and seen.state.running.started_at:
        status["lastState"] = unknown_end(started=seen.state.running.started_at)
        status["restartCount"] += 1
    return status


def unknown_end(*, started: str) -> Patch:
    """Return the state of a container of which only the machine's end is known."""
    return {"terminated": {"exitCode": 255, "reason": "Unknown", "startedAt": started, "finishedAt": started}}


def exited(*, started: str, finished: str) -> Patch:
    """Return the state of a container that has ended by itself."""
    times = {"startedAt": started, "finishedAt": finished}
    return {"terminated": {"exitCode": 0, "reason": "Completed", **times}}


def started_at(pod: Pod, *, default: str) -> str:
    """Return since when the containers of a pod run, as far as it says so."""
    known = (each.state.running for each in pod.status.container_statuses)
    return next((each.started_at for each in known if each and each.started_at), default)


def image_id(image: str) -> str:
    """Return the reference by digest that a runtime gives for an image; the digest is made from the name."""
    repository = image.partition("@")[0]
    last = repository.rpartition("/")[2]
    if ":" in last:
        repository = repository.rpartition(":")[0]
    return f"{repository}@sha256:{sha256(image.encode()).hexdigest()}"


def _seen(pod: Pod, container: Container) -> ContainerStatus | None:
    known = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    return next((each for each in known if each.name == container.name), None)


def container_id(pod: Pod, name: str, *, start: int = 0) -> str:
    """Return the identity of a container, after so many starts."""
    called = f"{pod.metadata.uid}/{name}" + (f"/{start}" if start else "")
    return f"containerd://{sha256(called.encode()).hexdigest()}"
