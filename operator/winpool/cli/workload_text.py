"""What an upgrade of a node means for the pods that run on it, in a sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.cli.counts import listed
from winpool.cli.gate_text import clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.features.upgrade.capacity import Fit
    from winpool.model.pods import Block, Workload


def written_workload(workload: Workload, fit: Fit | None) -> str:
    """Say how many pods move, which of them fit nowhere or are lost, and what blocks them."""
    return "; ".join((*_parts(workload), *(_of_fit(fit) if fit is not None else ())))


def _of_fit(fit: Fit) -> Iterator[str]:
    if fit.unfit:
        yield f"{fit.unfit} or more fit on no other node: {clipped('; '.join(fit.examples))}"
    if fit.unclear:
        yield f"{fit.unclear} of which it cannot be known which nodes take them"


def _parts(workload: Workload) -> Iterator[str]:
    if not workload.is_complete:
        yield "not all could be read"
    moving = workload.moving_pods
    yield f"{moving} to move" if moving else "none to move"
    if workload.unmanaged:
        yield f"{workload.unmanaged} without a controller: a drain deletes them for good"
    if workload.local:
        yield f"{workload.local} with an emptyDir: a drain deletes its content"
    if workload.blocked:
        yield f"{workload.blocked} cannot be evicted now: " + blocked(workload.blocks, workload.blocked)
    if workload.longest_grace:
        yield f"longest grace {workload.longest_grace} s"


def blocked(blocks: tuple[Block, ...], count: int) -> str:
    """Name the first pods that cannot be evicted now, each with its budgets."""
    named = [f"{each.pod} ({each.why}: {', '.join(each.budgets) or 'unknown'})" for each in blocks]
    return clipped(listed(named, most=len(named), count=count))
