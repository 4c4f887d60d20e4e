"""The room of memory pressure: what is signalled on nodes that run out of memory, and what people read of it.

It judges no samples: the detector steps when a sample arrives. A pass reads what the detector has found
(``snapshot.memory``), and wants the same as long as nothing has changed there.

- Observe: nothing is written to nodes.
- Signal, Evict: nodes under pressure get a taint and a condition (``marks``).
- Without the block, and where the spec cannot be acted on: taint and condition are removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.memory_pressure import MemoryMode
from winpool.api.node_keys import PRESSURE_TAINT
from winpool.memory.findings import memory_findings
from winpool.memory.known import Known
from winpool.memory.marks import condition_on, marks_of, taken_back
from winpool.memory.overview import Overview, Tally
from winpool.rooms import Mandate, RoomResult

if TYPE_CHECKING:
    from winpool.api.memory_pressure import MemoryPressure
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
    is_finishing = mandate is Mandate.FINISH
    spec = snapshot.pool.spec
    block = spec.memory_pressure if spec else None
    if block is not None:
        return _watched(snapshot, members, block, is_finishing=is_finishing)
    return MemoryResult(goals=taken_back(members.ours), finishes=True) if is_finishing else NOT_WATCHED


def _watched(
    snapshot: Snapshot, members: Members, block: MemoryPressure, *, is_finishing: bool
) -> MemoryResult:
    pool_uid, written = snapshot.pool.uid, snapshot.written_conditions
    told, problems = snapshot.memory.told, snapshot.memory.problems
    signals = block.mode is not MemoryMode.OBSERVE
    tally = Tally()
    goals: dict[str, Goals] = {}
    for member in members.ours:
        node = member.node
        view, problem = told.get(node.uid), problems.get(node.uid, "")
        known = tally.add(node.name, view, problem)
        standing = (
            condition_on(member, pool_uid=pool_uid, rights=members.rights, written=written.get(node.uid, ()))
            if node.conditions
            else None
        )
        if standing is not None or PRESSURE_TAINT in member.taints:
            tally.marked.append(node.name)
        if signals and (known is not Known.CALM or standing is not None):
            goals[node.uid] = marks_of(known, view, standing)
    overview = tally.overview(block.eviction.max_pressured_nodes)
    return MemoryResult(
        goals=taken_back(members.ours) if is_finishing else goals,
        findings=tuple(memory_findings(overview, tally, mode=block.mode)),
        sampled=tuple([member.node for member in members.ours]),
        finishes=is_finishing,
        overview=overview,
    )
