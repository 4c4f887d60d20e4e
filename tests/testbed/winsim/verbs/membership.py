"""Machines come and go: join, leave, replace."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import BeforeValidator, Field, model_validator

from testbed.winsim.objects import Taint
from testbed.winsim.roster import Family
from testbed.winsim.spelling import parse_taint
from testbed.winsim.verbs.base import SelectingVerb, Verb

if TYPE_CHECKING:
    from testbed.winsim.fleet import Fleet
    from testbed.winsim.roster import Entry

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

    count: int | None = Field(default=None, gt=0, description="how many; names go on from the last")
    names: tuple[
        Annotated[str, Field(pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$", max_length=LONGEST_NAME)], ...
    ] = Field(default=(), description="names instead of a number, such as that of a node that has left")
    os: Family = Field(default="windows", description="windows or linux")
    labels: dict[str, str] = Field(default_factory=dict, description="what their kubelets register with")
    taints: tuple[Annotated[str, BeforeValidator(_check_taint)], ...] = Field(
        default=(), description="what their kubelets register with: KEY[=VALUE]:EFFECT"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.count is None) == (not self.names):
            raise ValueError("give either count or names")
        return self

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Return names that are not taken."""
        if taken := sorted(set(self.names) & fleet.roster.entries.keys()):
            raise ValueError(f"join: there is a machine {', '.join(taken)} already")
        return self.names or fleet.roster.new_names(self.os, self.count or 0)

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Plug the machines in."""
        taints: tuple[Taint, ...] = tuple(parse_taint(text) for text in self.taints)
        fleet.join(names, os=self.os, labels=self.labels, taints=taints)
        return names


class Leave(SelectingVerb):
    """Take machines away, and delete their Nodes as a cloud does; their pods are left to Kubernetes."""

    verb: ClassVar = "leave"

    def concerns(self, entry: "Entry") -> bool:  # noqa: ARG002 every machine can leave
        """Any machine can leave."""
        return True

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Switch off, strike off, delete; return when the Nodes are gone."""
        await fleet.leave(names)
        return names


class Replace(SelectingVerb):
    """Put new machines in the place of old ones: the same name, a new Node."""

    verb: ClassVar = "replace"

    def concerns(self, entry: "Entry") -> bool:  # noqa: ARG002 every machine can be replaced
        """Any machine can be replaced."""
        return True

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Switch off, delete the old Nodes, start new kubelets; return when these have begun."""
        await fleet.replace(names)
        return names
