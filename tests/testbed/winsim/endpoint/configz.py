"""``/configz`` of a kubelet on Windows: the configuration that it runs with. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from testbed.winsim.machines import CLUSTER_DNS
from testbed.winsim.nodestatus import binary_quantity, minor_of

if TYPE_CHECKING:
    from testbed.winsim.machines import Hardware, Machine

# The rest of DefaultEvictionHard in pkg/kubelet/eviction/defaults_windows.go. Listing any threshold
# zeroes those that are not listed, so these are listed here too.
_DISK_THRESHOLDS: Final = {"nodefs.available": "10%", "imagefs.available": "15%"}
_KIND_SINCE: Final = 37
"""The minor whose source says that the configuration has a kind; older ones were not read."""


def configz(machine: Machine, *, port: int) -> bytes:
    """Return the answer. Without a threshold for memory in it, the kubelet evicts nothing on that ground."""
    hardware, dns = machine.hardware, machine.setup.cluster_dns
    dns = CLUSTER_DNS if dns is None else dns
    config: dict[str, Any] = {
        "enableServer": True,
        "syncFrequency": "1m0s",
        "address": "0.0.0.0",
        "port": port,
        "authentication": {
            "x509": {"clientCAFile": r"C:\k\pki\ca.crt"},
            "webhook": {"enabled": True, "cacheTTL": "2m0s"},
            "anonymous": {"enabled": False},
        },
        "authorization": {
            "mode": "Webhook",
            "webhook": {"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
        },
        "clusterDomain": "cluster.local",
        **({"clusterDNS": [dns]} if dns else {}),
        "nodeStatusUpdateFrequency": "10s",
        "nodeStatusReportFrequency": "5m0s",
        "maxPods": hardware.pods,
        "evictionHard": _eviction_hard(hardware),
        "evictionPressureTransitionPeriod": "5m0s",
        "enforceNodeAllocatable": ["pods"],
        "containerRuntimeEndpoint": "npipe:////./pipe/containerd-containerd",
    }
    for name, size_ki in (
        ("systemReserved", _system_ki(hardware)),
        ("kubeReserved", hardware.kube_reserved_ki),
    ):
        if size_ki:
            config[name] = {"memory": binary_quantity(size_ki * 1024)}
    if minor_of(machine) >= _KIND_SINCE:
        config = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", **config}
    return msgspec.json.encode({"kubeletconfig": config})


def _eviction_hard(hardware: Hardware) -> dict[str, str]:
    if not hardware.eviction_ki:
        return dict(_DISK_THRESHOLDS)
    return {"memory.available": binary_quantity(hardware.eviction_ki * 1024), **_DISK_THRESHOLDS}


def _system_ki(hardware: Hardware) -> int:
    """Return the part of the reservation that is neither for eviction nor for Kubernetes."""
    return max(0, hardware.reserved_memory_ki - hardware.eviction_ki - hardware.kube_reserved_ki)
