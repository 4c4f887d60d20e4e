"""Kubelets fall silent and speak again: stop, start, restart."""

from ipaddress import IPv4Address
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from testbed.winsim.machines import Setup
from testbed.winsim.memory import Memory, Size, Threshold
from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


class Stop(SelectingVerb):
    """Stop kubelets: no Lease, no status, no pods served; later their nodes become Unknown."""

    verb: ClassVar = "stop"

    def concerns(self, entry: "Entry") -> bool:
        """Only a kubelet that runs can be stopped."""
        return entry.running

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when nothing more is sent for these nodes."""
        await fleet.stop(names)
        return names


class Start(SelectingVerb):
    """Start kubelets that were stopped; they find their Nodes, or register where there is none."""

    verb: ClassVar = "start"

    def concerns(self, entry: "Entry") -> bool:
        """Only a kubelet that is stopped can be started."""
        return not entry.running

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when the kubelets have begun."""
        fleet.start(names)
        return names


class Restart(SelectingVerb):
    """Stop kubelets and start them again, as with another configuration; their pods continue to run."""

    verb: ClassVar = "restart"

    reserved_memory: Size | None = Field(
        default=None, description="memory that they reserve from now on (2548Mi); default: as before"
    )

    eviction_hard: Threshold | None = Field(
        default=None, description="threshold of memory (500Mi), or none; default: as before"
    )
    kube_reserved: Size | None = Field(
        default=None, description="the part of it for Kubernetes (512Mi); default: as before"
    )

    cluster_dns: IPv4Address | Literal["none"] | None = Field(
        default=None,
        description="address of the DNS service for pods (10.96.0.10), or none; default: as before",
    )
    pause_image: str | None = Field(
        default=None,
        pattern=r"^(usual|[a-z0-9][a-z0-9._/:-]*/pause:[A-Za-z0-9._-]+)$",
        description="pause image without a variant for their Windows (registry.k8s.io/pause:3.5), so "
        "that pods get no sandbox, or usual; default: as before",
    )
    pause_pulled: bool = Field(
        default=False,
        description="true: the pause image is there and does not start; false: it cannot be pulled",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.pause_pulled and self.pause_image in (None, "usual"):
            raise ValueError("pause_pulled goes with a pause_image")
        return self

    @property
    def setup(self) -> Setup:
        """What is configured."""
        return Setup(
            cluster_dns=None if self.cluster_dns is None else str(self.cluster_dns).replace("none", ""),
            pause_image="" if self.pause_image == "usual" else self.pause_image,
            pause_pulled=self.pause_pulled,
        )

    def concerns(self, entry: "Entry") -> bool:
        """Only a kubelet that runs can be started again; one that is named is started in any case."""
        return entry.running

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when the kubelets have begun again."""
        memory = Memory(
            reserved_ki=self.reserved_memory,
            eviction_ki=self.eviction_hard,
            kube_reserved_ki=self.kube_reserved,
        )
        await fleet.restart(names, memory=memory, setup=self.setup)
        return names
