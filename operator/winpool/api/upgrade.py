"""What a pool asks of OS upgrades: which nodes are due, what must be open before one may begin, and how.

The operator decides and explains. Only the strategy Manual is accepted yet: the operator labels the nodes,
and whoever upgrades them acts. Fields that only a rollout by the operator reads say so.

Everything of the block can be imported from here. Limits have schema defaults, tuned numbers have not: a
default is stored in the object and stays as it was.
"""

from typing import Annotated, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.actuator import Actuator, ActuatorType, JobActuator
from winpool.api.budget import MAX_NODES, NodeBudget
from winpool.api.canary import Canary
from winpool.api.drain import Drain, DrainBehavior, DrainRule, EmptyDirPods, OnTimeout, UnmanagedPods
from winpool.api.fields import KEY_SYNTAX
from winpool.api.gates import MAX_OVERRIDES, NEVER_OVERRIDDEN, Gate, Override
from winpool.api.maintenance import (
    DEFAULT_TIME_ZONE,
    MAX_EXCLUSIONS,
    MAX_WINDOWS,
    MaintenanceExclusion,
    MaintenanceWindow,
)
from winpool.api.model import ATOMIC, ApiModel, list_map
from winpool.api.pauses import MAX_PAUSE_REQUESTS, PauseRequest
from winpool.api.rules import Rule
from winpool.api.strategies import DEFAULT_TRIGGERS, Method, Strategy, Trigger, UpgradeState

__all__ = [
    "DEFAULT_TIME_ZONE",
    "DEFAULT_TOPOLOGY_KEY",
    "DEFAULT_TRIGGERS",
    "NEVER_OVERRIDDEN",
    "Actuator",
    "ActuatorType",
    "Canary",
    "Drain",
    "DrainBehavior",
    "DrainRule",
    "EmptyDirPods",
    "Gate",
    "JobActuator",
    "MaintenanceExclusion",
    "MaintenanceWindow",
    "Method",
    "OnTimeout",
    "Override",
    "PauseRequest",
    "Strategy",
    "Trigger",
    "UnmanagedPods",
    "Upgrade",
    "UpgradeState",
]

DEFAULT_TOPOLOGY_KEY: Final = "topology.kubernetes.io/zone"

_WIDE: Final = 512


class Upgrade(ApiModel):
    """Which nodes of the pool are due for an upgrade, and what must be open before one may begin."""

    strategy: Annotated[
        Strategy,
        Rule(
            "self == 'Manual'",
            "must be Manual: the operator does not upgrade nodes itself yet; OnRequest and RollingUpdate "
            "come with a later version",
            lambda strategy: strategy is Strategy.MANUAL,
        ),
    ] = Field(
        default=Strategy.MANUAL,
        description="Who upgrades the nodes. Manual: you, or a program of yours; the operator reports and "
        "labels which nodes may be upgraded. OnRequest (nodes with the annotation "
        "winpool.dev/upgrade-requested) and RollingUpdate (all nodes that are due) come with a later "
        "version. A string, default Manual.",
    )
    method: Method = Field(
        default=Method.IN_PLACE,
        description="How a node is upgraded. InPlace: the same machine is patched, and keeps its release. "
        "Replace: a new machine takes its place, with any release. A string, default InPlace.",
    )
    triggers: Annotated[
        tuple[Trigger, ...],
        ATOMIC,
        Rule(
            "self.size() > 0",
            "must have at least one trigger; to upgrade nothing, remove `upgrade`",
            lambda triggers: len(triggers) > 0,
        ),
        Rule(
            "self.all(a, self.exists_one(b, a == b))",
            "must have each trigger only once",
            lambda triggers: len(set(triggers)) == len(triggers),
        ),
    ] = Field(
        default_factory=lambda: DEFAULT_TRIGGERS,
        max_length=2 * len(Trigger),  # what is repeated is the rule's to refuse
        description="Why a node is due. OSVersion: it runs another release than `os.version`. OSRevision: it "
        "is below `os.targetRevision`. Request: it has the annotation winpool.dev/upgrade-requested. "
        "ReservedMemory: its kubelet does not reserve what `reservedMemory` declares. KubeletSkew: its "
        "kubelet has an older minor version than the API server. A list, [OSVersion, OSRevision, Request] if "
        "absent.",
    )
    pause_requests: Annotated[tuple[PauseRequest, ...], list_map("owner")] = Field(
        default_factory=tuple,
        max_length=MAX_PAUSE_REQUESTS,
        description="While there is any, no upgrade may begin; those that have begun finish. Several owners "
        "can each have one, if all of them use server-side apply. A list of at most 16, one per owner.",
    )
    actuator: Actuator = Field(
        default_factory=lambda: Actuator(type=ActuatorType.EXTERNAL),
        description="Who brings a drained node to its target. Has no effect until the operator upgrades "
        "nodes itself. If absent, its type is External.",
    )
    max_unavailable: NodeBudget = Field(
        default=1,
        description="How many nodes of the pool may be unavailable at a time: not Ready, cordoned or being "
        "deleted, for whatever reason. No upgrade begins at or above it. 0 and 0% stop all upgrades. An "
        "integer or a percentage, which rounds down to one node at least, default 1.",
    )
    max_failed_nodes: Annotated[int, Field(strict=True, ge=0, le=MAX_NODES)] = Field(
        default=0,
        description="No upgrade begins while the upgrade of more nodes than this has failed. An integer, "
        "default 0.",
    )
    max_blocked_nodes: Annotated[int, Field(strict=True, ge=0, le=MAX_NODES)] = Field(
        default=0,
        description="No upgrade begins while the drain of more nodes than this is blocked. An integer, "
        "default 0.",
    )
    topology_key: Annotated[
        str,
        Field(max_length=_WIDE),
        Rule(
            f"self == '' || ({KEY_SYNTAX.cel})",
            "must be a key of a node label, such as 'topology.kubernetes.io/zone', or empty to upgrade nodes "
            "in any order",
            lambda key: key == "" or syntax.is_key(key),
        ),
    ] = Field(
        default_factory=lambda: DEFAULT_TOPOLOGY_KEY,
        description="A node label, such as that of the zone: nodes with one value of it are upgraded before "
        "those with the next. Empty if nodes may be upgraded in any order. Until the operator upgrades "
        "nodes itself, only the plan uses it. A string, topology.kubernetes.io/zone if absent.",
    )
    canary: Canary | None = Field(
        default=None,
        description="Nodes that are upgraded first. Until the operator upgrades nodes itself, only the plan "
        "uses it. If absent, there are none.",
    )
    soak_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = Field(
        default_factory=lambda: 120,
        description="How long an upgraded node must be healthy before it counts as done. Until the operator "
        "upgrades nodes itself, only the plan uses it. Seconds, an integer, 120 if absent.",
    )
    rejoin_timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 1800,
        description="How long an upgraded node may take to be Ready again before its upgrade has failed. "
        "Until the operator upgrades nodes itself, only the plan uses it. Seconds, an integer, 1800 if "
        "absent.",
    )
    settle_timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 1800,
        description="How long evicted pods may take to be Ready on other nodes. The next node waits for "
        "them, also after this time, and the pool is Stalled then. Until the operator upgrades nodes "
        "itself, only the plan uses it. Seconds, an integer, 1800 if absent.",
    )
    maintenance_windows: Annotated[tuple[MaintenanceWindow, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=MAX_WINDOWS,
        description="When upgrades may begin: while at least one window is open. A list of at most 16, at "
        "any time if absent.",
    )
    maintenance_exclusions: Annotated[tuple[MaintenanceExclusion, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=MAX_EXCLUSIONS,
        description="When no upgrade may begin, even while a window is open. A list of at most 32.",
    )
    overrides: Annotated[tuple[Override, ...], list_map("gate")] = Field(
        default_factory=tuple,
        max_length=MAX_OVERRIDES,
        description="Gates that count as open until a time, although they are closed. A list of at most 10, "
        "one per gate.",
    )
    drain: Drain = Field(
        default_factory=Drain,
        description="How a node is drained before its upgrade. If absent, the defaults of its fields apply.",
    )
