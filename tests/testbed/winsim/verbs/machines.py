"""Machines are started again, get updates and other systems: reboot, patch, hotpatch, reimage, set_updates.

None of it is announced to anyone: to whoever watches the nodes, each is a surprise. Who wants it announced
says so in the cluster before.
"""

from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import AfterValidator, Field

from testbed.winsim.durations import Seconds
from testbed.winsim.entries import LEAST_DOWN_SECONDS, USUAL_OUTAGE, Outage, Updates
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
    network_after: Seconds = Field(
        default=USUAL_OUTAGE.network_after,
        description="how long its node is Ready before pods get a network there (3m)",
    )

    @property
    def outage(self) -> Outage:
        """How long it takes."""
        return Outage(down=self.down, ready_after=self.ready_after, network_after=self.network_after)


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


class _Windows(SelectingVerb):
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


class _Updating(_Windows):
    """What brings another revision of the same build."""

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

    def kernels(self, fleet: "Fleet", names: tuple[str, ...]) -> dict[str, str]:
        """Return the kernel that each machine has afterwards."""
        return {name: self._kernel(fleet, name) for name in names}

    def _kernel(self, fleet: "Fleet", name: str) -> str:
        return patched(machine(fleet.roster.entries[name]).os.kernel, self.revision)


class Patch(_Booting, _Updating):
    """Install an update of Windows: another revision after a reboot, of the same build."""

    verb: ClassVar = "patch"

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when they are down; they come back by themselves."""
        await fleet.reboot(names, self.outage, kernels=self.kernels(fleet, names))
        return names


class Hotpatch(_Updating):
    """Install an update without a reboot: kubelets report the revision after they have been started again."""

    verb: ClassVar = "hotpatch"

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return when it is installed; their nodes are as before until restart, reboot or patch."""
        fleet.hotpatch(self.kernels(fleet, names))
        return names


class Reimage(_Booting, _Windows):
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
            await fleet.replace(names, outage=self.outage, kernels=kernels)
        return names


class SetUpdates(SelectingVerb):
    """Have updates and new systems fail on machines from now on, or succeed again."""

    verb: ClassVar = "set_updates"

    result: Updates = Field(
        description="what comes of them: succeed; fail: the old system is back after the start; or "
        "never_return: the machine is down until `start` or `reboot`"
    )

    def concerns(self, entry: "Entry") -> bool:
        """Only a Windows machine of which it would be another."""
        return entry.os == "windows" and entry.updates != self.result

    async def act(self, fleet: "Fleet", names: tuple[str, ...]) -> tuple[str, ...]:
        """Return at once; it counts for the next update."""
        fleet.set_updates(names, self.result)
        return names
