"""Machines are started again, get updates and other systems: reboot, patch, reimage.

None of it is announced to anyone: to whoever watches the nodes, each is a surprise. Who wants it announced
says so in the cluster before.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from testbed.winsim.durations import Seconds
from testbed.winsim.entries import LEAST_DOWN_SECONDS, USUAL_OUTAGE, Outage
from testbed.winsim.lives import machine
from testbed.winsim.releases import Release, Revision, kernel_of, patched
from testbed.winsim.verbs.base import SelectingVerb

if TYPE_CHECKING:
    from testbed.winsim.entries import Entry
    from testbed.winsim.fleet import Fleet


def _check_down(seconds: float) -> float:
    if seconds < LEAST_DOWN_SECONDS:
        raise ValueError(f"a machine is down for {LEAST_DOWN_SECONDS:g}s at least, not {seconds:g}s")
    return seconds


class _Booting(SelectingVerb):
    """What these have in common: the machine is down, and then for a while not Ready."""

    down: Annotated[Seconds, AfterValidator(_check_down)] = Field(
        default=USUAL_OUTAGE.down, description="how long it is down and silent, at least 1s (2m)"
    )
    ready_after: Seconds = Field(
        default=USUAL_OUTAGE.ready_after,
        description="how long its node is NotReady after that, in any case (30s)",
    )

    @property
    def outage(self) -> Outage:
        """How long it takes."""
        return Outage(down=self.down, ready_after=self.ready_after)


class Reboot(_Booting):
    """Reboot machines: another boot ID, NotReady for a while, pods start again; the same Node."""

    verb: ClassVar = "reboot"

    def concerns(self, entry: "Entry") -> bool:
        """Only a machine whose kubelet runs; of one that is named, the kubelet runs afterwards."""
        return entry.running

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when they are down; they come back by themselves."""
        await fleet.reboot(names, self.outage)
        return names


class _Installing(_Booting):
    """What needs Windows."""

    def concerns(self, entry: "Entry") -> bool:
        """Only a Windows machine whose kubelet runs."""
        return entry.running and entry.os == "windows"

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw Windows machines, and refuse others that are named."""
        names = super().choose(fleet)
        if foreign := [name for name in names if fleet.roster.entries[name].os != "windows"]:
            raise ValueError(f"{self.verb}: {', '.join(foreign)} runs no Windows")
        return names


class Patch(_Installing):
    """Install an update of Windows: another revision after a reboot, of the same build."""

    verb: ClassVar = "patch"

    revision: Revision = Field(description="the revision that machines have afterwards (4171)")

    def choose(self, fleet: "Fleet") -> tuple[str, ...]:
        """Draw Windows machines of which the build is known."""
        names = super().choose(fleet)
        for name in names:
            try:
                self._kernel(fleet, name)
            except ValueError as error:
                raise ValueError(f"{self.verb}: {name}: {error}") from error
        return names

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when they are down; they come back by themselves."""
        await fleet.reboot(names, self.outage, kernels={name: self._kernel(fleet, name) for name in names})
        return names

    def _kernel(self, fleet: "Fleet", name: str) -> str:
        return patched(machine(fleet.roster.entries[name]).os.kernel, self.revision)


class Reimage(_Installing):
    """Install Windows anew, of any release, and so another build; on the same Node or as another one."""

    verb: ClassVar = "reimage"

    release: Release = Field(description="the release that machines run afterwards: 2019, 2022 or 2025")
    revision: Revision = Field(description="its revision (4171)")
    keep_node: bool = Field(
        default=False,
        description="true: the Node stays, and with it its UID and labels; false: it is deleted, and another "
        "one registers under its name",
    )

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when they are down, and the old Nodes are gone; they come back by themselves."""
        kernels = dict.fromkeys(names, kernel_of(self.release, self.revision))
        if self.keep_node:
            await fleet.reboot(names, self.outage, kernels=kernels, anew=True)
        else:
            await fleet.replace(
                names, ready_after=self.outage.ready_after, down=self.outage.down, kernels=kernels
            )
        return names
