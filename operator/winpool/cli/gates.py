"""Writes gates, stops, reasons and pods of upgrades for ``plan`` and ``why``, as text and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.api.text import written_moment
from winpool.api.upgrade import Gate
from winpool.cli.console import Ink, Paper
from winpool.cli.counts import listed
from winpool.features.upgrade.records import DueReason, GateFinding, Stand, Stop

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.cli.upgrades import Cluster, Judged
    from winpool.features.upgrade.capacity import Fit
    from winpool.model.pods import Workload

LONGEST: Final = 1024
"""Characters of a text of others that are shown: as many as an issue has."""


CONTROL_PLANE_ASSUMED: Final = (
    "Only the operator watches since when the version of the API server is unchanged (gate "
    f"{Gate.CONTROL_PLANE}), and no pool reports it. Here it counts as unchanged."
)


def clipped(text: str, most: int = LONGEST) -> str:
    """Return ``text``, cut to ``most`` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def write_closed(paper: Paper, gates: Iterable[GateFinding], stops: Iterable[Stop]) -> None:
    """Write each stop and each closed gate with what opens it."""
    for stop in stops:
        write_cause(paper, stop.name, message=stop.message, opens=stop.opens)
    for gate in gates:
        unknown = ", unknown" if gate.stand is Stand.UNKNOWN else ""
        write_cause(paper, f"{gate.gate}{unknown}", message=gate.message, opens=gate.opens)


def write_cause(paper: Paper, name: str, *, message: str, opens: str) -> None:
    """Write what keeps nodes from being upgraded, why, and what opens it."""
    paper.marked(name, ink=Ink.BAD)
    paper.wrapped(clipped(message), first="    ")
    if opens:
        paper.wrapped(clipped(opens), first="    To open: ")


def write_open(paper: Paper, gates: Iterable[GateFinding], *, of: str = "") -> None:
    """Write each gate that keeps no node, and why: it is open, overridden, or unknown and does not close."""
    about = f" ({of})" if of else ""
    for gate in gates:
        message = clipped(gate.message)
        if gate.override is not None:
            until = written_moment(gate.override.until)
            stand = "" if gate.stand is Stand.OPEN else f"It is {gate.stand.value}. "
            message = f"overridden until {until}: {clipped(gate.override.reason)}. {stand}{message}"
        elif gate.stand is Stand.UNKNOWN:
            message = f"unknown, and so it does not close. {message}"
        is_plain = gate.stand is Stand.OPEN and gate.override is None
        paper.marked(f"{gate.gate}{about}: {message}", ink=Ink.GOOD if is_plain else Ink.BUSY)


def notes(cluster: Cluster, judged: Judged) -> Iterator[str]:
    """Yield what is not known of the gates that were judged."""
    if judged.assumes_control_plane:
        yield CONTROL_PLANE_ASSUMED
    if cluster.pods_problem:
        yield f"Pods, PodDisruptionBudgets or RuntimeClasses are not known: {clipped(cluster.pods_problem)}"


def misfits(fit: Fit) -> Iterator[str]:
    """Yield how many of the pods that move fit on no other node, or perhaps on none."""
    if fit.unfit:
        yield f"{fit.unfit} or more fit on no other node: {clipped('; '.join(fit.examples))}"
    if fit.unclear:
        yield f"{fit.unclear} of which it cannot be known which nodes take them"


def lost(workload: Workload) -> Iterator[str]:
    """Yield how many pods a drain deletes for good, or with their data."""
    if workload.unmanaged:
        yield f"{workload.unmanaged} without a controller: a drain deletes them for good"
    if workload.local:
        yield f"{workload.local} with an emptyDir: a drain deletes its content"


def blocked(workload: Workload) -> str:
    """Name the first pods that cannot be evicted now, each with its budgets."""
    named = [f"{each.pod} ({each.why}: {', '.join(each.budgets) or 'unknown'})" for each in workload.blocks]
    return clipped(listed(named, most=len(named), count=workload.blocked))


def gate_content(gate: GateFinding) -> dict[str, Any]:
    """Return how a gate stands, why, and what opens it."""
    return {
        "gate": str(gate.gate),
        "stand": gate.stand.value.capitalize(),
        "permits": gate.permits,
        "message": gate.message,
        "opens": gate.opens,
        **({"overriddenUntil": written_moment(gate.override.until)} if gate.override else {}),
    }


def due_content(due: DueReason) -> dict[str, Any]:
    """Return for which named reason an upgrade is due, and what is so."""
    return {"trigger": str(due.trigger), "message": due.said}
