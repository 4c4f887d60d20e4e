"""The machines that are simulated: what a node of each kind is, before any kubelet runs on it.

Pure. The Windows shapes follow real nodes: ``osImage`` is the registry's ProductName,
``kernelVersion`` carries the revision, the machine ID is the host name and the boot ID a small
counter (kubelet, ``pkg/kubelet/winstats``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal
from uuid import UUID, uuid5

import msgspec

from testbed.winsim import images
from testbed.winsim.memory import USUAL_MEMORY, Memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from testbed.winsim.objects import Image, Taint

KUBELET_VERSION: Final = "v1.37.1"
KUBELET_PORT: Final = 10250
"""What every node names; somebody listens there only where endpoints are served."""
CLUSTER_DNS: Final = "10.96.0.10"
"""Address of the DNS service in the service range of the testbed, as kubeadm chooses it."""
_REGION: Final = "sim-1"
_BUILD: Final = re.compile(r"\d+\.\d+\.\d+")
_ZONES: Final = ("sim-1a", "sim-1b", "sim-1c")
# Fixed, so that the same machine has the same identity in every run.
_NAMESPACE: Final = UUID("6f1c2d0e-53a8-4f0e-9d5b-0c8a6f3b7e21")


class Setup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How kubelet and container runtime are configured; None leaves what machines of that kind have."""

    cluster_dns: str | None = None
    """Address of the DNS service for pods; empty: none."""
    pause_image: str | None = None
    """One without a variant for the Windows of the machine, for sandboxes; empty: the usual one."""
    pause_pulled: bool = False
    """Whether that image is there, so that Windows refuses to start it; or else it cannot be pulled."""

    def but(self, other: Setup) -> Setup:
        """Return the same with what the other says in place of what was configured before."""
        dns = self.cluster_dns if other.cluster_dns is None else other.cluster_dns
        pause = self if other.pause_image is None else other
        return Setup(cluster_dns=dns, pause_image=pause.pause_image, pause_pulled=pause.pause_pulled)


USUAL_SETUP: Final = Setup()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingSystem:
    """What is installed on a machine."""

    family: Literal["windows", "linux"]
    image: str
    kernel: str
    runtime: str
    images: tuple[Image, ...]

    @property
    def build(self) -> str:
        """``major.minor.build``: what a kubelet on Windows labels its node with; empty if there is none."""
        found = _BUILD.match(self.kernel)
        return found[0] if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """Sizes as the operating system reports them, and what the kubelet holds back from pods."""

    instance_type: str
    cpus: int
    memory_ki: int
    disk_ki: int
    reserved_memory_ki: int
    eviction_ki: int
    """Threshold of hard eviction, a part of what is held back; 0: none for memory."""
    kube_reserved_ki: int = 0
    """A part of what is held back, too; the rest is system-reserved."""
    pods: int = 110


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine with a kubelet on it. ``labels`` and ``taints`` are what the kubelet is started with."""

    name: str
    address: str
    zone: str
    region: str
    os: OperatingSystem
    hardware: Hardware
    machine_id: str
    system_uuid: str
    boot_id: str
    booted: str = ""
    """When it was last started, as containers say times; empty: before its Node was made."""
    networked: float = 0.0
    """From when on pods get a network, in seconds since the epoch."""
    kubelet_version: str = KUBELET_VERSION
    kubelet_port: int = KUBELET_PORT
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    setup: Setup = USUAL_SETUP


def _windows_2022(revision: int, *, containerd: str) -> OperatingSystem:
    return OperatingSystem(
        family="windows",
        image="Windows Server 2022 Datacenter",
        kernel=f"10.0.20348.{revision}",
        runtime=f"containerd://{containerd}",
        images=images.WINDOWS,
    )


# Half of the fleet is an update behind, so that a pool with a target revision has work to do. All
# minors that are supported recommend these runtimes.
WINDOWS_RELEASES: Final = (
    _windows_2022(4052, containerd="2.4.2"),
    _windows_2022(1607, containerd="2.3.0"),
)

LINUX_RELEASE: Final = OperatingSystem(
    family="linux",
    image="Ubuntu 24.04.3 LTS",
    kernel="6.8.0-87-generic",
    runtime="containerd://2.3.0",
    images=images.LINUX,
)

# 16 GiB; held back are system-reserved 2Gi and the kubelet's default hard eviction of 500Mi.
WINDOWS_HARDWARE: Final = Hardware(
    instance_type="sim.windows-4",
    cpus=4,
    memory_ki=16_776_756,
    disk_ki=133_703_677,
    reserved_memory_ki=(2048 + 500) * 1024,
    eviction_ki=500 * 1024,
)

# 8 GiB; only the default hard eviction of 100Mi is held back.
LINUX_HARDWARE: Final = Hardware(
    instance_type="sim.linux-2",
    cpus=2,
    memory_ki=8_129_781,
    disk_ki=64_891_709,
    reserved_memory_ki=100 * 1024,
    eviction_ki=100 * 1024,
)


def node_names(prefix: str, *, windows: int, linux: int) -> tuple[str, ...]:
    """Name the nodes of a fleet: ``<prefix>-w01`` …, then ``<prefix>-l01`` …, longer numbers where needed."""
    return (*_numbered(f"{prefix}-w", windows), *_numbered(f"{prefix}-l", linux))


def _numbered(stem: str, count: int) -> Iterator[str]:
    digits = max(2, len(str(count)))
    return (f"{stem}{number:0{digits}d}" for number in range(1, count + 1))


def build_fleet(
    prefix: str,
    *,
    windows: int,
    linux: int,
    addresses: Mapping[str, str],
    kubelet_version: str = KUBELET_VERSION,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
) -> tuple[Machine, ...]:
    """Describe every machine of a fleet; ``addresses`` holds one for each name of ``node_names``.

    Revisions and zones alternate from node to node, so that any few neighbours show all of them.
    """
    names = node_names(prefix, windows=windows, linux=linux)
    return tuple(
        build_machine(
            name,
            index=index if index < windows else index - windows,
            windows=index < windows,
            address=addresses[name],
            kubelet_version=kubelet_version,
            labels=dict(labels or {}),
            taints=taints,
        )
        for index, name in enumerate(names)
    )


def usual_system(index: int, *, windows: bool) -> OperatingSystem:
    """Return what is installed on a machine of which nothing else is said, by its place among its kind."""
    return WINDOWS_RELEASES[index % len(WINDOWS_RELEASES)] if windows else LINUX_RELEASE


def build_machine(
    name: str,
    *,
    index: int,
    windows: bool,
    address: str,
    kubelet_version: str,
    labels: Mapping[str, str],
    kubelet_port: int = KUBELET_PORT,
    taints: tuple[Taint, ...] = (),
    generation: int = 0,
    boots: int = 0,
    booted: str = "",
    networked: float = 0.0,
    installed: OperatingSystem | None = None,
    memory: Memory = USUAL_MEMORY,
    setup: Setup = USUAL_SETUP,
) -> Machine:
    """Describe one machine.

    Args:
        name: its host name, which becomes the name of its node.
        index: its place among its kind; zone and revision go by it.
        windows: its kind.
        address: its address.
        kubelet_version: the version that its kubelet says.
        labels: what its kubelet is started with.
        kubelet_port: the port that its Node names.
        taints: what its kubelet is started with.
        generation: how many machines have had this name before. Each has an identity of its own.
        boots: how often its system has been started beyond the first time. Windows counts that, and makes
            it its boot ID; so a system that is installed anew may have the boot ID of the old one.
        booted: when that last was; empty: before its Node was made.
        networked: from when on pods get a network, in seconds since the epoch.
        installed: what is installed on it; None: what ``index`` says.
        memory: how much it has and holds back, where that is not what others of its kind do.
        setup: how kubelet and runtime are configured, where that is not as on others.

    """
    seed = f"{name}/{address}" + (f"/{generation}" if generation else "")
    system_uuid = uuid5(_NAMESPACE, f"system/{seed}")
    system = installed or usual_system(index, windows=windows)
    if setup.pause_image:
        listed = images.with_pause(system.images, setup.pause_image, pulled=setup.pause_pulled)
        system = replace(system, images=listed)
    boot = f"boot/{seed}" + (f"/{boots}" if boots else "")
    return Machine(
        name=name,
        address=address,
        zone=_ZONES[index % len(_ZONES)],
        region=_REGION,
        os=system,
        hardware=memory.of(WINDOWS_HARDWARE if windows else LINUX_HARDWARE),
        machine_id=name if windows else uuid5(_NAMESPACE, f"machine/{seed}").hex,
        system_uuid=str(system_uuid).upper() if windows else str(system_uuid),
        boot_id=str(1 + boots) if windows else str(uuid5(_NAMESPACE, boot)),
        booted=booted,
        networked=networked,
        kubelet_version=kubelet_version,
        kubelet_port=kubelet_port,
        labels=labels,
        taints=taints,
        setup=setup,
    )
