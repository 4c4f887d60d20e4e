"""What is wrong with the endpoints of nodes: set_endpoint_fault."""

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from testbed.winsim.durations import Seconds
from testbed.winsim.endpoint.faults import DEFAULT_SECONDS, ONLY_KUBELET, EndpointName, Fault, FaultKind
from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


class SetEndpointFault(SelectingVerb):
    """Have the kubelet endpoint or the exporter of Windows nodes be broken in one way, or be well again."""

    verb: ClassVar = "set_endpoint_fault"

    fault: FaultKind | Literal["none"] = Field(description="a kind of fault, such as hang; none: it is well")
    endpoint: EndpointName = Field(default="kubelet", description="kubelet or exporter")
    seconds: Seconds | None = Field(
        default=None,
        description="slow: before an answer (5s); trickle: between two bytes (1s); clock_behind: by (1h)",
    )
    name: str = Field(default="", description="other_node: the name that it gives as its own")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.endpoint == "exporter" and self.fault in ONLY_KUBELET:
            raise ValueError(f"an exporter cannot have the fault {self.fault}; it is one of kubelets only")
        if self.seconds is not None and self.fault not in DEFAULT_SECONDS:
            raise ValueError(f"seconds go with {', '.join(DEFAULT_SECONDS)}, not with {self.fault}")
        if self.name and self.fault != "other_node":
            raise ValueError(f"a name goes with other_node, not with {self.fault}")
        return self

    @property
    def wanted(self) -> Fault | None:
        """The fault that there is to be; None: none."""
        if self.fault == "none":
            return None
        seconds = DEFAULT_SECONDS.get(self.fault, 0.0) if self.seconds is None else self.seconds
        return Fault(kind=self.fault, seconds=seconds, name=self.name)

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw nodes, where there are endpoints."""
        endpoint = fleet.endpoint
        if endpoint is None or (self.endpoint == "exporter" and endpoint.exporter_port is None):
            raise ValueError(f"{self.verb}: no node of this fleet serves a {self.endpoint} endpoint")
        return super().choose(fleet)

    def concerns(self, entry: "Entry") -> bool:
        """Only a Windows machine on which it is otherwise would change."""
        return entry.os == "windows" and entry.faults.get(self.endpoint) != self.wanted

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when it is so; connections that were open have been cut."""
        fleet.set_fault(names, self.endpoint, self.wanted)
        return names
