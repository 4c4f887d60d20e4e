"""Machines come and go: join, leave, replace, surge."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from testbed.winsim.conditions import NOT_READY_REASON, STARTING
from testbed.winsim.durations import Seconds
from testbed.winsim.entries import AT_ONCE, NOTHING_INSTALLED, Arrival, Family, Trouble
from testbed.winsim.memory import Memory, Size
from testbed.winsim.releases import Release, Revision, kernel_of
from testbed.winsim.spelling import parse_taint
from testbed.winsim.verbs.base import PodNames, SelectingVerb, Verb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet

LONGEST_NAME = 63
"""A node's name becomes its label kubernetes.io/hostname, and label values end at 63."""


def _check_taint(given: Any) -> Any:
    if not isinstance(given, str):
        raise ValueError(f"{given!r} is not a text of the form KEY[=VALUE]:EFFECT")  # noqa: TRY004 pydantic's way
    parse_taint(given)
    return given


class Join(Verb):
    """Add machines; their kubelets register at once."""

    verb: ClassVar = "join"

    count: int | None = Field(
        default=None, gt=0, description="number of machines; names continue after the last one"
    )
    names: tuple[
        Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=LONGEST_NAME)], ...
    ] = Field(default=(), description="names instead of a number, such as the name of a node that has left")
    os: Family = Field(default="windows", description="windows or linux")
    labels: dict[str, str] = Field(
        default_factory=dict, description="labels that their kubelets register with"
    )
    taints: tuple[Annotated[str, BeforeValidator(_check_taint)], ...] = Field(
        default=(), description="taints that their kubelets register with: KEY[=VALUE]:EFFECT"
    )
    release: Release | None = Field(
        default=None,
        description="their Windows: 2019, 2022 or 2025; default: as the others in turn",
    )
    revision: Revision | None = Field(default=None, description="its revision (4171), together with release")
    memory: Size | None = Field(
        default=None, description="their memory (32Gi); default: as others of their kind"
    )
    reserved_memory: Size | None = Field(
        default=None, description="memory that their kubelets reserve (2548Mi)"
    )
    ready: bool = Field(default=True, description="false: they stay NotReady until set_ready says otherwise")
    ready_after: Seconds = Field(
        default=0.0, description="a length of time after registration, before which no node is Ready (30s)"
    )
    unready_pods: PodNames = Field(
        default=(), description="NAMESPACE/NAME of DaemonSets whose containers are not Ready there"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.count is None) == (not self.names):
            raise ValueError("give either count or names")
        if (self.release is None) != (self.revision is None):
            raise ValueError("give release and revision together")
        if self.release is not None and self.os != "windows":
            raise ValueError("a release is for windows machines only")
        return self

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Return names that are not taken."""
        if taken := sorted(set(self.names) & fleet.roster.entries.keys()):
            raise ValueError(f"join: there is a machine {', '.join(taken)} already")
        return self.names or fleet.roster.new_names(self.os, self.count or 0)

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Plug the machines in."""
        arrival = Arrival(
            os=self.os,
            kernel=kernel_of(self.release, self.revision) if self.release and self.revision else "",
            labels=self.labels,
            taints=tuple(parse_taint(text) for text in self.taints),
            memory=Memory(size_ki=self.memory, reserved_ki=self.reserved_memory),
            trouble=None if self.ready else Trouble(NOT_READY_REASON, STARTING.not_ready),
            ready_after=self.ready_after,
            unready_pods=self.unready_pods,
        )
        fleet.join(names, arrival)
        return names


class Leave(SelectingVerb):
    """Remove machines, and delete their Nodes as a cloud does; Kubernetes handles their pods."""

    verb: ClassVar = "leave"

    def concerns(self, entry: "Entry") -> bool:  # noqa: ARG002 every machine can leave
        """Any machine can leave."""
        return True

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Switch off, strike off, delete; return when the Nodes are gone."""
        await fleet.leave(names)
        return names


class Replace(SelectingVerb):
    """Replace machines by new ones: the same name, a new Node."""

    verb: ClassVar = "replace"

    memory: Size | None = Field(
        default=None, description="memory of the new machines (32Gi); default: as the old ones"
    )
    reserved_memory: Size | None = Field(
        default=None, description="memory that their kubelets reserve (2548Mi); default: as before"
    )
    ready_after: Seconds = Field(
        default=0.0, description="a length of time after registration, before which no node is Ready (30s)"
    )

    def concerns(self, entry: "Entry") -> bool:  # noqa: ARG002 every machine can be replaced
        """Any machine can be replaced."""
        return True

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Switch off, delete the old Nodes, start new kubelets; return when these have begun."""
        memory = Memory(size_ki=self.memory, reserved_ki=self.reserved_memory)
        outage = replace(AT_ONCE, ready_after=self.ready_after)
        await fleet.replace(names, memory=memory, outage=outage)
        return names


class Surge(SelectingVerb):
    """Bring a new machine for each old one, under another name; once it is Ready, the old one leaves."""

    verb: ClassVar = "surge"

    release: Release | None = Field(
        default=None,
        description="the Windows of the new machines: 2019, 2022 or 2025; default: as before",
    )
    revision: Revision | None = Field(default=None, description="its revision (4171), together with release")
    ready_after: Seconds = Field(
        default=0.0, description="a length of time after registration, before which no node is Ready (30s)"
    )

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.release is None) != (self.revision is None):
            raise ValueError("give release and revision together")
        return self

    def concerns(self, entry: "Entry") -> bool:
        """Any machine can be replaced: of one that runs Linux, no Windows can take the place."""
        return self.release is None or entry.os == "windows"

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw machines, and refuse those that could not run what is to be installed."""
        names = super().choose(fleet)
        entries = fleet.roster.entries
        if foreign := [name for name in names if not self.concerns(entries[name])]:
            raise ValueError(f"{self.verb}: {', '.join(foreign)} runs no Windows")
        return names

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when the new kubelets have begun; the old machines leave by themselves."""
        installed = kernel_of(self.release, self.revision) if self.release and self.revision else ""
        kernels = dict.fromkeys(names, installed) if installed else NOTHING_INSTALLED
        fleet.surge(names, ready_after=self.ready_after, kernels=kernels)
        return names
