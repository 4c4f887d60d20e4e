"""The memory of one simulated Windows machine, in real or in virtual time.

Nothing happens by itself: ``step`` brings the machine up to a moment, second by second. The seconds are
counted from its own start, so that it makes no difference how often it is called. While no workload wants
anything else than before, seconds are skipped at no cost.
"""

from __future__ import annotations

from math import ceil, floor, inf
from typing import TYPE_CHECKING, Final

from testbed.memory.commit import CommitCharge
from testbed.memory.demand import seed_of
from testbed.memory.owners import Kind, Owner
from testbed.memory.pages import PAGE_BYTES, pages_of
from testbed.memory.paging import PhysicalMemory
from testbed.memory.reading import MemoryReading, PodReading
from testbed.memory.runs import Run
from testbed.memory.trimming import used_page_file
from testbed.memory.truth import GroundTruth, TruthKeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testbed.memory.hardware import Hardware, OsFootprint
    from testbed.memory.reading import PodIdentity
    from testbed.memory.runs import Claim
    from testbed.memory.workloads import OsLeak, Workload

_ROUNDING: Final = 1e-6
"""A moment that was computed by adding up seconds may miss a whole one by so much."""

_NONPAGED_AT_MOST: Final = 0.75
"""Of RAM. Non-paged pool is denied where it would leave the rest of Windows no RAM to work in; where that is,
Windows does not say."""

_OS_USE_SECONDS: Final = 10.0
"""In which Windows uses the active part of its own memory once, like most pods."""


class Machine:
    """A machine that has just started. Times are the caller's, in seconds; they may begin anywhere."""

    def __init__(self, hardware: Hardware, *, started_at: float, seed: int | str = 0) -> None:
        self._started_at = started_at
        self._seed = seed
        self._second = -1
        self._runs: dict[str, Run] = {}
        self._truth = TruthKeeper()
        self._charge = CommitCharge(hardware)
        self._owners = _os_owners(hardware.os)
        self._charge.total = sum(owner.commit for owner in self._owners)
        self._memory = PhysicalMemory(hardware, owners=self._owners)
        self._nonpaged_maximum = int(self._memory.total * _NONPAGED_AT_MOST)

    def start(self, pod: PodIdentity, workload: Workload, *, at: float) -> None:
        """Start the processes of a pod.

        What is random in the workload is drawn by the seed of the machine and the name of the pod.

        Raises:
            ValueError: a pod of that UID has been started, and its memory is not free yet.

        """
        if pod.uid in self._runs:
            raise ValueError(f"pod {pod.namespace}/{pod.name}: UID {pod.uid} has been started before")
        self._add(pod.uid, Run.of(workload, seed=self._seed_of(pod), begins=at - self._started_at, pod=pod))

    def lose_memory(self, leak: OsLeak, *, at: float) -> None:
        """Let Windows itself lose memory, for good and beside any pod.

        Of the leak, only what is outside of pods counts.
        """
        name = f"leak/{sum(run.pod is None for run in self._runs.values())}"
        seed = seed_of(self._seed, name)
        self._add(name, Run.of(leak, seed=seed, begins=at - self._started_at, pod=None))

    def stop(self, uid: str, *, at: float) -> None:
        """Say when the processes of a pod end, which is when its grace is over. Its memory stays until then.

        The last word counts. What the pod has made Windows lose stays lost.

        Raises:
            ValueError: there is no pod of that UID.

        """
        run = self._runs.get(uid)
        if run is None or run.pod is None:
            raise ValueError(f"no pod of the UID {uid} has memory")
        run.ends = at - self._started_at

    def step(self, now: float) -> None:
        """Bring the machine up to a moment.

        Raises:
            ValueError: it is before the start, or before a moment that it has been brought up to.

        """
        last = floor(now - self._started_at + _ROUNDING)
        if last < max(0, self._second):
            reached = self._started_at + max(0, self._second)
            raise ValueError(f"{now} is before {reached}, which this machine has reached")
        while self._second < last:
            self._second += 1
            if self._live_one_second():
                self._skip_until(last)

    def reading(self, now: float) -> MemoryReading:
        """Bring the machine up to a moment and return what its performance counters say."""
        self.step(now)
        memory, charge = self._memory, self._charge
        return MemoryReading(
            time=self._started_at + self._second,
            physical_total_bytes=memory.total * PAGE_BYTES,
            available_bytes=memory.available * PAGE_BYTES,
            private_working_set_bytes=sum(o.resident for o in self._owners if o.is_private) * PAGE_BYTES,
            commit_total_bytes=charge.total * PAGE_BYTES,
            commit_limit_bytes=charge.limit * PAGE_BYTES,
            pool_nonpaged_bytes=self._committed(Kind.NONPAGED_POOL) * PAGE_BYTES,
            pool_paged_bytes=self._committed(Kind.PAGED_POOL) * PAGE_BYTES,
            page_file_limit_bytes=charge.page_file * PAGE_BYTES,
            page_file_free_bytes=(charge.page_file - used_page_file(self._owners)) * PAGE_BYTES,
            modified_page_list_bytes=memory.modified_list(self._owners) * PAGE_BYTES,
            page_reads_total=memory.reads,
            pages_read_total=memory.pages_read,
            pages_written_total=memory.pages_written,
            transition_pages_repurposed_total=memory.repurposed,
            pods=tuple(self._pod_readings()),
        )

    def truth(self, now: float) -> GroundTruth:
        """Bring the machine up to a moment and return what has really happened. Not for operators."""
        self.step(now)
        return self._truth.truth()

    def _pod_readings(self) -> Iterator[PodReading]:
        for run in self._begun():
            if run.pod is not None:
                yield PodReading(
                    namespace=run.pod.namespace,
                    name=run.pod.name,
                    uid=run.pod.uid,
                    commit_bytes=run.own.owner.commit * PAGE_BYTES,
                    private_working_set_bytes=run.own.owner.resident * PAGE_BYTES,
                )

    def _seed_of(self, pod: PodIdentity) -> int:
        return seed_of(self._seed, pod.namespace, pod.name)

    def _add(self, key: str, run: Run) -> None:
        self._runs[key] = run
        self._owners.extend(claim.owner for claim in run.claims)

    def _begun(self) -> list[Run]:
        return [run for run in self._runs.values() if run.begins <= self._second + _ROUNDING]

    def _committed(self, kind: Kind) -> int:
        return sum(owner.commit for owner in self._owners if owner.kind is kind)

    def _live_one_second(self) -> bool:
        """Return whether the next second will be like this one, unless a workload wants something else."""
        self._end_runs()
        running = self._begun()
        for run in running:
            run.look(self._second)
        size = self._charge.page_file
        asking, denied = self._settle_claims([claim for run in running for claim in run.claims])
        for run in running:
            run.aim()
        calm = self._memory.second(
            self._owners,
            page_file=self._charge.page_file,
            file_reads=sum(run.file_reads for run in running),
        )
        self._truth.second(denied=denied, stall=self._memory.stall)
        return calm and not asking and size == self._charge.page_file

    def _end_runs(self) -> None:
        for uid, run in list(self._runs.items()):
            if run.ends <= self._second + _ROUNDING:
                owner = run.own.owner
                self._memory.release(owner, owner.touched)
                self._charge.release(owner.commit)
                self._owners.remove(owner)
                del self._runs[uid]

    def _settle_claims(self, claims: list[Claim]) -> tuple[bool, int]:
        """Give back and hand out commit; return whether any asked for more, and how many were denied."""
        for claim in claims:
            if claim.asked < 0:
                self._charge.release(-claim.asked)
                claim.owner.commit += claim.asked
        asking = [claim for claim in claims if claim.asked > 0]
        granted = self._charge.grant(self._permitted(asking))
        denied = [claim.grant(got) for claim, got in zip(asking, granted, strict=True)]
        return bool(asking), sum(denied)

    def _permitted(self, asking: list[Claim]) -> list[int]:
        """Return what each asks for, cut where non-paged pool would be more than the kernel allows."""
        room = self._nonpaged_maximum - self._committed(Kind.NONPAGED_POOL)
        permitted = []
        for claim in asking:
            asked = claim.asked
            if claim.owner.kind is Kind.NONPAGED_POOL:
                asked = min(asked, max(0, room))
                room -= asked
            permitted.append(asked)
        return permitted

    def _skip_until(self, last: int) -> None:
        """Pass over the seconds before the next one in which a workload may want something else."""
        begun = self._begun()
        events = [run.due for run in begun]
        events += [run.begins for run in self._runs.values() if run not in begun]
        events += [run.ends for run in self._runs.values()]
        following = min([last, *(ceil(time - _ROUNDING) - 1 for time in events if time < inf)])
        if following > self._second:
            reads = sum(run.file_reads for run in begun)
            self._memory.skip(following - self._second, file_reads=reads)
            self._second = following


def _os_owners(os: OsFootprint) -> list[Owner]:
    """Return what Windows and its agents have at the start."""
    parts = (
        (Kind.NONPAGED_POOL, os.nonpaged_pool_bytes, os.nonpaged_pool_bytes),
        (Kind.PAGED_POOL, os.paged_pool_bytes, os.paged_pool_bytes),
        (Kind.PROCESSES, os.process_bytes, int(os.process_bytes * os.process_touched)),
        (Kind.FILES, 0, os.shared_bytes),
    )
    return [
        Owner(
            kind=kind,
            active_share=os.active,
            use_seconds=_OS_USE_SECONDS,
            commit=pages_of(commit),
            target=pages_of(touched),
        )
        for kind, commit, touched in parts
    ]
