"""What a kubelet says about its node: the object it registers with and the status it keeps.

Pure; follows the setters of the kubelet at v1.36 (``pkg/kubelet/nodestatus/setters.go``,
``pkg/kubelet/kubelet_node_status.go``; at v1.37 they do the same for Windows) and keeps everything
that others wrote: conditions of other types, other labels, resources that it does not own.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from testbed.winsim.conditions import conditions
from testbed.winsim.objects import (
    Address,
    Condition,
    DaemonEndpoints,
    HandlerFeatures,
    Metadata,
    Node,
    NodeFeatures,
    NodeInfo,
    NodeSpec,
    NodeStatus,
    Port,
    RuntimeHandler,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from testbed.winsim.conditions import Health
    from testbed.winsim.machines import Hardware, Machine

_ATTACH_DETACH: Final = "volumes.kubernetes.io/controller-managed-attach-detach"
# What a kubelet of 1.36 with its default feature gates declares (component-helpers, nodedeclaredfeatures).
_DECLARED_FEATURES: Final = (
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
)
# The minors from which on kubelets report these fields by default. Older API servers drop them, so a kubelet
# would find them missing each time and send a status every ten seconds.
_RUNTIME_HANDLERS_SINCE: Final = 31
_FEATURES_SINCE: Final = 33
_DECLARED_FEATURES_SINCE: Final = 36
_MINOR: Final = re.compile(r"v1\.(\d+)\.")
_NOTHING: Final = HandlerFeatures()
_ALL: Final = HandlerFeatures(recursive_read_only_mounts=True, user_namespaces=True)
_HANDLERS: Final = {
    "windows": (
        RuntimeHandler(features=_NOTHING),
        RuntimeHandler(name="runhcs-wcow-hypervisor", features=_NOTHING),
        RuntimeHandler(name="runhcs-wcow-process", features=_NOTHING),
    ),
    "linux": (RuntimeHandler(features=_ALL), RuntimeHandler(name="runc", features=_ALL)),
}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def node_status(machine: Machine, *, seen: NodeStatus, health: Health, now: datetime) -> NodeStatus:
    """Compose the status that a kubelet wants on its node, given the one that stands there."""
    minor = minor_of(machine)
    return NodeStatus(
        capacity={**seen.capacity, **_capacity(machine.hardware)},
        allocatable={**seen.allocatable, **_allocatable(machine.hardware)},
        conditions=conditions(seen.conditions, health=health, now=now),
        addresses=(Address("InternalIP", machine.address), Address("Hostname", machine.name)),
        daemon_endpoints=DaemonEndpoints(Port(machine.kubelet_port)),
        node_info=NodeInfo(
            machine_id=machine.machine_id,
            system_uuid=machine.system_uuid,
            boot_id=machine.boot_id,
            kernel_version=machine.os.kernel,
            os_image=machine.os.image,
            container_runtime_version=machine.os.runtime,
            kubelet_version=machine.kubelet_version,
            operating_system=machine.os.family,
            architecture="amd64",
        ),
        images=machine.os.images,
        runtime_handlers=_HANDLERS[machine.os.family] if minor >= _RUNTIME_HANDLERS_SINCE else (),
        features=NodeFeatures(supplemental_groups_policy=machine.os.family == "linux")
        if minor >= _FEATURES_SINCE
        else None,
        declared_features=_DECLARED_FEATURES if minor >= _DECLARED_FEATURES_SINCE else (),
    )


def minor_of(machine: Machine) -> int:
    """Return the minor version of a machine's kubelet; 0 where it cannot be read."""
    found = _MINOR.match(machine.kubelet_version)
    return int(found[1]) if found else 0


def initial_node(machine: Machine, *, health: Health, now: datetime) -> Node:
    """Compose the object that a kubelet registers with."""
    return Node(
        api_version="v1",
        kind="Node",
        metadata=Metadata(
            name=machine.name,
            labels={**default_labels(machine), **machine.labels},
            annotations={_ATTACH_DETACH: "true"},
        ),
        spec=NodeSpec(
            provider_id=f"winsim:///{machine.zone}/{machine.system_uuid.lower()}",
            taints=machine.taints,
        ),
        status=node_status(machine, seen=NodeStatus(), health=health, now=now),
    )


def default_labels(machine: Machine) -> dict[str, str]:
    """List the labels that a kubelet sets at registration and again whenever it restarts.

    Zone, region and instance type are a cloud's to set; here they come from the kubelet, as on
    clusters where it is started with them. The topology labels are kubelet labels under
    NodeRestriction, so that this is allowed.
    """
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": machine.os.family,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": machine.os.family,
        "node.kubernetes.io/instance-type": machine.hardware.instance_type,
        "topology.kubernetes.io/region": machine.region,
        "topology.kubernetes.io/zone": machine.zone,
    }
    if machine.os.family == "windows" and machine.os.build:
        labels["node.kubernetes.io/windows-build"] = machine.os.build
    return labels


def required_labels(machine: Machine) -> dict[str, str]:
    """List the labels that a running kubelet puts back within one status interval."""
    return {"kubernetes.io/arch": "amd64", "kubernetes.io/os": machine.os.family}


def reregistered(machine: Machine, *, existing: Node) -> Node:
    """Reconcile a Node that exists already, as a kubelet does when it restarts.

    Default labels (with the kubelet's own overrides of just those) and the attach-detach
    annotation are set again; other labels that the kubelet was started with are not, and
    taints never are.
    """
    defaults = default_labels(machine)
    overrides = {key: value for key, value in machine.labels.items() if key in defaults}
    return _with_metadata(
        existing,
        labels={**existing.metadata.labels, **defaults, **overrides},
        annotations={**existing.metadata.annotations, _ATTACH_DETACH: "true"},
    )


def reported(machine: Machine, *, seen: Node, health: Health, now: datetime) -> Node:
    """Compose the node as a running kubelet wants it: its status, and the labels it insists on."""
    return replace(
        _with_metadata(seen, labels={**seen.metadata.labels, **required_labels(machine)}),
        status=node_status(machine, seen=seen.status, health=health, now=now),
    )


def has_changed(seen: Node, wanted: Node) -> bool:
    """Tell whether two states of a node differ in more than heartbeat times and the order of conditions."""
    return (
        seen.metadata.labels != wanted.metadata.labels
        or _without_conditions(seen) != _without_conditions(wanted)
        or _comparable(seen) != _comparable(wanted)
    )


def _without_conditions(node: Node) -> NodeStatus:
    return replace(node.status, conditions=())


def _comparable(node: Node) -> dict[str, Condition]:
    return {each.type: replace(each, last_heartbeat_time=None) for each in node.status.conditions}


def _with_metadata(
    node: Node, *, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None
) -> Node:
    kept = node.metadata.annotations if annotations is None else annotations
    return replace(node, metadata=replace(node.metadata, labels=dict(labels), annotations=dict(kept)))


def _capacity(hardware: Hardware) -> dict[str, str]:
    return {
        "cpu": str(hardware.cpus),
        "ephemeral-storage": binary_quantity(hardware.disk_ki * 1024),
        "memory": binary_quantity(hardware.memory_ki * 1024),
        "pods": str(hardware.pods),
    }


def _allocatable(hardware: Hardware) -> dict[str, str]:
    # Of the disk, the kubelet's default hard eviction threshold of 10 % is held back.
    return {
        **_capacity(hardware),
        "ephemeral-storage": binary_quantity(hardware.disk_ki * 1024 * 9 // 10),
        # More than all can be held back: only on Linux does a kubelet refuse to start then.
        "memory": binary_quantity(max(0, hardware.memory_ki - hardware.reserved_memory_ki) * 1024),
    }


def binary_quantity(number: int) -> str:
    """Write a whole number of bytes as the API server would write it back: the largest unit that is exact."""
    unit = 0
    while number and number % 1024 == 0 and unit < len(_BINARY_SUFFIXES) - 1:
        number //= 1024
        unit += 1
    return f"{number}{_BINARY_SUFFIXES[unit]}"
