"""The memory of all machines of a process, by the model of ``testbed.memory``, in real time.

A look at a machine computes the time since the last look, so nodes that are not asked cost nothing. Times are
those of a clock that is never set (``Clock.monotonic``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from testbed.memory.hardware import FixedPageFile, Hardware, OsFootprint, SystemManagedPageFile
from testbed.memory.machine import Machine as Model
from testbed.memory.pages import GIB
from testbed.memory.parsing import WorkloadError, parse_workload
from testbed.memory.reading import PodIdentity
from testbed.memory.workloads import Steady
from testbed.winsim.memory import parse_size

if TYPE_CHECKING:
    from collections.abc import Callable

    from testbed.memory.hardware import PageFile
    from testbed.memory.reading import MemoryReading
    from testbed.memory.truth import GroundTruth
    from testbed.memory.workloads import OsLeak, Workload
    from testbed.winsim.endpoint.tenants import Tenant, Tenants
    from testbed.winsim.machines import Machine

WORKLOAD_ANNOTATION: Final = "winsim/memory"
"""On a pod: what its processes do with memory (``testbed.memory.parsing``)."""
_UNSAID: Final = parse_workload(
    '{"workload": "steady", "commit": "256Mi"}', where="a pod of which nothing is said"
)
_WINDOWS: Final = "Windows"
"""Stands among UIDs of pods for what is none."""
# On a machine with less, Windows takes a smaller part of it, so that every size can be simulated.
_USUAL_LEAST: Final = 4 * GIB


class ModelledMemory:
    """A model for each machine.

    Args:
        tenants: the pods that run; every change to them is passed to this object.
        page_file: of all machines.
        say: gets a sentence for each annotation that cannot be read.

    """

    def __init__(self, tenants: Tenants, *, page_file: PageFile, say: Callable[[str], None]) -> None:
        self._tenants = tenants
        self._page_file = page_file
        self._say = say
        self._models: dict[str, Model] = {}
        self._changes: dict[str, int] = {}
        self._restless: dict[str, set[str]] = {}

    def boot(self, machine: Machine, *, at: float) -> None:
        """Begin with a machine that has just started, and with the pods that are on it."""
        self._models[machine.name] = Model(
            hardware_of(machine, page_file=self._page_file), started_at=at, seed=machine.system_uuid
        )
        self._changes[machine.name] = 0
        self._restless[machine.name] = set()
        for tenant in self._tenants.on(machine.name).values():
            self.start(machine.name, tenant, at=at)

    def forget(self, node: str) -> None:
        """Drop a machine that is gone."""
        for known in (self._models, self._changes, self._restless):
            known.pop(node, None)

    def changes(self, node: str) -> int | None:
        """Return how often the pods of a machine have changed; None: its memory changes without that, too."""
        return None if self._restless[node] else self._changes[node]

    def start(self, node: str, tenant: Tenant, *, at: float) -> None:
        """Start the processes of a pod; on a machine that has not begun, its ``boot`` does."""
        if (model := self._models.get(node)) is not None:
            pod = PodIdentity(namespace=tenant.namespace, name=tenant.name, uid=tenant.uid)
            workload = self._workload(tenant)
            model.start(pod, workload, at=at)
            self._changes[node] += 1
            if not (isinstance(workload, Steady) and workload.jitter_percent == 0):
                self._restless[node].add(tenant.uid)

    def stop(self, node: str, uid: str, *, at: float) -> None:
        """End the processes of a pod: its memory is free again."""
        if (model := self._models.get(node)) is not None:
            model.stop(uid, at=at)
            self._changes[node] += 1
            self._restless[node].discard(uid)

    def lose_memory(self, node: str, leak: OsLeak, *, at: float) -> None:
        """Have Windows itself lose memory from now on, until the machine is started again or replaced."""
        self._models[node].lose_memory(leak, at=at)
        self._restless[node].add(_WINDOWS)

    def reading(self, node: str, now: float) -> MemoryReading:
        """Return what the counters of a machine say, as they were read in the last second."""
        return self._models[node].reading(now)

    def truth(self, node: str, now: float) -> GroundTruth:
        """Return the harm since the machine started, whatever its counters say."""
        return self._models[node].truth(now)

    def _workload(self, tenant: Tenant) -> Workload:
        text = tenant.annotations.get(WORKLOAD_ANNOTATION)
        if text is None:
            return _UNSAID
        try:
            return parse_workload(text, where=f"pod {tenant.namespace}/{tenant.name}: {WORKLOAD_ANNOTATION}")
        except WorkloadError as error:
            self._say(f"{error}; it commits 256Mi and no more")
            return _UNSAID


def hardware_of(machine: Machine, *, page_file: PageFile) -> Hardware:
    """Return what the model has to know of a machine."""
    ram = machine.hardware.memory_ki * 1024
    usual = OsFootprint()
    part = min(1.0, ram / _USUAL_LEAST)
    smaller = OsFootprint(
        nonpaged_pool_bytes=int(usual.nonpaged_pool_bytes * part),
        paged_pool_bytes=int(usual.paged_pool_bytes * part),
        process_bytes=int(usual.process_bytes * part),
        shared_bytes=int(usual.shared_bytes * part),
        modified_bytes=int(usual.modified_bytes * part),
    )
    return Hardware(ram_bytes=ram, page_file=page_file, os=smaller)


def parse_page_file(text: str) -> PageFile:
    """Read ``managed``, or the size of a fixed page file such as ``8096Mi``.

    Raises:
        ValueError: it is neither.

    """
    return SystemManagedPageFile() if text == "managed" else FixedPageFile(size_bytes=parse_size(text) * 1024)
