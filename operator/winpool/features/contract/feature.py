"""Decides which labels and taints each node of a pool is to have, and refuses a spec that it cannot act on.

This is the node contract: the labels and taints of the spec, and the labels for the Windows of the node, on
every node of the pool. A taint may have to wait (``taints.Brake``), a node that joins has startup taints
until it has passed validation (``validation.Validator``), and one whose reserved memory differs may get a
taint for that (``reserved_memory``). Rules about a spec that CEL cannot check are checked here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from winpool.api.conditions import Reason
from winpool.api.keys import MISMATCH_TAINT, WINDOWS_BUILD_LABEL
from winpool.api.spec import WindowsNodePoolSpec
from winpool.features.contract.taints import NOTHING_HELD, Brake, Held
from winpool.features.contract.validation import NO_STARTUP, Startup, Validator, foreign_startup_taints
from winpool.features.feature import AllowedActions, FeatureResult, Progress, Stage
from winpool.features.judge import (
    AS_ASKED,
    Judge,
    Judged,
    Release,
    contradictory_rows,
    release_findings,
    release_progress,
)
from winpool.features.reserved_memory import Reserved, ReservedMemoryJudge, too_large_everywhere
from winpool.model.node import Node
from winpool.model.snapshot import Evidence, Snapshot, current_survey
from winpool.ownership.desired import KEEP, KEEP_ALL, NONE, Desired, DesiredValue
from winpool.ownership.members import Member, Members
from winpool.ownership.record import MAX_BYTES, Record, TaintIdentity, fits
from winpool.ownership.trust import RecordTrust
from winpool.support.judge import Judgement
from winpool.support.matrix import Matrix
from winpool.support.rows import Row

_SAID: Final = {
    Stage.WAITING: (
        Reason.ROLLOUT_IN_PROGRESS,
        "The operator writes to {nodes} once it has listed the pods.",
    ),
    Stage.HELD: (
        Reason.TAINTS_HELD,
        "The operator does not add a NoExecute taint to {nodes}, because it would delete pods there. See "
        "the issue IntolerantPods.",
    ),
    Stage.TIMED_OUT: (
        Reason.VALIDATION_TIMED_OUT,
        "Validation timed out on {nodes}. See the issue ValidationTimedOut.",
    ),
    Stage.VALIDATING: (Reason.VALIDATING_NODES, "Startup taints stay on {nodes} until validation passes."),
}


def contract_progress(unsettled: Iterable[tuple[Member, NodeContract]]) -> Iterator[Progress]:
    """Yield the stages of the nodes that lack what the spec asks for, or are still being validated."""
    found: dict[Stage, list[str]] = {stage: [] for stage in _SAID}
    for member, each in unsettled:
        name = member.node.name
        if each.held.intolerant:
            found[Stage.HELD].append(name)
        if each.held.waiting:
            found[Stage.WAITING].append(name)
        if each.startup.timed_out:
            found[Stage.TIMED_OUT].append(name)
        elif each.startup.waits_for:
            found[Stage.VALIDATING].append(name)
    for stage, (reason, said) in _SAID.items():
        if found[stage]:
            yield Progress(stage, found[stage], reason, said)


class Refusal(msgspec.Struct, frozen=True):
    """Why a spec cannot be acted on, with the fix; the message is empty where it can."""

    message: str = ""
    reason: Reason = Reason.SPEC_REJECTED

    def __bool__(self) -> bool:
        """Whether the spec is refused."""
        return bool(self.message)


ACCEPTABLE: Final = Refusal()


def contract_refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix."""
    spec = snapshot.pool.spec
    if spec is None:
        return Refusal(snapshot.pool.refusal)
    if wrong := unusable(spec, matrix=snapshot.support.matrix, cluster_rows=snapshot.support.cluster_rows):
        return Refusal(" ".join(f"{each}." for each in wrong))
    if unknown := _unknown_data_sources(spec, snapshot.memory.data_sources):
        return Refusal(unknown)
    return ACCEPTABLE if snapshot.pool.deleting else _too_large(spec, members)


def unusable(
    spec: WindowsNodePoolSpec, *, matrix: Matrix, cluster_rows: tuple[Row, ...] = ()
) -> tuple[str, ...]:
    """Return why the operator cannot act on ``spec``, whatever nodes and settings there are.

    Each are sentences that begin with the field, without the last full stop.
    """
    taints = {each.identity: each.value for each in (*spec.taints, *spec.startup_taints)}
    if not fits(labels=spec.labels, taints=taints):
        return (
            "spec.labels, spec.taints and spec.startupTaints: the ownership record could exceed "
            f"{MAX_BYTES} bytes on a node. Use fewer or shorter keys",
        )
    return tuple(contradictory_rows(spec, matrix=matrix, cluster_rows=cluster_rows))


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
    if said := too_large_everywhere(judged, spec.reserved_memory):
        return Refusal(f"{said} Declare less, or use larger machines.", Reason.RESERVED_MEMORY_TOO_LARGE)
    return ACCEPTABLE


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
    def is_current(self) -> bool:
        """Whether no taint is held, the node is not being validated, and it runs the right Windows."""
        return self.held is NOTHING_HELD and self.startup is NO_STARTUP and self.release is AS_ASKED

    @property
    def needs_pods(self) -> bool:
        """Whether its pods have to be listed first."""
        return self.held.asks or self.startup.needs_pods


NOTHING_FOUND: Final = NodeContract()


class ContractResult(FeatureResult, frozen=True):
    """What the contract wants and finds; ``nodes`` by the UIDs of the pool's nodes."""

    nodes: Mapping[str, NodeContract] = msgspec.field(default_factory=lambda: NONE)


def contract(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> ContractResult:
    """Return what the spec asks for on the nodes of the pool, and which of it they have."""
    spec = snapshot.pool.spec
    if allowed is AllowedActions.RELEASE or spec is None:
        return ContractResult()
    judge = _NodeJudge(snapshot, spec, members.rights)
    desired: dict[str, Desired] = {}
    found: dict[str, NodeContract] = {}
    unsettled: list[tuple[Member, NodeContract]] = []
    others: dict[int, tuple[Release, list[str]]] = {}
    startup = {each.identity: list[str]() for each in spec.startup_taints}
    for member in members.ours:
        uid = member.node.uid
        desired[uid], each = judge.judge(member)
        found[uid] = each
        if startup and each.startup is NO_STARTUP:
            for identity in startup.keys() & member.taints.keys():
                startup[identity].append(member.node.name)
        if not each.is_settled:
            unsettled.append((member, each))
        if each.release is not AS_ASKED:
            others.setdefault(id(each.release), (each.release, []))[1].append(member.node.name)
    return ContractResult(
        desired=desired,
        findings=(
            *release_findings(others.values(), spec.os, layers=judge.layers),
            *foreign_startup_taints({each: names for each, names in startup.items() if names}),
        ),
        progress=(*contract_progress(unsettled), *release_progress(others.values())),
        node_lists=tuple(
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


class _Alike(msgspec.Struct, frozen=True):
    """What is the same of nodes that report the same; ``plain`` is for those that lack nothing."""

    judged: Judged
    mismatch: bool | None
    plain: tuple[Desired, NodeContract]


class _NodeJudge:
    """Says for each node what is wanted there, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, rights: RecordTrust) -> None:
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
        # that nodes report are kept once for all nodes (``kube.nodes``).
        self._desired: dict[tuple[object, ...], Desired] = {}
        self._alike: dict[tuple[int, str | None, int], _Alike] = {}

    def judge(self, member: Member) -> tuple[Desired, NodeContract]:
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
    ) -> tuple[Desired, NodeContract]:
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
            return alike.plain
        desired = (
            self._made(alike.judged, mismatch=mismatch, held=held.all, startup=startup.taints)
            if startup.joins or not held.holds_all
            else KEEP_ALL
        )
        plain = alike.plain[1]
        return desired, NodeContract(
            held, startup, lacks_taints, plain.judgement, plain.reserved, plain.release
        )

    def _made(
        self,
        judged: Judged,
        *,
        mismatch: bool | None,
        held: frozenset[TaintIdentity] = frozenset(),
        startup: Mapping[TaintIdentity, str] = NONE,
    ) -> Desired:
        """Return what the node is to have; the same object for the same arguments."""
        key = (id(judged), mismatch, held, tuple(startup.items()))
        desired = self._desired.get(key)
        if desired is None:
            taints: dict[TaintIdentity, DesiredValue] = {
                **self._taints,
                **dict.fromkeys(held, KEEP),
                **startup,
            }
            if mismatch:
                taints[MISMATCH_TAINT] = ""
            elif mismatch is None:
                taints[MISMATCH_TAINT] = KEEP
            desired = self._desired[key] = Desired(
                labels={**self._labels, **judged.labels},
                taints=taints,
                withheld={each: self._taints[each] for each in held if each in self._taints},
                timed=frozenset(startup),
            )
        return desired
