"""What all verbs have in common: their arguments are a model, and the model can act on a fleet.

One model serves the control socket, the command line and scenario files, so that the same mistake gets the
same sentence everywhere. A verb is a class in the file of its concern and a line in ``VERBS``.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from testbed.winsim.entries import Family
from testbed.winsim.selection import Nodes, choose

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet

_POD_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-.a-z0-9]*[a-z0-9])?$"
PodNames = tuple[Annotated[str, Field(pattern=_POD_NAME)], ...]
"""A field of a model that holds names of pods or of their controllers, as NAMESPACE/NAME."""


class Verb(BaseModel):
    """Something that can be done to a fleet. The first line of its docstring is its help."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verb: ClassVar[str]

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Do it, and return the names of the nodes that it was done to.

        Args:
            fleet: the simulated nodes.
            names: what ``choose`` returned.

        """
        raise NotImplementedError

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Return the nodes that it is for; nothing is done to them yet.

        Raises:
            ValueError: there are no such nodes, or not so many.

        """
        raise NotImplementedError


class SelectingVerb(Verb):
    """A verb for nodes that are there."""

    nodes: Nodes = Field(description="a number, a part (10%), a name, a list of names, or all")
    os: Family | None = Field(default=None, description="select only windows or only linux nodes")
    seed: int | str = Field(
        default=0, description="seed of the random choice; the same seed makes the same choice"
    )

    def concerns(self, entry: "Entry") -> bool:
        """Tell whether the verb would change anything about a machine; the others are not drawn."""
        raise NotImplementedError

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw from the machines that the verb concerns; names given are taken as they are."""
        entries = fleet.roster.entries
        if self.nodes.names is not None and (strange := set(self.nodes.names) - entries.keys()):
            raise ValueError(f"there is no node {', '.join(sorted(strange))} in this fleet")
        candidates = [
            entry.name
            for entry in entries.values()
            if self.concerns(entry) and (self.os is None or entry.os == self.os)
        ]
        try:
            return choose(candidates, selection=self.nodes, seed=self.seed)
        except ValueError as error:
            raise ValueError(f"{self.verb}: {error}") from error
