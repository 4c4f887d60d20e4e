"""Nodes, pods and events as the API returns them, healthy and not, for the tests of ``diagnose``."""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]

NETWORK: Final = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
LONG_AGO: Final = "2026-11-01T10:00:00Z"


def a_node(name: str = "w1", *, ready: str = "", reason: str = "KubeletNotReady", **more: Any) -> Object:
    """Return a Windows node; ``ready`` is why it is not Ready."""
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": ready}
    if not ready:
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": more.get("created", LONG_AGO),
            "labels": {"kubernetes.io/os": "windows", **more.get("labels", {})},
            "annotations": more.get("annotations", {}),
        },
        "spec": {"taints": more.get("taints", []), **more.get("spec", {})},
        "status": {
            "capacity": {"pods": more.get("pods", "110")},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, condition],
            "images": [{"names": each} for each in more.get("images", [])],
            "nodeInfo": {
                "operatingSystem": "windows",
                "kernelVersion": more.get("kernel", "10.0.20348.4052"),
                "containerRuntimeVersion": more.get("runtime", "containerd://1.7.24"),
                "kubeletVersion": "v1.36.3",
            },
        },
    }
