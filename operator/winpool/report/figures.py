"""Figures about a pool that are served as metrics and stand in no status."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.ownership.goals import NONE
from winpool.ownership.membership import Claim
from winpool.report.reserved_memory import MISMATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.memory.overview import Overview
    from winpool.objects.pressure import Axis, Level
    from winpool.report.assessment import Assessment
    from winpool.report.upgrade_figures import UpgradeFigures


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How many nodes of one pool have trouble of a kind, as its last pass has seen them.

    ``reserved_memory_mismatched`` counts nodes whose kubelet is known to hold back another amount of memory
    than the pool declares. ``taint_missing`` counts nodes of the pool on which a taint of ``spec.taints``
    is missing or has another value, also where it is held back on purpose, and in every mode: whoever alerts
    on it looks at the mode too. ``overlapping`` counts nodes that the pool selects and another pool
    selects too, or has. ``upgrade_due`` counts nodes that are known to run another release, or an older
    revision, than ``spec.os`` asks for. ``memory_levels`` counts nodes by the level of each axis, None where
    it is not known, and ``is_memory_systemic`` says whether more nodes are under pressure than the pool
    allows; empty and None where memory is not watched. ``upgrades`` is None where the spec asks for none.

    A pool that is being deleted wants nothing of its nodes: all of them are 0.
    """

    reserved_memory_mismatched: int = 0
    taint_missing: int = 0
    overlapping: int = 0
    upgrade_due: int = 0
    memory_levels: Mapping[tuple[Axis, Level | None], int] = field(default_factory=lambda: NONE)
    is_memory_systemic: bool | None = None
    upgrades: UpgradeFigures | None = None


def figures_of(
    assessed: Iterable[Assessment], memory: Overview | None, upgrades: UpgradeFigures | None = None
) -> Figures:
    """Count the nodes of a pool that is not being deleted.

    ``memory`` is None where it is not watched, ``upgrades`` where the spec asks for none.
    """
    mismatched = missing = overlapping = due = 0
    for each in assessed:
        # One walk over thousands, most of which have none of it.
        if each.reserved is not None and each.reserved.verdict in MISMATCHES:
            mismatched += 1
        if each.lacks_taints:
            missing += 1
        if each.rival and each.claim in (Claim.OURS, Claim.RIVAL):
            overlapping += 1
        if each.is_due:
            due += 1
    return Figures(
        reserved_memory_mismatched=mismatched,
        taint_missing=missing,
        overlapping=overlapping,
        upgrade_due=due,
        memory_levels=memory.levels if memory else NONE,
        is_memory_systemic=memory.is_systemic if memory else None,
        upgrades=upgrades,
    )
