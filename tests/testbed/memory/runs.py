"""A workload at work: what it wants now, what it has, and what it was denied for good."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final, Self

from testbed.memory.owners import Kind, Owner
from testbed.memory.pages import PAGE_BYTES, pages_of
from testbed.memory.workloads import LeaksInto, OsLeak, Workload

if TYPE_CHECKING:
    from testbed.memory.reading import PodIdentity

_KINDS: Final = {
    LeaksInto.NONPAGED_POOL: Kind.NONPAGED_POOL,
    LeaksInto.PAGED_POOL: Kind.PAGED_POOL,
    LeaksInto.PROCESSES: Kind.PROCESSES,
}

_OUTSIDE_ACTIVE: Final = 0.0
"""What Windows has lost is not used any more."""


@dataclass(slots=True, eq=False)
class Claim:
    """What one owner is asked to have, in pages."""

    owner: Owner
    wanted: int = 0
    unrepeated: int = 0
    """The part of it that is asked for once only."""
    lost: int = 0
    """What of that was denied."""

    @property
    def asked(self) -> int:
        """Return what it asks for beyond what it has; below 0, what it gives back."""
        return self.wanted - self.lost - self.owner.commit

    def grant(self, got: int) -> bool:
        """Take what was granted; return whether that is less than what it asked for."""
        denied = self.asked - got
        self.owner.commit += got
        self.lost = min(self.lost + denied, self.unrepeated)
        return denied > 0


@dataclass(slots=True, eq=False)
class Run:
    """A workload from its start to its end. Times are seconds since the start of the machine."""

    workload: Workload
    seed: int
    begins: float
    pod: PodIdentity | None
    """None where it is no pod's: a leak of Windows itself."""
    own: Claim
    outside: Claim | None
    ends: float = inf
    due: float = -inf
    """When it wants something else than now."""
    touched: float = 0.0
    file_reads: int = 0
    claims: tuple[Claim, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.claims = (self.own,) if self.outside is None else (self.own, self.outside)

    @classmethod
    def of(cls, workload: Workload, *, seed: int, begins: float, pod: PodIdentity | None) -> Self:
        """Return the workload before it has anything."""
        outside = None
        if isinstance(workload, OsLeak):
            lost = Owner(kind=_KINDS[workload.into], active_share=_OUTSIDE_ACTIVE, use_seconds=1.0)
            outside = Claim(lost)
        own = Claim(Owner(kind=Kind.POD, active_share=0.0, use_seconds=1.0))
        return cls(workload=workload, seed=seed, begins=begins, pod=pod, own=own, outside=outside)

    def look(self, second: int) -> None:
        """Ask the workload what it wants now, if that is not what it wanted before."""
        if second < self.due:
            return
        demand = self.workload.demand(max(0.0, second - self.begins), seed=self.seed)
        self.due = self.begins + demand.until
        if self.outside is not None:
            self.outside.wanted = self.outside.unrepeated = pages_of(demand.outside_bytes)
        if self.pod is None:
            return
        self.own.wanted = pages_of(demand.commit_bytes)
        self.own.unrepeated = demand.unrepeated_bytes // PAGE_BYTES
        self.own.owner.active_share = demand.active
        self.own.owner.use_seconds = demand.use_seconds
        self.touched = demand.touched
        self.file_reads = demand.file_reads

    def aim(self) -> None:
        """Let the owners write to what they have got."""
        self.own.owner.target = int(self.own.owner.commit * self.touched)
        if self.outside is not None:
            self.outside.owner.target = self.outside.owner.commit
