"""Gates, stops and what is due, as ``plan`` and ``why`` print them for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from winpool.features.upgrade.plan import PlannedGate
    from winpool.features.upgrade.records import DueReason, Stop


def gate_content(gate: PlannedGate) -> dict[str, Any]:
    """Return how a gate stands, why, and what opens it."""
    return {
        "gate": str(gate.gate),
        "stand": gate.stand.capitalize(),
        "permits": gate.permits,
        "message": gate.message,
        "opens": gate.opens,
        **({"overriddenUntil": gate.override} if gate.override else {}),
    }


def stop_content(stop: Stop) -> dict[str, Any]:
    """Return what else keeps a pool or a node, why, and what ends that."""
    return {"name": stop.name, "message": stop.message, "opens": stop.opens}


def due_content(due: DueReason) -> dict[str, Any]:
    """Return for which named reason an upgrade is due, and what is so."""
    return {"trigger": str(due.trigger), "message": due.said}
