"""The whole contract of one pool: every node that concerns it, whose it is, and what is to be done there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from winpool.contract.brake import NOTHING_HELD, Brake, Held
from winpool.contract.judge import Judge, Judged
from winpool.contract.reserved_judge import ReservedMemoryJudge
from winpool.contract.reserved_memory import Reserved
from winpool.contract.validate import NO_STARTUP, Startup, Validator
from winpool.objects.acts import NodePatch
from winpool.objects.keys import NO_KEYS, Keys
from winpool.objects.node import Node
from winpool.ownership.edits import MISMATCH_TAINT
from winpool.ownership.membership import Claim, asking, claim, may_share
from winpool.ownership.patch import AS_WANTED, Own, Wanted, conform, is_as_wanted, release
from winpool.ownership.record import Record, record_of
from winpool.ownership.rights import Rights, keys_of
from winpool.pods.evidence import Evidence
from winpool.support.judge import Judgement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot


class Assessment(msgspec.Struct, frozen=True):
    """What the contract says of one node. ``patch`` is None where the node is as it should be.

    ``compared`` is False where there was no readable spec to compare it with. ``rival`` names the
    other pool that has the node or asks for it too; ``drifted`` what somebody undid, ``undone`` the same
    where it may not be put back now, and ``contested`` what somebody keeps undoing; ``unreadable`` says why
    the ownership record gives no rights; ``refused`` why the API server did not let the patch pass when it
    was last tried. ``lacks_taints`` says that a taint of the spec is not there, ``held`` which the brake
    keeps away, ``startup`` how the node stands with the startup taints. ``left_alone`` is what stands there
    by a record that may be forged, ``owner_is_gone`` says that its owner is no pool, and ``awaits_guard``
    that the patch has to wait until it is known what the record permits. ``judgement`` is
    what the support matrix says, ``reserved`` how its reserved memory compares; both of our nodes only.

    A struct, since every pass makes one for each node: a frozen dataclass takes ten times as long to make.
    """

    node: Node
    claim: Claim
    patch: NodePatch | None = None
    compared: bool = True
    rival: str = ""
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    contested: tuple[str, ...] = ()
    unreadable: str = ""
    refused: str = ""
    lacks_taints: bool = False
    held: Held = NOTHING_HELD
    startup: Startup = NO_STARTUP
    left_alone: Keys = NO_KEYS
    awaits_guard: bool = False
    owner_is_gone: bool = False
    judgement: Judgement | None = None
    reserved: Reserved | None = None

    @property
    def is_current(self) -> bool:
        """Whether the node is as this generation of the spec asks."""
        return (
            self.compared and self.patch is None and self.held is NOTHING_HELD and self.startup is NO_STARTUP
        )

    @property
    def needs_pods(self) -> bool:
        """Whether a look at its pods has to come first."""
        return self.held.asks or self.startup.needs_pods

    @property
    def may_be_written(self) -> bool:
        """Whether the patch may be sent now: a NoExecute taint needs a look at the pods that is young."""
        return self.patch is not None and not self.held.is_stale and not self.awaits_guard


def rights_of(snapshot: Snapshot) -> Rights:
    """Return by what records are believed in this pass."""
    pool = snapshot.pool
    return Rights(
        guard=snapshot.guard,
        pools={**snapshot.seen_pools, pool.uid: keys_of(pool)},
        is_unknown=snapshot.guard_is_unknown,
    )


def wanted_by(pool: Pool, *, rights: Rights) -> Wanted:
    """Return what ``pool``, whose spec is readable, wants on each of its nodes."""
    assert pool.spec is not None
    return Wanted(
        pool_name=pool.name,
        pool_uid=pool.uid,
        labels=pool.spec.labels,
        taints={(taint.key, taint.effect): taint.value for taint in pool.spec.taints},
        rights=rights,
    )


def assess(snapshot: Snapshot) -> tuple[Assessment, ...]:
    """Assess every node that concerns the pool, in the order of their names.

    A pool under deletion wants nothing: all that it has on nodes is to be taken off. A pool whose
    spec cannot be read keeps the nodes it has, and nothing is to be done to them (P4).
    """
    pool, rights = snapshot.pool, rights_of(snapshot)
    nodes = sorted(snapshot.nodes, key=lambda node: node.name)
    if pool.deleting:
        return _with_refusals((_released(node, pool, rights) for node in nodes), snapshot)
    if pool.spec is None:
        return tuple(Assessment(node, Claim.OURS, compared=False) for node in nodes if _is_held(node, pool))
    assessor = _Assessor(snapshot, pool.spec, rights)
    return _with_refusals(map(assessor.assess, nodes), snapshot)


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


def _released(node: Node, pool: Pool, rights: Rights) -> Assessment:
    state = release(node, pool_uid=pool.uid, pool_name=pool.name, rights=rights)
    if state.patch is None:
        return Assessment(node, Claim.NONE)
    found = record_of(node)
    return Assessment(
        node,
        Claim.LEFT,
        state.patch,
        unreadable=state.unreadable,
        left_alone=state.left_alone,
        awaits_guard=isinstance(found, Record) and rights.is_in_doubt(found),
    )


def _is_held(node: Node, pool: Pool) -> bool:
    found = record_of(node)
    return isinstance(found, Record) and found.pool_uid == pool.uid


def _rivals(snapshot: Snapshot) -> tuple[Pool, ...]:
    """Return the pools that may have a say in whose a node is: they can select it, or have it."""
    owners = {found.pool_uid for node in snapshot.nodes if isinstance(found := record_of(node), Record)}
    return tuple(other for other in snapshot.rivals if other.uid in owners or may_share(snapshot.pool, other))


class _Assessor:
    """Assesses node by node, for one pass of a pool whose spec can be read."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, rights: Rights) -> None:
        self._snapshot = snapshot
        self._rights = rights
        self._wanted = wanted_by(snapshot.pool, rights=rights)
        self._rivals = _rivals(snapshot)
        self._judge = Judge(snapshot, spec)
        self._reserved = ReservedMemoryJudge(spec.reserved_memory)
        evidence = Evidence(snapshot)
        self._brake = Brake(snapshot, spec, evidence)
        self._validator = Validator(snapshot, spec, evidence)
        self._own: dict[tuple[int, bool | None], Own] = {}

    def assess(self, node: Node) -> Assessment:
        """Return whose the node is, and what is to be done there."""
        snapshot = self._snapshot
        found = claim(
            node,
            pool=snapshot.pool,
            rivals=self._rivals,
            vanished=snapshot.vanished_pools,
            rights=self._rights,
        )
        match found.claim:
            case Claim.OURS:
                return self._ours(node)
            case Claim.LEFT:
                return _released(node, snapshot.pool, self._rights)
            case other:
                return Assessment(node, other, rival=found.rival, owner_is_gone=found.is_gone)

    def _ours(self, node: Node) -> Assessment:
        judged, reserved, found = self._judge.judge(node), self._reserved.judge(node), record_of(node)
        mismatch = self._reserved.taint(reserved)
        own = self._own_keys(judged, mismatch)
        held, startup, lacks_taints, state = NOTHING_HELD, NO_STARTUP, False, AS_WANTED
        if not is_as_wanted(node, found, wanted=self._wanted, own=own):
            is_known = isinstance(found, Record) and found.pool_uid == self._wanted.pool_uid
            record = self._rights.believed(found) if isinstance(found, Record) and is_known else None
            held = self._brake.hold(node, record)
            if mismatch and MISMATCH_TAINT not in {taint.identity for taint in node.taints}:
                held = self._brake.hold_mismatch(held, node)
                own = own if MISMATCH_TAINT not in held.waiting else self._own_keys(judged, None)
            startup = self._validator.startup(node, record, is_newcomer=found is None)
            lacks_taints = self._wanted.lacks_taints(node)
            if startup.joins or not held.holds_all:
                state = conform(node, wanted=self._wanted, own=own, held=held, startup=startup.taints)
        others = asking(self._rivals, node) if self._rivals else ()
        return Assessment(
            node,
            Claim.OURS,
            state.patch,
            rival=others[0].name if others else "",
            drifted=state.drifted,
            undone=state.undone,
            contested=self._snapshot.contested.get(node.uid, ()),
            unreadable=state.unreadable,
            lacks_taints=lacks_taints,
            held=held,
            startup=startup,
            left_alone=state.left_alone,
            judgement=judged.judgement,
            reserved=reserved,
        )

    def _own_keys(self, judged: Judged, mismatch: bool | None) -> Own:
        """Return what the node is to carry under ``winpool.dev/``: one object for all that are alike."""
        own = self._own.get((id(judged), mismatch))
        if own is None:
            own = self._own[id(judged), mismatch] = Own(judged.labels, mismatch)
        return own
