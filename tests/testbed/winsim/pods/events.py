"""Events that kubelets write about pods. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from testbed.winsim.clock import timestamp

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


def no_sandbox(pod: Pod, *, machine: Machine, now: datetime) -> dict[str, Any]:
    """Return the warning about a pod for which there is no network yet, with the error of Windows (HNS)."""
    metadata = pod.metadata
    sandbox = sha256(f"{metadata.uid}/{machine.boot_id}".encode()).hexdigest()
    return warning(
        machine,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        reason="FailedCreatePodSandBox",
        message="Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for "
        f'sandbox "{sandbox}": plugin type="calico" failed (add): hcnOpenNetwork failed in Win32: '
        "The network was not found. (0x803b0001)",
        moment=timestamp(now),
    )
