"""What ``kubectl winpool uninstall --plan`` has read of a cluster, as frozen values without rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from winpool.model.node import NO_KEYS, Keys

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.model.node import Node


class About(StrEnum):
    """What a caution is about."""

    UNREAD = "Unread"
    OPERATOR_UNKNOWN = "OperatorUnknown"
    OPERATOR_DOWN = "OperatorDown"
    POOL_PAUSED = "PoolPaused"
    FINALIZER_MISSING = "FinalizerMissing"
    OTHER_FINALIZERS = "OtherFinalizers"
    NODE_UNREADABLE = "NodeUnreadable"
    NODE_SILENT = "NodeSilent"
    NOT_WINDOWS = "NotWindows"
    POOL_GONE = "PoolGone"
    RECORD_UNREADABLE = "RecordUnreadable"
    GUARD_NOT_IN_FORCE = "GuardNotInForce"
    RECORD_UNGUARDED = "RecordUnguarded"
    KEYS_STAY = "KeysStay"
    KEYS_CHANGED = "KeysChanged"
    TAINTS_GO = "TaintsGo"
    REQUESTS_STAY = "RequestsStay"


@dataclass(frozen=True, slots=True)
class Caution:
    """Something to know before winpool is uninstalled, and the nodes that it is about, if any."""

    about: About
    text: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that could not be read. ``why`` is a sentence for people, such as which right is missing."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFact:
    """A pool. ``keys`` are those that its spec asks for or that its status says it has set.

    ``other_finalizers`` are those that are not ours.
    """

    name: str
    uid: str
    mode: str = "Active"
    deleting: bool = False
    has_finalizer: bool = True
    other_finalizers: tuple[str, ...] = ()
    keys: Keys = NO_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFact:
    """A Deployment of the operator: how many replicas it asks for, and how many of them are ready."""

    name: str
    replicas: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFact:
    """A Lease in the operator's namespace: ``seconds`` is how long it is valid after it was renewed.

    ``renewed`` is None where it does not say.
    """

    name: str
    holder: str
    renewed: datetime | None
    seconds: int

    def is_live(self, *, now: datetime) -> bool:
        """Whether its holder has renewed it in time, as far as the clocks agree."""
        if not self.holder or self.renewed is None:
            return False
        return (now - self.renewed).total_seconds() <= self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardFact:
    """The guard: whether a part of it is there, why it is not in force, and its identity.

    ``problem`` is empty where it is in force, and ``identity`` where it is not.
    """

    found: bool
    problem: str = "it is not installed"
    identity: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceFact:
    """The fence: whether a part of it is there, and which parts are missing."""

    found: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that was read. Pools and nodes are always read, or there is no plan.

    ``nodes`` are all nodes of the cluster that can be read, whatever their system; ``unread_nodes`` name the
    others, each with the reason. ``flags`` choose the cluster in every command that is shown.
    """

    now: datetime
    pools: tuple[PoolFact, ...]
    nodes: tuple[Node, ...]
    unread_nodes: tuple[str, ...] = ()
    namespace: bool | Unread = False
    deployments: tuple[DeploymentFact, ...] | Unread = ()
    leases: tuple[LeaseFact, ...] | Unread = ()
    guard: GuardFact | Unread = GuardFact(found=False)
    fence: FenceFact | Unread = FenceFact(found=False)
    crd: bool | Unread = False
    flags: tuple[str, ...] = ()

    @property
    def operator_runs(self) -> bool | None:
        """Whether an operator runs: by a ready replica, or by a Lease that is renewed. None if unknown."""
        leases = () if isinstance(self.leases, Unread) else self.leases
        deployments = () if isinstance(self.deployments, Unread) else self.deployments
        if any(each.ready for each in deployments) or any(each.is_live(now=self.now) for each in leases):
            return True
        return False if deployments else None
