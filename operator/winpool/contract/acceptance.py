"""Whether the operator can act on a spec, by rules that CEL cannot check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.judging.judge import contradictory_rows
from winpool.judging.reserved_judge import ReservedMemoryJudge
from winpool.judging.reserved_memory import (
    is_too_large_everywhere,
    too_large_everywhere_message,
)
from winpool.ownership.record import MAX_BYTES, fits

if TYPE_CHECKING:
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.ownership.members import Members
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a spec cannot be acted on, with the fix; the message is empty where it can."""

    message: str = ""
    reason: Reason = Reason.SPEC_REJECTED

    def __bool__(self) -> bool:
        """Whether the spec is refused."""
        return bool(self.message)


ACCEPTABLE: Final = Refusal()


def refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix."""
    spec = snapshot.pool.spec
    if spec is None:
        return Refusal(snapshot.pool.refusal)
    taints = {each.identity: each.value for each in (*spec.taints, *spec.startup_taints)}
    if not fits(labels=spec.labels, taints=taints):
        return Refusal(
            "spec.labels, spec.taints and spec.startupTaints: the ownership record could exceed "
            f"{MAX_BYTES} bytes on a node. Use fewer or shorter keys."
        )
    if wrong := contradictory_rows(
        spec, matrix=snapshot.support.matrix, cluster_rows=snapshot.support.cluster_rows
    ):
        return Refusal(" ".join(f"{each}." for each in wrong))
    if unknown := _unknown_data_sources(spec, snapshot.memory.data_sources):
        return Refusal(unknown)
    return ACCEPTABLE if snapshot.pool.deleting else _too_large(spec, members)


def _unknown_data_sources(spec: WindowsNodePoolSpec, known: frozenset[str] | None) -> str:
    """Say which data sources the operator's settings lack; nothing where the settings are unknown."""
    if spec.memory_pressure is None or known is None:
        return ""
    named = [each.prometheus.data_source for each in spec.memory_pressure.sources if each.prometheus]
    missing = [name for name in named if name not in known]
    if not missing:
        return ""
    fix = f"They have {', '.join(sorted(known))}. Use one of those, or add it to" if known else "Add it to"
    return (
        f"spec.memoryPressure.sources: the operator's settings have no data source {', '.join(missing)}. "
        f"{fix} the file of --data-sources-file."
    )


def _too_large(spec: WindowsNodePoolSpec, members: Members) -> Refusal:
    """Refuse a spec that declares more than half of every node of the pool: this is always a mistake."""
    if spec.reserved_memory is None:
        return ACCEPTABLE
    judge = ReservedMemoryJudge(spec.reserved_memory)
    judged = [found for each in members.ours if (found := judge.judge(each.node)) is not None]
    if not is_too_large_everywhere(judged):
        return ACCEPTABLE
    said = too_large_everywhere_message(judged, spec.reserved_memory)
    return Refusal(f"{said} Declare less, or use larger machines.", Reason.RESERVED_MEMORY_TOO_LARGE)
