"""The whole contract of one pool: every node that concerns it, whose it is, and what is to be done there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from winpool.contract.conform import Wanted, conform, record_of, release
from winpool.contract.judge import Judge
from winpool.contract.membership import Claim, asking, claim, may_share
from winpool.contract.record import Record, Unreadable
from winpool.snapshot import Node, NodePatch
from winpool.support.judge import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.snapshot import Pool, Snapshot


class Assessment(msgspec.Struct, frozen=True):
    """What the contract says of one node. ``patch`` is None where the node is as it should be.

    ``compared`` is False where there was no readable spec to compare it with. ``rival`` names the
    other pool that has the node or asks for it too; ``drifted`` what somebody undid;
    ``unreadable`` says why the ownership record gives no rights; ``refused`` why the API server did not
    let the patch pass when it was last tried. ``judgement`` is what the support matrix says, of our nodes
    only.

    A struct, since every pass makes one for each node: a frozen dataclass takes ten times as long to make.
    """

    node: Node
    claim: Claim
    patch: NodePatch | None = None
    compared: bool = True
    rival: str = ""
    drifted: tuple[str, ...] = ()
    unreadable: str = ""
    refused: str = ""
    judgement: Judgement | None = None


def wanted_by(pool: Pool) -> Wanted:
    """Return what ``pool``, whose spec is readable, wants on each of its nodes."""
    assert pool.spec is not None
    return Wanted(
        pool_name=pool.name,
        pool_uid=pool.uid,
        labels=pool.spec.labels,
        taints={(taint.key, taint.effect): taint.value for taint in pool.spec.taints},
    )


def assess(snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Assess every node that concerns the pool, in the order of their names.

    A pool under deletion wants nothing: all that it has on nodes is to be taken off. A pool whose
    spec cannot be read keeps the nodes it has, and nothing is to be done to them (P4).
    """
    pool = snapshot.pool
    nodes = sorted(snapshot.nodes, key=lambda node: node.name)
    if pool.deleting:
        return _with_refusals((_released(node, pool) for node in nodes), snapshot)
    if pool.spec is None:
        return tuple(Assessment(node, Claim.OURS, compared=False) for node in nodes if _is_held(node, pool))
    wanted = wanted_by(pool)
    rivals, judge = _rivals(snapshot), Judge(snapshot, pool.spec)
    assessed = (
        _assessed(node, wanted=wanted, snapshot=snapshot, rivals=rivals, judge=judge) for node in nodes
    )
    return _with_refusals(assessed, snapshot)


def _with_refusals(assessed: Iterable[Assessment], snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Leave out what does not concern the pool; a refusal is one as long as its patch is due."""
    refused = snapshot.refused
    return tuple(
        msgspec.structs.replace(each, refused=refused[each.node.uid])
        if each.patch and each.node.uid in refused
        else each
        for each in assessed
        if each.claim is not Claim.NONE
    )


def _released(node: Node, pool: Pool) -> Assessment:
    patch = release(node, pool_uid=pool.uid, pool_name=pool.name)
    if patch is None:
        return Assessment(node, Claim.NONE)
    found = record_of(node)
    return Assessment(node, Claim.LEFT, patch, unreadable=found.why if isinstance(found, Unreadable) else "")


def _is_held(node: Node, pool: Pool) -> bool:
    found = record_of(node)
    return isinstance(found, Record) and found.pool_uid == pool.uid


def _rivals(snapshot: Snapshot) -> tuple[Pool, ...]:
    """Return the pools that may have a say in whose a node is: they can select it, or have it."""
    owners = {found.pool_uid for node in snapshot.nodes if isinstance(found := record_of(node), Record)}
    return tuple(other for other in snapshot.rivals if other.uid in owners or may_share(snapshot.pool, other))


def _assessed(
    node: Node, *, wanted: Wanted, snapshot: Snapshot, rivals: tuple[Pool, ...], judge: Judge
) -> Assessment:
    found = claim(node, pool=snapshot.pool, rivals=rivals, vanished=snapshot.vanished_pools)
    match found.claim:
        case Claim.OURS:
            judged = judge.judge(node)
            state = conform(node, wanted=wanted, os_labels=judged.labels)
            others = asking(rivals, node) if rivals else ()
            return Assessment(
                node,
                Claim.OURS,
                state.patch,
                rival=others[0].name if others else "",
                drifted=state.drifted,
                unreadable=state.unreadable,
                judgement=judged.judgement,
            )
        case Claim.LEFT:
            return _released(node, snapshot.pool)
        case other:
            return Assessment(node, other, rival=found.rival)
