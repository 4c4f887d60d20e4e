"""Node and Lease as JSON carries them: only the fields that a kubelet reads or writes.

Unknown fields are ignored on the way in, empty ones are left out on the way out. All records
are frozen, so that equal parts of thousands of nodes can be one object in memory.
"""

from __future__ import annotations

import msgspec


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What all parts have in common: camelCase in JSON, empty fields left out."""


class OwnerReference(_Part, frozen=True):
    """Who takes this object along when it is deleted."""

    api_version: str
    kind: str
    name: str
    uid: str


class Metadata(_Part, frozen=True):
    """ObjectMeta without managedFields, which a client does not need to send back."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()


class Taint(_Part, frozen=True):
    """A taint that a kubelet registers with."""

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Condition(_Part, frozen=True):
    """One node condition; times are RFC 3339 with whole seconds."""

    type: str
    status: str
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class Address(_Part, frozen=True):
    """InternalIP or Hostname."""

    type: str
    address: str


class NodeInfo(_Part, frozen=True):
    """What the machine and its software are."""

    machine_id: str = msgspec.field(name="machineID", default="")
    system_uuid: str = msgspec.field(name="systemUUID", default="")
    boot_id: str = msgspec.field(name="bootID", default="")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    # Deprecated; kubelets from 1.33 on clear it, but the API still requires the key.
    kube_proxy_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class Port(_Part, frozen=True):
    """A port of a daemon; the capital P is the API's own spelling."""

    port: int = msgspec.field(name="Port", default=0)


class DaemonEndpoints(_Part, frozen=True):
    """Where the kubelet listens."""

    kubelet_endpoint: Port = Port()


class Image(_Part, frozen=True):
    """A container image on the node: digest first, then tag, as the runtime lists them."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class HandlerFeatures(_Part, frozen=True, omit_defaults=False):
    """What a runtime handler can do; reported even where it can do nothing."""

    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


class RuntimeHandler(_Part, frozen=True):
    """A handler of the container runtime; the default one has no name."""

    name: str = ""
    features: HandlerFeatures | None = None


class NodeFeatures(_Part, frozen=True, omit_defaults=False):
    """Features of the runtime that do not depend on the handler."""

    supplemental_groups_policy: bool = False


class NodeStatus(_Part, frozen=True):
    """All that a kubelet keeps up to date about its node."""

    capacity: dict[str, str] = msgspec.field(default_factory=dict)
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    addresses: tuple[Address, ...] = ()
    daemon_endpoints: DaemonEndpoints = DaemonEndpoints()
    node_info: NodeInfo = NodeInfo()
    images: tuple[Image, ...] = ()
    runtime_handlers: tuple[RuntimeHandler, ...] = ()
    features: NodeFeatures | None = None
    declared_features: tuple[str, ...] = ()


class NodeSpec(_Part, frozen=True):
    """What a kubelet may say about its node at registration, and never again; ``pod_cidr`` is not its own."""

    provider_id: str = msgspec.field(name="providerID", default="")
    pod_cidr: str = msgspec.field(name="podCIDR", default="")
    taints: tuple[Taint, ...] = ()


class Node(_Part, frozen=True):
    """A Node, both as posted and as read (kind and apiVersion are absent in the items of a list)."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, or None where the node has none."""
        return next((each for each in self.status.conditions if each.type == kind), None)

    @property
    def ready(self) -> bool:
        """Whether the API server holds the node as Ready."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"


class LeaseSpec(_Part, frozen=True):
    """Who is alive, and until when to believe it."""

    holder_identity: str = ""
    lease_duration_seconds: int = 0
    renew_time: str | None = None


class Lease(_Part, frozen=True):
    """The heartbeat of a node, in the namespace kube-node-lease."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Metadata()
    spec: LeaseSpec = LeaseSpec()
