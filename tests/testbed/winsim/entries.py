"""One machine on the list: what is known of it, and what its owner may ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from testbed.winsim.endpoint.faults import EndpointName, Fault
from testbed.winsim.machines import USUAL_SETUP, Setup
from testbed.winsim.memory import USUAL_MEMORY, Memory
from testbed.winsim.objects import Taint
from testbed.winsim.samples import parse_sample

Family = Literal["windows", "linux"]
FAMILIES: Final[tuple[Family, ...]] = ("windows", "linux")
NOTHING_INSTALLED: Final[Mapping[str, str]] = MappingProxyType({})
Updates = Literal["succeed", "fail", "never_return"]
"""What comes of updates and new systems on a machine: they are installed, or the old one is back after the
start, or the machine does not start again."""
LEAST_DOWN_SECONDS: Final = 1.0
"""What containers say of their start has whole seconds: in less, one that ran before could not be told."""


class Trouble(msgspec.Struct, frozen=True):
    """Why a kubelet reports Ready=False."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Outage:
    """How long a machine takes to start again, in seconds: it is silent, and after that not Ready yet.

    It may be Ready before pods have a network: ``network_after`` seconds before.
    """

    down: float = 2.0
    ready_after: float = 2.0
    network_after: float = 0.0


USUAL_OUTAGE: Final = Outage()
AT_ONCE: Final = Outage(down=0.0, ready_after=0.0)
"""That of a machine which stands ready when the one before it goes."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One machine. ``generation`` counts the machines that have had this name before.

    ``sample`` is the real node that it is a copy of (``samples.parse_sample``); empty: of none.
    ``kernel`` is what has been installed on it since (``releases.kernel_of``); empty: nothing.
    ``boots`` counts how often the system on it has been started beyond the first time, ``booted`` is when the
    last time was, in seconds since the epoch: until then it is down; 0: when its Node was made.
    It is Ready no sooner than ``ready_after`` seconds after its Node was created, and ``settling`` seconds
    after it was started again. ``unready_pods`` are the DaemonSets and pods, as NAMESPACE/NAME, whose
    containers are not Ready on it. ``faults`` are those of its endpoints, and ``setup`` is how it is
    configured: a new machine has no faults and the usual setup.
    ``networked`` is when pods get a network on it, in seconds since the epoch; 0: they always do.
    ``updates`` is what comes of updates on it. ``replaces`` names the machine that leaves once this one is
    Ready; empty: none.
    """

    name: str
    os: Family
    index: int
    address: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    generation: int = 0
    running: bool = True
    trouble: Trouble | None = None
    sample: str = ""
    kernel: str = ""
    boots: int = 0
    booted: float = 0.0
    settling: float = 0.0
    memory: Memory = USUAL_MEMORY
    ready_after: float = 0.0
    unready_pods: frozenset[str] = frozenset()
    faults: dict[EndpointName, Fault] = msgspec.field(default_factory=dict)
    setup: Setup = USUAL_SETUP
    networked: float = 0.0
    updates: Updates = "succeed"
    replaces: str = ""

    def __post_init__(self) -> None:
        if self.sample:
            parse_sample(self.sample)  # raises where a file has one that there is not

    @property
    def healthy(self) -> bool:
        """Whether its node is to be Ready."""
        return self.running and self.trouble is None

    def after_installing(self, kernels: Mapping[str, str]) -> tuple[str, bool]:
        """Return its kernel once these have been installed, by machine, and whether it starts again.

        A machine on which nothing is installed keeps its kernel, and starts.
        """
        if self.name not in kernels:
            return self.kernel, True
        if self.updates == "succeed":
            return kernels[self.name], True
        return self.kernel, self.updates == "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """What machines have in common that join together; ``trouble`` is what their kubelets begin with."""

    os: Family = "windows"
    kernel: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    memory: Memory = USUAL_MEMORY
    trouble: Trouble | None = None
    ready_after: float = 0.0
    unready_pods: tuple[str, ...] = ()
