"""What the status says of memory pressure: the condition MemoryHealthy, a count, and what stays for a while.

After a start of the operator it takes minutes until all nodes are judged again. Not to know them yet is no
reason to take back what was true a moment ago: what the status says of such nodes stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType, Reason
from winpool.api.events import NODES_WITH_OWN_EVENTS, EventReason, Regarding
from winpool.api.issues import IssueReason
from winpool.memory.room import MemoryResult
from winpool.report.announce import Announcement
from winpool.report.progress import none_of_ours
from winpool.report.tally import count_nodes, counted_nodes
from winpool.report.view import IDLE_MODES, Told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.api.v1alpha1 import Issue, WindowsNodePoolStatus
    from winpool.memory.overview import Overview
    from winpool.objects.pool import Pool
    from winpool.objects.pressure import Capabilities, Capability
    from winpool.report.assessment import Assessment
    from winpool.report.view import View
    from winpool.rooms import Finding, RoomResult

MEMORY_ISSUES: Final = (
    IssueReason.SYSTEMIC_PRESSURE,
    IssueReason.UNATTRIBUTED_MEMORY,
    IssueReason.MEMORY_PRESSURE,
    IssueReason.MEMORY_WARNING,
    IssueReason.MEMORY_UNKNOWN,
    IssueReason.MEMORY_SOURCE_FAILING,
)


@dataclass(frozen=True, slots=True)
class PoolMemory:
    """What is known of the memory of a pool, and the issues of its status that stay until more is known."""

    overview: Overview
    carried: tuple[Issue, ...]

    @property
    def pressured(self) -> int:
        """How many nodes are under pressure, as far as that is known, or was before the last start."""
        said = sum(each.node_count for each in self.carried if each.reason == IssueReason.MEMORY_PRESSURE)
        return len(self.overview.pressured) + min(said, len(self.overview.undecided))


def overview_of(results: Iterable[RoomResult]) -> Overview | None:
    """Return what the room of memory has found; None where memory is not watched."""
    return next((each.overview for each in results if isinstance(each, MemoryResult)), None)


def pool_memory(pool: Pool, results: Sequence[RoomResult]) -> PoolMemory | None:
    """Return what is to be reported; None where memory is not watched."""
    overview = overview_of(results)
    if overview is None:
        return None
    found = [finding for result in results for finding in result.findings]
    return PoolMemory(overview, tuple(_carried(pool.status, overview, found)))


def _carried(status: WindowsNodePoolStatus, overview: Overview, found: Sequence[Finding]) -> Iterator[Issue]:
    """Yield the issues of the status with those of their nodes that are not judged yet."""
    for issue in status.issues if overview.undecided else ():
        if issue.reason not in MEMORY_ISSUES:
            continue
        anew = {name for each in found if each.reason == issue.reason for name in each.nodes}
        names = [name for name in issue.nodes if name in overview.undecided and name not in anew]
        if names:
            count = issue.node_count - (len(issue.nodes) - len(names))
            yield issue.model_copy(update={"nodes": tuple(names), "node_count": max(count, len(names))})


def memory_capabilities(pool: Pool, known: Capabilities | None) -> str:
    """Return what the nodes of ``pool`` can tell; what the status says already, until that is ``known``."""
    if known is None:
        return pool.status.memory_capabilities or ""
    return (
        f"Of {count_nodes(known.nodes)}, these report the commit limit: {_number(known.commit_limit)}, the "
        f"commit of pods: {_number(known.pod_commit)}, paging: {_number(known.paging)}. Kubelets that evict "
        f"pods themselves: {_number(known.kubelet_eviction)}."
    )


def _number(of: Capability) -> str:
    return f"{of.have} (unknown: {of.unknown})" if of.unknown else str(of.have)


def memory_healthy(view: View) -> Told | None:
    """Return what MemoryHealthy says; None where the spec does not ask for it."""
    spec, standing = view.pool.spec, view.pool.status.condition(ConditionType.MEMORY_HEALTHY)
    if spec is None:
        said = "The operator cannot read the spec, so it watches no memory."
        return Told("Unknown", Reason.SPEC_REJECTED, said) if standing else None
    if spec.memory_pressure is None:
        return None
    if view.memory is None:
        return Told(
            "Unknown",
            Reason.RELEASING_NODES,
            "The operator watches no memory for a pool that is being deleted.",
        )
    if not view.memory.overview.nodes:
        return none_of_ours(view.tally)
    was_healthy = standing is not None and standing.status == "True"
    told = _told(view.memory, was_healthy=was_healthy)
    marked = view.memory.overview.marked
    if view.mode not in IDLE_MODES or not marked:
        return told
    stays = f"spec.mode is {view.mode}: taint and condition stay as they are on {counted_nodes(marked)}."
    return Told(told.status, told.reason, f"{told.message} {stays}")


def _told(memory: PoolMemory, *, was_healthy: bool) -> Told:
    overview, pressured = memory.overview, memory.pressured
    silent, undecided = len(overview.silent), len(overview.undecided)
    if overview.is_systemic:
        missing = f", and {silent} {'gives' if silent == 1 else 'give'} no samples" if silent else ""
        return Told(
            "False",
            Reason.SYSTEMIC_PRESSURE,
            f"{_of_all(pressured, overview)} under memory pressure{missing}. This is more than "
            f"maxPressuredNodes ({overview.allowed}) allows. See the issue {IssueReason.SYSTEMIC_PRESSURE}.",
        )
    if pressured:
        return Told(
            "False",
            Reason.NODES_UNDER_PRESSURE,
            f"{_of_all(pressured, overview)} under memory pressure. See the issue "
            f"{IssueReason.MEMORY_PRESSURE}.",
        )
    if silent:
        return Told(
            "Unknown",
            Reason.SAMPLES_MISSING,
            f"The memory of {count_nodes(silent)} is not known. See the issue {IssueReason.MEMORY_UNKNOWN}.",
        )
    # Nodes join all the time, and a start is no news of a pool that was healthy.
    if undecided > overview.calm and not was_healthy:
        return Told("Unknown", Reason.SAMPLES_MISSING, "The operator waits for samples of most nodes.")
    return Told("True", Reason.NO_PRESSURE, "No node is under memory pressure.")


def _of_all(number: int, overview: Overview) -> str:
    return f"{number} of {count_nodes(overview.nodes)} {'is' if number == 1 else 'are'}"


def cleared(
    pool: Pool,
    before: WindowsNodePoolStatus,
    after: WindowsNodePoolStatus,
    overview: Overview | None,
    nodes: Iterable[Assessment],
) -> Iterator[Announcement]:
    """Yield the events of nodes that are under pressure no more, or one of the pool where these were many.

    A node of which nothing is known has not been cleared, nor has one that has left the pool.
    """
    was = [each for each in before.issues if each.reason == IssueReason.MEMORY_PRESSURE]
    if overview is None or not was:
        return
    named = {name for each in was for name in each.nodes}
    number = sum(each.node_count for each in was)
    if number > NODES_WITH_OWN_EVENTS:
        if not (overview.pressured or overview.silent or overview.undecided):
            note = f"{count_nodes(number)} were under memory pressure, and no node is any more."
            yield Announcement(EventReason.MEMORY_PRESSURE_CLEARED, note, pool.name, pool.uid)
        return
    still = {
        name for each in after.issues if each.reason == IssueReason.MEMORY_PRESSURE for name in each.nodes
    }
    calm = named - still - {*overview.pressured, *overview.silent} - overview.undecided
    note = f"Pool {pool.name}: The node is no longer under memory pressure."
    for each in nodes if calm else ():
        if each.node.name in calm:
            yield Announcement(
                EventReason.MEMORY_PRESSURE_CLEARED, note, each.node.name, each.node.uid, Regarding.NODE
            )
