"""What machines do with memory outside of pods: lose_memory."""

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from testbed.memory.sizes import parse_size
from testbed.memory.workloads import LeaksInto, OsLeak
from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


def _check_size(given: str) -> str:
    parse_size(given)
    return given


class LoseMemory(SelectingVerb):
    """Have Windows itself lose memory from now on, outside of all pods, until machines start again."""

    verb: ClassVar = "lose_memory"

    growth_per_minute: Annotated[str, AfterValidator(_check_size)] = Field(
        description="how much it loses (200Mi)"
    )
    into: LeaksInto = Field(
        default=LeaksInto.NONPAGED_POOL, description="where: NonPagedPool, PagedPool or Processes"
    )

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw machines whose memory is simulated: those that serve endpoints."""
        endpoint = fleet.endpoint
        if endpoint is None:
            raise ValueError(f"{self.verb}: the memory of these machines is not simulated")
        names = super().choose(fleet)
        if strange := [name for name in names if not endpoint.knows(name)]:
            raise ValueError(f"{self.verb}: no Windows kubelet has started on {', '.join(strange)} yet")
        return names

    def concerns(self, entry: "Entry") -> bool:
        """Any Windows machine that runs."""
        return entry.os == "windows" and entry.running

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when it has begun."""
        leak = OsLeak.model_validate({"growth_per_minute": self.growth_per_minute, "into": self.into})
        if fleet.endpoint is not None:
            for name in names:
                fleet.endpoint.lose_memory(name, leak)
        return names
