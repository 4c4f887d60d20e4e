"""The room of memory pressure: what is signalled on nodes that run out of memory, and what people read of it.

It judges no samples: the detector steps when a sample arrives. A pass reads what the detector has found
(``snapshot.memory``), and wants the same as long as nothing has changed there.

- Observe: nothing is written to nodes.
- Signal, Evict: nodes under pressure get a taint and a condition (``marks``).
- Evict: pods are evicted, after their intent is on the node (``room_evictions``).
- Without the block, and where the spec cannot be acted on: taint and condition are removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.memory_pressure import MemoryMode, OnUnattributed
from winpool.api.node_keys import PRESSURE_TAINT
from winpool.memory.asking import with_request
from winpool.memory.findings import memory_findings
from winpool.memory.known import Known
from winpool.memory.marks import condition_on, marks_of, taken_back
from winpool.memory.overview import Overview, Tally
from winpool.memory.room_evictions import NO_EVICTIONS_WANTED, evictions_wanted
from winpool.rooms import Mandate, RoomResult

if TYPE_CHECKING:
    from winpool.api.memory_pressure import MemoryPressure
    from winpool.api.status import WindowsNodePoolStatus
    from winpool.ownership.goals import Goals
    from winpool.ownership.members import Members
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class MemoryResult(RoomResult):
    """What the room wants and finds; ``overview`` is None where memory is not watched."""

    overview: Overview | None = None


NOT_WATCHED: Final = MemoryResult()


def memory(snapshot: Snapshot, members: Members, mandate: Mandate) -> MemoryResult:
    """Return what is signalled on the nodes of the pool, and what is known of their memory."""
    if mandate is Mandate.RELEASE:
        return NOT_WATCHED
    nodes = [member.node for member in members.ours]
    is_finishing = mandate is Mandate.FINISH
    spec = snapshot.pool.spec
    block = spec.memory_pressure if spec else None
    if block is not None:
        return _watched(snapshot, members, block, mandate)
    wanted = evictions_wanted(snapshot, nodes, block=None, mandate=mandate)
    if not is_finishing and wanted is NO_EVICTIONS_WANTED:
        return NOT_WATCHED
    return MemoryResult(
        goals=wanted.joined(taken_back(members.ours) if is_finishing else {}),
        victim_looks=wanted.looks,
        requeue_at=wanted.requeue_at,
        finishes=is_finishing,
    )


def _watched(snapshot: Snapshot, members: Members, block: MemoryPressure, mandate: Mandate) -> MemoryResult:
    is_finishing = mandate is Mandate.FINISH
    signals = block.mode is not MemoryMode.OBSERVE
    requests = signals and block.on_unattributed is OnUnattributed.REQUEST_UPGRADE
    status = snapshot.pool.status
    tally, goals = _counted(
        snapshot, members, was_pressured=status.pressured_nodes > 0, signals=signals, requests=requests
    )
    if tally.was_pressured and not _may_be_pressured(tally, status):
        # What the status counted has ended, and nothing that it says stays for any other node. The next pass
        # would find that in the status of this one, and the status would be written twice.
        tally, goals = _counted(snapshot, members, was_pressured=False, signals=signals, requests=requests)
    overview = tally.overview(block.eviction.max_pressured_nodes)
    nodes = [member.node for member in members.ours]
    wanted = evictions_wanted(snapshot, nodes, block=block, mandate=mandate)
    return MemoryResult(
        goals=wanted.joined(taken_back(members.ours) if is_finishing else goals),
        evictions=wanted.evictions,
        findings=(*memory_findings(overview, tally, mode=block.mode), *wanted.findings),
        sampled=tuple(nodes),
        victim_looks=wanted.looks,
        requeue_at=wanted.requeue_at,
        finishes=is_finishing,
        overview=overview,
    )


def _counted(
    snapshot: Snapshot, members: Members, *, was_pressured: bool, signals: bool, requests: bool
) -> tuple[Tally, dict[str, Goals]]:
    """Return what is known of all nodes of the pool, and what is wanted on those that are to be signalled."""
    pool_uid, written = snapshot.pool.uid, snapshot.written_conditions
    told, problems = snapshot.memory.told, snapshot.memory.problems
    tally = Tally(was_pressured=was_pressured)
    goals: dict[str, Goals] = {}
    for member in members.ours:
        node = member.node
        view, problem = told.get(node.uid), problems.get(node.uid, "")
        standing = (
            condition_on(member, pool_uid=pool_uid, rights=members.rights, written=written.get(node.uid, ()))
            if node.conditions
            else None
        )
        is_tainted = PRESSURE_TAINT in member.taints
        known = tally.add(
            node.name,
            view,
            problem,
            is_marked=is_tainted or standing is not None,
            is_signalled=is_tainted or (standing is not None and standing.status == "True"),
        )
        if signals and (known is not Known.CALM or standing is not None):
            marks = marks_of(known, view, standing)
            goals[node.uid] = with_request(marks, member, known, view) if requests else marks
    return tally, goals


def _may_be_pressured(tally: Tally, status: WindowsNodePoolStatus) -> bool:
    """Return whether a node is under pressure, or the status says so of one that is not judged yet.

    Where neither is so, the new status counts no node under pressure (``report.memory``).
    """
    if tally.names[Known.PRESSURED]:
        return True
    undecided = frozenset(tally.names[Known.UNDECIDED])
    return any(
        not undecided.isdisjoint(each.nodes)
        for each in status.issues
        if each.reason == IssueReason.MEMORY_PRESSURE
    )
