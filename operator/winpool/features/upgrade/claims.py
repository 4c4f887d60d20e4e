"""Reads and writes the claim on a node: the annotation ``winpool.dev/upgrade``, and what else it wants there.

A *claim* says that the operator upgrades this node to that target, how far it is, and until when. It has the
facts of the machine from before, and its own copy of the times of the spec: an edit of the spec, or a start
of the operator, changes neither (P8). ``claim``, ``target``, ``state``, ``since`` and ``deadline`` are API
for those who act on a node that is handed over; the rest is ours, and may change with any version.

The status of the pool keeps a copy of the claim from the hand-over on, since a Node that is deleted and made
again has no annotations. What a claim wants on its node follows from it alone: label, annotations, cordon,
conditions, and no served requests. A veto is what others keep on a node so that no claim begins.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec

from winpool.api.keys import (
    AKS_UPGRADE_STATUS_LABEL,
    BORROWED_ANNOTATIONS,
    UPGRADE_ANNOTATION,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
    WMCO_UPGRADING_LABEL,
)
from winpool.api.selector import NodeValidation
from winpool.api.spec import OperatingSystem, WindowsNodePoolSpec
from winpool.api.status import MAX_CLAIM
from winpool.api.upgrade import Trigger, UpgradeState
from winpool.model.node import Node, NodeCondition, NodePatch
from winpool.ownership.desired import KEEP, Desired, DesiredValue, Keep

_FACT_LENGTH: Final = 128
"""Characters of each fact of a machine. Real ones have 36 at most; a kubelet may report more."""


class Target(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a machine is to run. Without a revision, any of that release."""

    version: str
    revision: int | None = None

    @classmethod
    def of(cls, os: OperatingSystem) -> Target:
        """Return what a spec asks for."""
        return cls(os.version, os.target_revision)

    def __str__(self) -> str:
        """Return it as people write it, such as "2022.4052", or "2022" without a revision."""
        return self.version if self.revision is None else f"{self.version}.{self.revision}"


class Machine(msgspec.Struct, frozen=True, rename="camel"):
    """What distinguishes the starts of a machine, and machines from each other.

    Any difference proves a restart. The same values prove nothing: images may bring their boot ID with them.
    """

    uid: str
    kernel: str
    boot_id: str
    system_uuid: str

    @classmethod
    def of(cls, node: Node) -> Machine:
        """Return what ``node`` reports."""
        facts = (node.uid, node.versions.kernel, node.boot_id, node.system_uuid)
        return cls(*(each[:_FACT_LENGTH] for each in facts))

    def has_restarted(self, now: Machine) -> bool:
        """Whether the machine is another one ``now``, or was started again. An empty value proves nothing."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(now), strict=True)
        return any(before and after and before != after for before, after in pairs)


class Limits(msgspec.Struct, frozen=True, rename="camel"):
    """The times of the spec, as they were when the node was claimed, in seconds."""

    drain: int
    volumes: int
    actor: int
    rejoin: int
    ready: int
    validation: int
    soak: int
    settle: int


class Claim(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """How far the upgrade of a node is.

    ``since`` is when ``state`` began, and at ``deadline`` the next step follows from time alone; None where
    it does not. ``before`` is the machine as it was claimed, ``triggers`` why it was due. ``turn`` and
    ``zone`` are its place in the plan. ``drain_until`` is the deadline of the drain, which may begin again
    with a pod that comes later. ``cordoned_at`` is when we cordoned the node the last time for this
    claim, after ``uncordons`` of others, ``drained_at`` when it was drained. ``restarted_at`` is when its
    restart was seen, ``is_done`` says that the actor has reported the claim as done. ``attempts`` counts the
    claims of this target that failed; ``reason`` says why this one did, or why the drain is blocked, and at
    ``retry_at`` the next one may begin. With ``is_retried`` someone has asked to try again, or for another
    target. ``request`` is a digest of the request that the claim serves, and ``baseline`` what was Ready
    before the drain (``settle``). With ``replaces`` another machine is to take the place of this one.
    """

    claim: str
    target: Target
    state: UpgradeState
    since: datetime
    before: Machine
    limits: Limits
    deadline: datetime | None = None
    triggers: tuple[Trigger, ...] = ()
    turn: int = 1
    zone: str = ""
    drain_until: datetime | None = None
    cordoned_at: datetime | None = None
    uncordons: int = 0
    drained_at: datetime | None = None
    restarted_at: datetime | None = None
    is_done: bool = False
    attempts: int = 0
    reason: str = ""
    retry_at: datetime | None = None
    is_retried: bool = False
    request: str = ""
    baseline: str = ""
    replaces: bool = False

    def moved(
        self, state: UpgradeState, *, now: datetime, deadline: datetime | None, **more: object
    ) -> Claim:
        """Return the claim in another state, which begins ``now``."""
        began = now.replace(microsecond=0)
        return msgspec.structs.replace(self, state=state, since=began, deadline=deadline, **more)

    def passed(self, now: datetime) -> bool:
        """Whether its deadline has passed."""
        return self.deadline is not None and now >= self.deadline

    def may_be_retried(self, now: datetime) -> bool:
        """Whether it has failed, and another one may follow: someone asks for it, or its time has come."""
        is_time = self.retry_at is not None and self.retry_at <= now
        return self.state in ENDED_BADLY and (self.is_retried or is_time)


class Done(msgspec.Struct, frozen=True, rename="camel"):
    """That a node was upgraded to ``target``."""

    target: Target
    done_at: datetime


BEFORE_HAND_OVER: Final = frozenset(
    {UpgradeState.CLAIMED, UpgradeState.DRAINING, UpgradeState.DRAIN_BLOCKED, UpgradeState.DRAINED}
)
"""A node in one of these states can be given up: no one but the operator has acted on the machine."""

DRAINING: Final = frozenset({UpgradeState.CLAIMED, UpgradeState.DRAINING, UpgradeState.DRAIN_BLOCKED})
"""Pods of a node in one of these are evicted, or about to be."""

HANDED_OVER: Final = frozenset({UpgradeState.UPGRADING, UpgradeState.REJOINING, UpgradeState.VALIDATING})
"""A node in one of these is not given up: someone may be at work on its machine."""

IN_WORK: Final = BEFORE_HAND_OVER | HANDED_OVER | {UpgradeState.SOAKING}
ENDED_BADLY: Final = frozenset({UpgradeState.FAILED, UpgradeState.QUARANTINED})


class Unreadable(msgspec.Struct, frozen=True):
    """An annotation that is no claim. ``why`` says so for people."""

    why: str


_CLAIM: Final = msgspec.json.Decoder(Claim)
_DONE: Final = msgspec.json.Decoder(Done)


SHORT: Final = 256
"""Characters of an annotation that is read once for all passes. That a node is done takes 80, and each of
thousands of nodes keeps it; a claim is longer, and few nodes have one."""


def read(text: str | None) -> Claim | Done | Unreadable | None:
    """Read the annotation, or the copy in a slot; None where there is none."""
    if text is None or not text:
        return None
    return _read_short(text) if len(text) <= SHORT else _read(text)


def _read(text: str) -> Claim | Done | Unreadable:
    if len(text) > MAX_CLAIM:
        return Unreadable(f"it has more than {MAX_CLAIM} characters")
    try:
        claim = _CLAIM.decode(text)
    except msgspec.DecodeError as error:
        problem = str(error)
    else:
        return claim if claim.state in IN_WORK | ENDED_BADLY else Unreadable("its state is none of a claim")
    try:
        return _DONE.decode(text)
    except msgspec.DecodeError:
        return Unreadable(problem)


_read_short: Final = lru_cache(maxsize=8192)(_read)


def claim_of(node: Node) -> Claim | Done | Unreadable | None:
    """Return what ``node`` remembers of its upgrade."""
    return read(node.annotations.get(UPGRADE_ANNOTATION))


def has_claim(node: Node) -> bool:
    """Whether the operator upgrades ``node``: it has a claim that has not failed."""
    found = claim_of(node) if UPGRADE_ANNOTATION in node.annotations else None
    return isinstance(found, Claim) and found.state in IN_WORK


def is_with_actor(node: Node, *, now: datetime) -> bool:
    """Whether someone may be at work on the machine of ``node``, so that even a release has to wait."""
    claim = claim_of(node) if UPGRADE_ANNOTATION in node.annotations else None
    if not isinstance(claim, Claim) or claim.state not in HANDED_OVER or claim.passed(now):
        return False
    is_done = node.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim
    is_begun = claim.state is UpgradeState.UPGRADING
    has_restarted = is_done or not is_begun or claim.before.has_restarted(Machine.of(node))
    return node.ready != "True" or not has_restarted


DELETED_BY_AUTOSCALER: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""Taints of a node that an autoscaler is about to delete. It need not cordon the node, and many clouds give a
new machine the name of a deleted one.
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
https://karpenter.sh/docs/concepts/disruption/"""


def veto_of(node: Node) -> str:
    """Return by what a vendor, or a workload on its platform, keeps others from upgrading ``node``.

    It is the label or taint, as people write it; empty where there is none. Up to the hand-over it is
    respected as a hold is; after it, the vendor may be the one that upgrades the machine.
    """
    status = node.labels.get(AKS_UPGRADE_STATUS_LABEL, "")
    if status in _AKS_VETOES:
        return f"the label {AKS_UPGRADE_STATUS_LABEL}={status}"
    if WMCO_UPGRADING_LABEL in node.labels:
        return f"the label {WMCO_UPGRADING_LABEL}"
    return next((f"the taint {each.key}" for each in node.taints if each.key in DELETED_BY_AUTOSCALER), "")


_AKS_VETOES: Final = frozenset({"paused", "Quarantined"})
"""Set by workloads that are not to be disrupted now, and by AKS on a node that it could not drain.
https://github.com/Azure/AKS/issues/5944
https://learn.microsoft.com/azure/aks/upgrade-cluster"""


def text_of(found: Claim | Done) -> str:
    """Return the text of the annotation."""
    return msgspec.json.encode(found).decode()


def drain_seconds(patch: NodePatch) -> float | None:
    """Return how long the drain took that ``patch`` ends, from the cordon on; None where it ends none."""
    if patch.labels.get(UPGRADE_STATE_LABEL) != UpgradeState.DRAINED:
        return None
    claim = read(patch.annotations.get(UPGRADE_ANNOTATION))
    if not isinstance(claim, Claim) or claim.drained_at is None or claim.cordoned_at is None:
        return None
    return max((claim.drained_at - claim.cordoned_at).total_seconds(), 0.0)


def name_of_claim(node: Node, began: datetime) -> str:
    """Return the name of the claim of a node that got its slot at ``began``.

    It follows from both, so that a crash between two writes leaves no second claim.
    """
    return hashlib.sha256(f"{node.uid} {began.isoformat()}".encode()).hexdigest()[:12]


def limits_of(spec: WindowsNodePoolSpec, *, is_canary: bool) -> Limits:
    """Return the times of a spec that has ``upgrade``."""
    block, validation = spec.upgrade, spec.validation or NodeValidation()
    assert block is not None
    return Limits(
        drain=block.drain.timeout_seconds,
        volumes=block.drain.volume_detach_timeout_seconds,
        actor=block.actuator.timeout_seconds,
        rejoin=block.rejoin_timeout_seconds,
        ready=validation.ready_seconds,
        validation=validation.timeout_seconds,
        soak=max(block.soak_seconds, block.canary.soak_seconds if is_canary and block.canary else 0),
        settle=block.settle_timeout_seconds,
    )


CONDITIONS: Final = {
    "DrainInProgress": "The operator evicts the pods of the node to upgrade its machine.",
    "Drained": "No pod is left on the node that has to leave before its machine is upgraded.",
    "MaintenanceInProgress": "The node is handed over to the actor that upgrades its machine.",
}
"""Of KEP-5683, which others may write as well. They are derived from the claim, and never read back.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5683-specialized-lifecycle-management"""

_IN_STATE: Final[Mapping[UpgradeState, tuple[str, ...]]] = {
    UpgradeState.DRAINING: ("DrainInProgress",),
    UpgradeState.DRAIN_BLOCKED: ("DrainInProgress",),
    UpgradeState.DRAINED: ("Drained",),
    UpgradeState.UPGRADING: ("Drained", "MaintenanceInProgress"),
    UpgradeState.REJOINING: ("Drained", "MaintenanceInProgress"),
}

_CORDON: Final[Mapping[UpgradeState, bool | Keep | None]] = {
    UpgradeState.CLAIMED: KEEP,
    UpgradeState.VALIDATING: KEEP,
    UpgradeState.SOAKING: None,
    UpgradeState.FAILED: KEEP,
    UpgradeState.QUARANTINED: KEEP,
}
"""What is wanted of the cordon; True in all other states."""

GIVEN_UP: Final = Desired(
    labels={UPGRADE_STATE_LABEL: UpgradeState.GATED},
    annotations=dict.fromkeys((UPGRADE_ANNOTATION, *BORROWED_ANNOTATIONS)),
    unschedulable=False,
)
"""What a node is to have whose claim ends. Under ``AllowedActions.FINISH`` what is not named here stays."""


def desired_of(claim: Claim) -> Desired:
    """Return what a node with ``claim`` is to have."""
    state = claim.state
    annotations: dict[str, DesiredValue] = {UPGRADE_ANNOTATION: text_of(claim)}
    if state in IN_WORK:
        annotations.update(dict.fromkeys(BORROWED_ANNOTATIONS, "true"))
    return Desired(
        labels={UPGRADE_STATE_LABEL: UpgradeState.GATED if claim.is_retried else state},
        annotations=annotations,
        unschedulable=_CORDON.get(state, True),
        conditions=tuple(
            NodeCondition(each, "True", state, CONDITIONS[each]) for each in _IN_STATE.get(state, ())
        ),
    )


def left_alone(claim: Claim) -> Desired:
    """Return that a node with ``claim`` stays as it is.

    Label and conditions report the state, which is no act; a permission that someone writes there is none.
    """
    desired = desired_of(claim)
    return Desired(labels=desired.labels, unschedulable=KEEP, conditions=desired.conditions, keeps_rest=True)


def served(node: Node, claim: Claim) -> Mapping[str, None]:
    """Return the requests on the node that this claim has served, to be removed."""
    found: dict[str, None] = {}
    if claim.is_done and node.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim:
        found[UPGRADE_DONE_ANNOTATION] = None
    is_proven = claim.is_done or claim.restarted_at is not None
    asked = node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
    if (
        claim.state is UpgradeState.SOAKING
        and is_proven
        and asked is not None
        and digest(asked) == claim.request
    ):
        found[UPGRADE_REQUESTED_ANNOTATION] = None
    return found


def digest(text: str | None) -> str:
    """Return what distinguishes requests; empty where there is none."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:12]
