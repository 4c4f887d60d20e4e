"""The Summary API as JSON carries it (``stats.k8s.io/v1alpha1`` of the kubelet).

Optional fields that are absent stay absent; a time that was never set is null.
"""

from __future__ import annotations

import msgspec


class _Part(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What all parts have in common: camelCase in JSON, absent fields left out."""


class Cpu(_Part, frozen=True):
    """CPUStats."""

    time: str | None
    usage_nano_cores: int | None = None
    usage_core_nano_seconds: int | None = None


class Memory(_Part, frozen=True):
    """MemoryStats."""

    time: str | None
    available_bytes: int | None = None
    usage_bytes: int | None = None
    working_set_bytes: int | None = None
    rss_bytes: int | None = None
    page_faults: int | None = None
    major_page_faults: int | None = None


class Disk(_Part, frozen=True):
    """FsStats."""

    time: str | None
    available_bytes: int | None = None
    capacity_bytes: int | None = None
    used_bytes: int | None = None


class Swap(_Part, frozen=True):
    """SwapStats."""

    time: str | None
    swap_available_bytes: int | None = None
    swap_usage_bytes: int | None = None


class Interface(_Part, frozen=True):
    """InterfaceStats."""

    name: str
    rx_bytes: int | None = None
    tx_bytes: int | None = None


class Network(_Part, frozen=True):
    """NetworkStats: the default interface, and all."""

    time: str | None
    name: str
    rx_bytes: int | None = None
    tx_bytes: int | None = None
    interfaces: tuple[Interface, ...] = ()


class Container(_Part, frozen=True):
    """ContainerStats."""

    name: str
    start_time: str | None
    cpu: Cpu | None = None
    memory: Memory | None = None
    rootfs: Disk | None = None
    logs: Disk | None = None
    swap: Swap | None = None


class PodRef(_Part, frozen=True):
    """PodReference."""

    name: str
    namespace: str
    uid: str


class Pod(_Part, frozen=True):
    """PodStats."""

    pod_ref: PodRef
    start_time: str | None
    containers: tuple[Container, ...]
    cpu: Cpu | None = None
    memory: Memory | None = None
    network: Network | None = None
    ephemeral_storage: Disk | None = msgspec.field(name="ephemeral-storage", default=None)


class Runtime(_Part, frozen=True):
    """RuntimeStats."""

    container_fs: Disk | None = None
    image_fs: Disk | None = None


class Node(_Part, frozen=True):
    """NodeStats."""

    node_name: str
    system_containers: tuple[Container, ...]
    start_time: str | None
    cpu: Cpu | None = None
    memory: Memory | None = None
    network: Network | None = None
    fs: Disk | None = None
    runtime: Runtime | None = None


class Summary(_Part, frozen=True):
    """All of it."""

    node: Node
    pods: tuple[Pod, ...]
