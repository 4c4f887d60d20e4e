"""The room of the node contract: the labels and taints of the spec, the labels for its Windows, and when.

What the spec asks for is wanted on every node of the pool. When a taint has to wait: ``brake``. Which taints
a node that joins has until it has passed validation: ``validate``. The verdicts of the support matrix and of
the declared memory on each node: ``judge``, ``reserved_judge``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.api.node_keys import MISMATCH_TAINT
from winpool.contract.brake import NOTHING_HELD, Brake, Held
from winpool.contract.progress import contract_progress
from winpool.contract.validate import NO_STARTUP, Startup, Validator
from winpool.judging.judge import Judge
from winpool.judging.release import AS_ASKED, Release, release_findings, release_progress
from winpool.judging.reserved_judge import ReservedMemoryJudge
from winpool.judging.reserved_memory import Reserved
from winpool.ownership.goals import LEAVE, LEAVE_ALL, NONE, Goals, Wish
from winpool.ownership.record import Record
from winpool.pods.evidence import Evidence, current_survey
from winpool.rooms import Mandate, RoomResult
from winpool.support.judge import Judgement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.judging.judge import Judged
    from winpool.objects.node import Node
    from winpool.ownership.members import Member, Members
    from winpool.ownership.record import TaintIdentity
    from winpool.ownership.rights import Rights
    from winpool.snapshot import Snapshot


class NodeContract(msgspec.Struct, frozen=True):
    """What the contract finds of one node of the pool.

    ``held`` are the taints that the brake holds, ``startup`` is the state of the startup taints;
    ``lacks_taints`` says that a taint of the spec is missing. ``judgement`` is that of the support matrix,
    ``reserved`` compares the reserved memory, ``release`` the Windows release. Nodes that are alike share
    one.
    """

    held: Held = NOTHING_HELD
    startup: Startup = NO_STARTUP
    lacks_taints: bool = False
    judgement: Judgement | None = None
    reserved: Reserved | None = None
    release: Release = AS_ASKED

    @property
    def is_settled(self) -> bool:
        """Whether the node has the taints of the spec, and is not being validated."""
        return not self.lacks_taints and self.held is NOTHING_HELD and self.startup is NO_STARTUP

    @property
    def needs_pods(self) -> bool:
        """Whether its pods have to be listed first."""
        return self.held.asks or self.startup.needs_pods


NOTHING_FOUND: Final = NodeContract()


@dataclass(frozen=True, slots=True)
class ContractResult(RoomResult):
    """What the contract wants and finds; ``nodes`` by the UIDs of the pool's nodes."""

    nodes: Mapping[str, NodeContract] = field(default_factory=lambda: NONE)


def contract(snapshot: Snapshot, members: Members, mandate: Mandate) -> ContractResult:
    """Return what the spec asks for on the nodes of the pool, and which of it they have."""
    spec = snapshot.pool.spec
    if mandate is Mandate.RELEASE or spec is None:
        return ContractResult()
    judge = _NodeJudge(snapshot, spec, members.rights)
    goals: dict[str, Goals] = {}
    found: dict[str, NodeContract] = {}
    unsettled: list[tuple[Member, NodeContract]] = []
    others: dict[int, tuple[Release, list[str]]] = {}
    for member in members.ours:
        uid = member.node.uid
        goals[uid], each = judge.judge(member)
        found[uid] = each
        if not each.is_settled:
            unsettled.append((member, each))
        if each.release is not AS_ASKED:
            others.setdefault(id(each.release), (each.release, []))[1].append(member.node.name)
    return ContractResult(
        goals=goals,
        findings=tuple(release_findings(others.values(), spec.os, layers=judge.layers)),
        progress=(*contract_progress(unsettled), *release_progress(others.values())),
        looks=tuple(
            [member.node for member, each in unsettled if each.needs_pods or each.held.wants_own_look]
        ),
        needs_all_pods=current_survey(snapshot) is None,
        requeue_at=min(
            (
                moment
                for _, each in unsettled
                if (moment := each.startup.look_again) and moment > snapshot.now
            ),
            default=None,
        ),
        nodes=found,
    )


@dataclass(frozen=True, slots=True)
class _Alike:
    """What is the same of nodes that report the same; ``plain`` is for those that lack nothing."""

    judged: Judged
    mismatch: bool | None
    plain: tuple[Goals, NodeContract]


class _NodeJudge:
    """Says for each node what is wanted there, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, rights: Rights) -> None:
        self._pool_uid = snapshot.pool.uid
        self._rights = rights
        self._labels = spec.labels
        self._taints = {each.identity: each.value for each in spec.taints}
        self._judge = Judge(snapshot, spec)
        self._reserved = ReservedMemoryJudge(spec.reserved_memory)
        evidence = Evidence(snapshot)
        self._brake = Brake(snapshot, spec, evidence)
        self._validator = Validator(snapshot, spec, evidence)
        self._validates = bool(spec.startup_taints)
        self.layers = self._judge.layers
        self._wanted_taints = self._taints.items()
        # One object for all nodes that are alike, by the identities of its parts. The versions and the memory
        # that nodes report are kept once for all nodes (``cluster.node_texts``).
        self._goals: dict[tuple[object, ...], Goals] = {}
        self._alike: dict[tuple[int, str | None, int], _Alike] = {}

    def judge(self, member: Member) -> tuple[Goals, NodeContract]:
        """Return what is wanted on the node, and what is found of it."""
        node, standing = member.node, member.taints
        key = (id(node.versions), node.labels.get(WINDOWS_BUILD_LABEL), id(node.memory))
        alike = self._alike.get(key)
        if alike is None:
            alike = self._alike[key] = self._judged(node)
        lacks_taints = not self._wanted_taints <= standing.items()
        lacks_mismatch = alike.mismatch is True and MISMATCH_TAINT not in standing
        if not (lacks_taints or lacks_mismatch or self._validates):
            return alike.plain
        return self._unlike(member, alike, lacks_taints=lacks_taints, lacks_mismatch=lacks_mismatch)

    def _judged(self, node: Node) -> _Alike:
        judged, reserved = self._judge.judge(node), self._reserved.judge(node)
        mismatch = self._reserved.taint(reserved)
        found = NodeContract(judgement=judged.judgement, reserved=reserved, release=judged.release)
        return _Alike(judged, mismatch, (self._made(judged, mismatch=mismatch), found))

    def _unlike(
        self, member: Member, alike: _Alike, *, lacks_taints: bool, lacks_mismatch: bool
    ) -> tuple[Goals, NodeContract]:
        """Judge a node that lacks a taint or may be validated, for which the quick check is not enough."""
        node, found, mismatch = member.node, member.record, alike.mismatch
        is_known = isinstance(found, Record) and found.pool_uid == self._pool_uid
        record = self._rights.believed(found) if isinstance(found, Record) and is_known else None
        held = self._brake.hold(node, record) if lacks_taints else NOTHING_HELD
        if lacks_mismatch:
            held = self._brake.hold_mismatch(held, node)
            mismatch = None if MISMATCH_TAINT in held.waiting else mismatch
        startup = self._validator.startup(node, record, is_newcomer=found is None)
        if held is NOTHING_HELD and startup is NO_STARTUP and not lacks_taints:
            if mismatch is alike.mismatch:
                return alike.plain
            return self._made(alike.judged, mismatch=mismatch), alike.plain[1]
        goals = (
            self._made(alike.judged, mismatch=mismatch, held=held.all, startup=startup.taints)
            if startup.joins or not held.holds_all
            else LEAVE_ALL
        )
        plain = alike.plain[1]
        return goals, NodeContract(
            held, startup, lacks_taints, plain.judgement, plain.reserved, plain.release
        )

    def _made(
        self,
        judged: Judged,
        *,
        mismatch: bool | None,
        held: frozenset[TaintIdentity] = frozenset(),
        startup: Mapping[TaintIdentity, str] = NONE,
    ) -> Goals:
        """Return the goals; the same object for the same arguments."""
        key = (id(judged), mismatch, held, tuple(startup.items()))
        goals = self._goals.get(key)
        if goals is None:
            taints: dict[TaintIdentity, Wish] = {**self._taints, **dict.fromkeys(held, LEAVE), **startup}
            if mismatch:
                taints[MISMATCH_TAINT] = ""
            elif mismatch is None:
                taints[MISMATCH_TAINT] = LEAVE
            goals = self._goals[key] = Goals(
                labels={**self._labels, **judged.labels},
                taints=taints,
                withheld={each: self._taints[each] for each in held if each in self._taints},
                timed=frozenset(startup),
            )
        return goals
