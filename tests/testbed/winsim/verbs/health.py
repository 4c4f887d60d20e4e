"""What kubelets report about themselves: set_ready."""

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from testbed.winsim.conditions import NOT_READY_REASON
from testbed.winsim.entries import Trouble
from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet

_MESSAGE = "PLEG is not healthy: pleg was last seen active 3m12s ago; threshold is 3m0s"


class SetReady(SelectingVerb):
    """Have kubelets report Ready=False with a reason, or Ready=True again; they still renew Leases."""

    verb: ClassVar = "set_ready"

    ready: bool = Field(description="true or false")
    reason: str = Field(
        default=NOT_READY_REASON,
        pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        max_length=1024,
        description="reason of the condition if it is false (real kubelets use only the default)",
    )
    message: str = Field(
        default=_MESSAGE, min_length=1, description="message of the condition if it is false"
    )

    def concerns(self, entry: "Entry") -> bool:
        """Only a machine in the other state would change."""
        return (entry.trouble is None) is not self.ready

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when it has been told to the kubelets; they report it at once, or when they start."""
        fleet.set_trouble(names, None if self.ready else Trouble(self.reason, self.message))
        return names
