"""Nodes get ranges of pod addresses: assign_pod_cidr."""

from ipaddress import IPv4Network
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


class AssignPodCidr(SelectingVerb):
    """Give nodes one range of pod addresses, as a controller manager gives each its own; it stays."""

    verb: ClassVar = "assign_pod_cidr"

    pod_cidr: IPv4Network = Field(description="the range, of all these nodes (10.244.1.0/24)")
    flannel: bool = Field(default=False, description="true: with the annotations of flannel's agent")

    def concerns(self, entry: "Entry") -> bool:  # noqa: ARG002 the Nodes decide, which the roster does not know
        """Any node may have a range."""
        return True

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw nodes, and refuse those that are not there or have another range: nobody can change that."""
        names = super().choose(fleet)
        for name in names:
            found = fleet.pod_cidr(name)
            if found not in ("", str(self.pod_cidr)):
                raise ValueError(f"{self.verb}: {name} has {found or 'no Node'}")
        return names

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when the Nodes have it."""
        await fleet.assign_pod_cidr(names, str(self.pod_cidr), flannel=self.flannel)
        return names
