"""Events that kubelets write about pods. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from testbed.winsim.clock import timestamp
from testbed.winsim.pods.pulls import mismatch
from testbed.winsim.pods.steps import Do

if TYPE_CHECKING:
    from datetime import datetime

    from testbed.winsim.machines import Machine
    from testbed.winsim.pods.objects import Pod


def warning(
    machine: Machine, *, namespace: str, name: str, uid: str, reason: str, message: str, moment: str
) -> dict[str, Any]:
    """Return a warning of the kubelet of a machine about one pod."""
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{name}.", "namespace": namespace},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": namespace,
            "name": name,
            "uid": uid,
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet", "host": machine.name},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def obstacle(do: Do, pod: Pod, *, machine: Machine, now: datetime) -> dict[str, Any]:
    """Return the warning about what is in the way of a pod; ``do`` is one of ``WARNINGS``."""
    metadata = pod.metadata
    mounts = do is Do.FAIL_MOUNT
    return warning(
        machine,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        reason="FailedMount" if mounts else "FailedCreatePodSandBox",
        message=_chown(pod, now=now)
        if mounts
        else f"Failed to create pod sandbox: rpc error: code = {_no_sandbox(do, pod, machine=machine)}",
        moment=timestamp(now),
    )


def _chown(pod: Pod, *, now: datetime) -> str:
    """Return the error of a volume whose files are to have a Linux owner (kubernetes/kubernetes#102849)."""
    volume = pod.spec.token_volume
    folder = rf"c:\var\lib\kubelet\pods\{pod.metadata.uid}\volumes\kubernetes.io~projected\{volume}"
    file = rf"{folder}\..{now:%Y_%m_%d_%H_%M_%S}.{now.microsecond:06d}001\token"
    return f'MountVolume.SetUp failed for volume "{volume}" : chown {file}: not supported by windows'


def _no_sandbox(do: Do, pod: Pod, *, machine: Machine) -> str:
    """Return code and error of the runtime: no network (HNS), or no pause image for this Windows.

    The latter is in ``RunPodSandbox`` of containerd (``internal/cri/server``), and for Docker
    https://github.com/rancher/rancher/issues/23161.
    """
    sandbox = sha256(f"{pod.metadata.uid}/{machine.boot_id}".encode()).hexdigest()
    if do is Do.FAIL_SANDBOX:
        return (
            f'Unknown desc = failed to setup network for sandbox "{sandbox}": plugin type="calico" failed '
            "(add): hcnOpenNetwork failed in Win32: The network was not found. (0x803b0001)"
        )
    runtime, image = machine.os.runtime, machine.setup.pause_image or ""
    docker = runtime.startswith("docker:")
    started = "" if docker else f'failed to start sandbox "{sandbox}": '
    if machine.setup.pause_pulled:
        what = f'sandbox container for pod "{pod.metadata.name}"'
        return f"Unknown desc = {started}{mismatch(sandbox, what=what, runtime=runtime)}"
    if docker:
        platform = f"windows/amd64 {machine.os.build}"
        return (
            f'Unknown desc = failed pulling image "{image}": '
            f"no matching manifest for {platform} in the manifest list entries"
        )
    return (
        f'NotFound desc = {started}failed to get sandbox image "{image}": failed to pull image "{image}": '
        f'failed to pull and unpack image "{image}": no match for platform in manifest: not found'
    )
