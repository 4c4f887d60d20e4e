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
    """Return a Windows node, or one of another ``os``; ``ready`` is why it is not Ready."""
    os = more.get("os", "windows")
    condition = {"type": "Ready", "status": "False", "reason": reason, "message": ready}
    if not ready:
        condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    return {
        "metadata": {
            "name": name,
            "uid": name,
            "creationTimestamp": more.get("created", LONG_AGO),
            "labels": {"kubernetes.io/os": os, **more.get("labels", {})},
            "annotations": more.get("annotations", {}),
        },
        "spec": {"taints": more.get("taints", []), **more.get("spec", {})},
        "status": {
            "capacity": {"pods": more.get("pods", "110")},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, condition],
            "images": [{"names": each} for each in more.get("images", [])],
            "nodeInfo": {
                "operatingSystem": os,
                "kernelVersion": more.get("kernel", "10.0.20348.4052"),
                "containerRuntimeVersion": more.get("runtime", "containerd://1.7.24"),
                "kubeletVersion": "v1.36.3",
            },
        },
    }


def a_pod(name: str = "web", *, node: str = "w1", waits: str = "", message: str = "", **more: Any) -> Object:
    """Return a pod of the namespace shop; ``waits`` is why its container does, empty if that runs."""
    state: Object = {"running": {"startedAt": LONG_AGO}}
    if waits:
        state = {"waiting": {"reason": waits, **({"message": message} if message else {})}}
    owner = more.get("daemon_set", "")
    is_ready = more.get("ready", not waits)
    return {
        "metadata": {
            "name": name,
            "namespace": more.get("namespace", "shop"),
            "uid": f"uid-{name}",
            "creationTimestamp": more.get("created", LONG_AGO),
            "ownerReferences": [{"kind": "DaemonSet", "name": owner, "controller": True}] if owner else [],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "acme/app"}],
            **more.get("spec", {}),
        },
        "status": {
            "phase": "Pending" if waits else "Running",
            "conditions": [
                {"type": "Ready", "status": str(is_ready)},
                *more.get("conditions", []),
            ],
            "containerStatuses": [
                {"name": "main", "state": state, "lastState": more.get("last", {})} for _ in range(bool(node))
            ],
        },
    }


def an_event(reason: str, message: str, *, pod: str = "web", node: str = "", **more: Any) -> Object:
    """Return a warning about a pod of the namespace shop, or about a node."""
    about = {"kind": "Pod", "namespace": "shop", "name": pod, "uid": more.get("uid", f"uid-{pod}")}
    if node:
        about = {"kind": "Node", "name": node, "uid": node}
    return {
        "metadata": {"name": f"{pod}.1", "namespace": "shop"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": more.get("at", "2026-11-29T10:00:00Z"),
    }


def a_daemon_set(name: str, *, namespace: str = "kube-flannel", **spec: Any) -> Object:
    """Return a DaemonSet for Windows nodes that tolerates everything."""
    pods = {
        "nodeSelector": {"kubernetes.io/os": "windows"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "main"}],
        **spec,
    }
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": pods}}}


def a_flannel_map(backend: str) -> Object:
    """Return the ConfigMap of flannel with this backend, as JSON."""
    return {"data": {"net-conf.json": f'{{"Network": "10.244.0.0/16", "Backend": {backend}}}'}}


FLANNEL: Final = {
    "flannel.alpha.coreos.com/backend-type": "vxlan",
    "flannel.alpha.coreos.com/backend-data": '{"VNI":4096,"VtepMAC":"00:15:5d:aa:bb:cc"}',
}

VENDORS: Final[dict[str, Object]] = {
    "AKS": {
        "labels": {"kubernetes.azure.com/agentpool": "win22"},
        "images": [["mcr.microsoft.com/oss/kubernetes/pause:3.9"]],
        "pods": "250",
        "agent": "azure-cns-win",
    },
    "EKS": {
        "labels": {"eks.amazonaws.com/nodegroup": "windows"},
        "images": [["602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/pause-windows:latest"]],
        "agent": "calico-node-windows",
    },
    "RKE2 with flannel": {
        "agent": "kube-flannel-ds-windows-amd64",
        "images": [["docker.io/rancher/mirrored-pause:3.6"]],
        "annotations": FLANNEL,
        "spec": {"podCIDR": "10.42.{}.0/24", "podCIDRs": ["10.42.{}.0/24"]},
    },
}
"""What differs between healthy nodes of vendors; {} is the number of the node, ``agent`` a DaemonSet."""


def a_vendor_node(vendor: str, number: int) -> Object:
    """Return a healthy node of a vendor."""
    more = dict(VENDORS[vendor])
    if "spec" in more:
        cidr = more["spec"]["podCIDR"].format(number)
        more["spec"] = {"podCIDR": cidr, "podCIDRs": [cidr]}
    return a_node(f"w{number}", **more)
