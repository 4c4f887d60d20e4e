"""The plan of an uninstallation for people, and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from winpool.cli.ages import age
from winpool.cli.paper import Ink, Paper
from winpool.cli.uninstall_facts import FenceFact, GuardFact, Unread
from winpool.cli.uninstall_nodes import Place
from winpool.status.assessment import counted_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.cli.paper import Look
    from winpool.cli.uninstall_facts import Facts
    from winpool.cli.uninstall_nodes import NodeFinding
    from winpool.cli.uninstall_plan import Plan

_READY: Final = "No pool is left, and no node has anything of winpool."
_NOTHING: Final = "Nothing of winpool is in this cluster."

_GROUPS: Final[Mapping[Place, str]] = {
    Place.OWNED: "of the pool {}",
    Place.RECORD_UNREADABLE: "of the pool {}, with a record that is missing or cannot be read",
    Place.POOL_GONE: "of the pool {}, which does not exist any more",
    Place.NO_OWNER: "of no pool: no operator removes what is there",
}


def as_text(plan: Plan, facts: Facts, *, look: Look) -> str:
    """Return the plan for a terminal of that look."""
    paper = Paper(look)
    _write_found(paper, plan, facts)
    if plan.cautions:
        paper.line()
        paper.line(f"Warnings: {len(plan.cautions)}", ink=Ink.HEAD)
        for caution in plan.cautions:
            paper.marked(caution.text, ink=Ink.BUSY)
    if plan.steps:
        paper.line()
        paper.line(f"Steps: {len(plan.steps)}", ink=Ink.HEAD)
    for number, step in enumerate(plan.steps, start=1):
        paper.wrapped(f"{step.title}.", first=f"  {number}. ")
        for command in step.commands:
            paper.line(f"       {command}")
        paper.wrapped(step.wait_for, first="     Wait for: ")
    return paper.text


def _write_found(paper: Paper, plan: Plan, facts: Facts) -> None:
    if plan.is_ready:
        paper.marked(_READY if plan.steps else f"{_READY} {_NOTHING}", ink=Ink.GOOD)
    paper.line(f"Pools: {len(facts.pools)}", ink=Ink.HEAD)
    if facts.pools:
        rows = [
            {
                "NAME": each.name,
                "MODE": each.mode,
                "DELETING": _yes(each.deleting),
                "FINALIZER": _yes(each.has_finalizer),
                "NODES": str(sum(_is_of(found, each.name) for found in plan.nodes)),
            }
            for each in facts.pools
        ]
        paper.table(rows, dropped=("MODE", "FINALIZER"), indent="  ")
    paper.line(f"Nodes with something of winpool: {len(plan.nodes)} of {len(facts.nodes)}", ink=Ink.HEAD)
    for (place, pool), names in groups_of(plan.nodes).items():
        paper.wrapped(f"{counted_nodes(names)}: {_GROUPS[place].format(pool)}", first="  ")
    paper.line("Installed:", ink=Ink.HEAD)
    for title, said in _installed(facts):
        paper.wrapped(said, first=f"  {title:<12}")


def _installed(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield each part of the installation, and what is known of it."""
    yield (
        "Deployment",
        _listed(
            facts.deployments, lambda each: f"{each.name}, {each.ready} of {each.replicas} replicas ready"
        ),
    )
    yield (
        "Lease",
        _listed(
            facts.leases,
            lambda each: (
                f"{each.name}, held by {each.holder or 'no one'}, "
                f"renewed {age(each.renewed, now=facts.now)} ago"
            ),
        ),
    )
    yield "Guard", _part(facts.guard)
    yield "Fence", _part(facts.fence)
    yield "CRD", _presence(facts.crd)


def _listed(found: Any, written: Any) -> str:
    if isinstance(found, Unread):
        return "unknown"
    return "; ".join(map(written, found)) or "none"


def _part(part: GuardFact | FenceFact | Unread) -> str:
    match part:
        case Unread():
            return "unknown"
        case GuardFact(found=True, problem=problem) if problem:
            return f"not in force: {problem}"
        case GuardFact(found=True):
            return "in force"
        case FenceFact(found=True, missing=missing) if missing:
            return f"incomplete, without {', '.join(missing)}"
        case _:
            return _presence(part.found)


def _presence(found: bool | Unread) -> str:
    if isinstance(found, Unread):
        return "unknown"
    return "there" if found else "none"


def groups_of(found: Sequence[NodeFinding]) -> dict[tuple[Place, str], list[str]]:
    """Return the names of the nodes by place and pool, in the order of the places."""
    groups: dict[tuple[Place, str], list[str]] = {}
    order = list(Place)
    for each in sorted(found, key=lambda each: (order.index(each.place), each.pool)):
        groups.setdefault((each.place, each.pool), []).append(each.node.name)
    return groups


def as_content(plan: Plan, facts: Facts) -> Mapping[str, Any]:
    """Return the plan for programs. What could not be read is null."""
    return {
        "ready": plan.is_ready,
        "pools": [
            {
                "name": each.name,
                "mode": each.mode,
                "deleting": each.deleting,
                "finalizer": each.has_finalizer,
                "otherFinalizers": list(each.other_finalizers),
                "nodes": [found.node.name for found in plan.nodes if _is_of(found, each.name)],
            }
            for each in facts.pools
        ],
        "nodeGroups": [
            {"place": str(place), "pool": pool, "count": len(names), "nodes": names}
            for (place, pool), names in groups_of(plan.nodes).items()
        ],
        "unreadNodes": list(facts.unread_nodes),
        **_installed_content(facts),
        "warnings": [
            {"reason": str(each.about), "message": each.text, "nodes": list(each.nodes)}
            for each in plan.cautions
        ],
        "steps": [
            {
                "kind": str(each.kind),
                "title": each.title,
                "commands": list(each.commands),
                "waitFor": each.wait_for,
            }
            for each in plan.steps
        ],
    }


def _installed_content(facts: Facts) -> Mapping[str, Any]:
    guard, fence = facts.guard, facts.fence
    return {
        "deployments": None
        if isinstance(facts.deployments, Unread)
        else [
            {"name": each.name, "replicas": each.replicas, "readyReplicas": each.ready}
            for each in facts.deployments
        ],
        "leases": None
        if isinstance(facts.leases, Unread)
        else [
            {"name": each.name, "holder": each.holder, "live": each.is_live(now=facts.now)}
            for each in facts.leases
        ],
        "guard": None if isinstance(guard, Unread) else {"found": guard.found, "problem": guard.problem},
        "fence": None
        if isinstance(fence, Unread)
        else {"found": fence.found, "missing": list(fence.missing)},
        "crd": None if isinstance(facts.crd, Unread) else facts.crd,
    }


def _is_of(found: NodeFinding, pool: str) -> bool:
    return found.place in (Place.OWNED, Place.RECORD_UNREADABLE) and found.pool == pool


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"
