"""What a pool asks of OS upgrades: which nodes are due, what must be open before one may begin, and how.

Under the strategy Manual the operator decides, explains and labels the nodes, and others act. Under the other
strategies it drains a node, hands it over to an actor that patches its machine, and takes it back.

Limits have schema defaults, tuned numbers have not: a default is stored in the object and stays as it was.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.drain import Drain, OnTimeout
from winpool.api.fields import (
    DNS_SUBDOMAIN_PATTERN,
    KEY_SYNTAX,
    MAX_NODES,
    MAX_PREFIX_LENGTH,
    has_form,
    is_key,
    is_object_name,
)
from winpool.api.maintenance import (
    MAX_EXCLUSIONS,
    MAX_OVERRIDES,
    MAX_PAUSE_REQUESTS,
    MAX_WINDOWS,
    MaintenanceExclusion,
    MaintenanceWindow,
    Override,
    PauseRequest,
)
from winpool.api.model import ATOMIC, ApiModel, Rule, Validation, list_map
from winpool.api.quantity import IntOrString
from winpool.api.selector import NodeSelector


class Strategy(StrEnum):
    """Who upgrades the nodes."""

    MANUAL = "Manual"
    ON_REQUEST = "OnRequest"
    ROLLING_UPDATE = "RollingUpdate"


class Method(StrEnum):
    """How a node is brought to its target."""

    IN_PLACE = "InPlace"
    REPLACE = "Replace"


class Trigger(StrEnum):
    """Why a node is due for an upgrade, in the order in which several are reported."""

    OS_VERSION = "OSVersion"
    OS_REVISION = "OSRevision"
    REQUEST = "Request"
    RESERVED_MEMORY = "ReservedMemory"
    KUBELET_SKEW = "KubeletSkew"


DEFAULT_TRIGGERS: Final = (Trigger.OS_VERSION, Trigger.OS_REVISION, Trigger.REQUEST)


class UpgradeState(StrEnum):
    """How far the upgrade of a node is: the value of the label ``winpool.dev/upgrade-state``.

    All but the first three are those of a rollout, in their order.
    """

    UP_TO_DATE = "UpToDate"
    REQUIRED = "Required"
    """The node is due, and it may be upgraded now: a permission, under the strategy Manual."""
    GATED = "Gated"
    """The node is due, and must not be upgraded now."""
    CLAIMED = "Claimed"
    """The operator is about to drain the node."""
    DRAINING = "Draining"
    """The node is cordoned, and its pods are evicted."""
    DRAIN_BLOCKED = "DrainBlocked"
    """The node was not drained in time. The operator keeps trying."""
    DRAINED = "Drained"
    """No pod is left that has to go; volumes may still have to detach."""
    UPGRADING = "Upgrading"
    """The node is cordoned, drained, and handed over to the actor."""
    REJOINING = "Rejoining"
    """Its machine has restarted or is another one, or the actor says that it is done."""
    VALIDATING = "Validating"
    """It is Ready at the target, and has to pass validation."""
    SOAKING = "Soaking"
    """It is schedulable again, and has to stay healthy for a time."""
    FAILED = "Failed"
    """It did not reach the target in time. It stays cordoned."""
    QUARANTINED = "Quarantined"
    """Only a person can say that its upgrade may begin again. It stays cordoned."""


_PERCENT_PATTERN: Final = "^([0-9]|[1-9][0-9]|100)%$"
_SENTENCE: Final = f"must be a whole number from 0 to {MAX_NODES} or a percentage from '0%' to '100%'"


def is_budget(value: int | str) -> bool:
    """Whether ``value`` is a number or a percentage of nodes: the twin of the rule in CEL."""
    if isinstance(value, int):
        return 0 <= value <= MAX_NODES
    return has_form(value, _PERCENT_PATTERN)


NodeBudget = Annotated[
    int | str,
    IntOrString(_SENTENCE),
    Rule(
        f"type(self) == int ? self >= 0 && self <= {MAX_NODES} : string(self).matches('{_PERCENT_PATTERN}')",
        f"{_SENTENCE}; 0 stops all upgrades",
        is_budget,
    ),
]
"""A number of nodes, or a percentage of the nodes of the pool, which rounds down to one node at least.

0 and 0% are as they are written: none."""


class Canary(ApiModel):
    """The nodes that are upgraded before all others."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=MAX_NODES)] | None = None
    """How many nodes are upgraded before the others. Either this or `nodeSelector`. An integer."""
    node_selector: NodeSelector | None = None
    """Which nodes of the pool are upgraded before the others. Either this or `nodes`."""
    soak_seconds: Annotated[int, Field(strict=True, ge=0, le=604800)] = Field(default_factory=lambda: 900)
    """How long these nodes must be healthy before others follow. Under the strategy Manual only the plan uses
    it. Seconds, an integer, 900 if absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "has(self.nodes) != has(self.nodeSelector)",
            "must have either `nodes` or `nodeSelector`; for no canary, remove `canary`",
            lambda self: (self.nodes is None) != (self.node_selector is None),
        ),
    )


class ActuatorType(StrEnum):
    """Who acts on a drained node."""

    EXTERNAL = "External"
    JOB = "Job"


class JobActuator(ApiModel):
    """A Job on the node that patches it."""

    pod_template: Annotated[
        str,
        Field(max_length=512),
        Rule(
            f"self.size() <= {MAX_PREFIX_LENGTH} && self.matches('^{DNS_SUBDOMAIN_PATTERN}$')",
            "must be the name of a PodTemplate: at most 253 lowercase letters, digits, '-' and '.', such as "
            "'windows-patch'",
            is_object_name,
        ),
    ]
    """Name of a core/v1 PodTemplate in the operator's namespace, from which the Job is made. A string,
    required."""
    timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(default_factory=lambda: 7200)
    """How long the Job may take, reboots included. Seconds, an integer, 7200 if absent."""


class ExternalActuator(ApiModel):
    """Another program that patches the machine."""

    timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(default_factory=lambda: 7200)
    """How long a node that is handed over may take until its machine has restarted, another machine has taken
    its place, or the program reports that it is done. Seconds, an integer, 7200 if absent."""


class Actuator(ApiModel):
    """Who brings a drained machine to its target."""

    type: ActuatorType
    """External: another program, such as a node image upgrade of the cloud. Job: the operator runs a Job on
    the node. A string, required."""
    job: JobActuator | None = None
    """Which Job. Required for the type Job, and only there."""
    external: ExternalActuator | None = None
    """How long the other program may take. Only for the type External."""

    @property
    def timeout_seconds(self) -> int:
        """How long it may take, reboots included, in seconds."""
        return (self.job or self.external or ExternalActuator()).timeout_seconds

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(self.type == 'Job') == has(self.job)",
            "must be given when `type` is Job, and only then",
            lambda self: (self.type is ActuatorType.JOB) == (self.job is not None),
            at=".job",
        ),
        Rule(
            "self.type == 'External' || !has(self.external)",
            "must be absent unless `type` is External",
            lambda self: self.type is ActuatorType.EXTERNAL or self.external is None,
            at=".external",
        ),
    )


DEFAULT_TOPOLOGY_KEY: Final = "topology.kubernetes.io/zone"


class Upgrade(ApiModel):
    """Which nodes of the pool are due for an upgrade, and what must be open before one may begin."""

    strategy: Strategy = Strategy.MANUAL
    """Who begins. Manual: you, or a program of yours; the operator reports and labels which nodes may be
    upgraded. RollingUpdate: the operator drains one due node after the other, hands it over to the
    `actuator`, and takes it back. OnRequest: the same, but only nodes with the annotation
    winpool.dev/upgrade-requested. These two need the overlay `rollout`. A string, default Manual."""
    method: Method = Method.IN_PLACE
    """How a node is upgraded. InPlace: the same machine is patched, and keeps its release. Replace: a new
    machine takes its place, with any release, under the same name or another one. A string, default
    InPlace."""
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
    ] = Field(default_factory=lambda: DEFAULT_TRIGGERS, max_length=2 * len(Trigger))
    """Why a node is due. OSVersion: it runs another release than `os.version`. OSRevision: it is below
    `os.targetRevision`. Request: it has the annotation winpool.dev/upgrade-requested. ReservedMemory: its
    kubelet does not reserve what `reservedMemory` declares. KubeletSkew: its kubelet has an older minor
    version than the API server. A list, [OSVersion, OSRevision, Request] if absent."""
    pause_requests: Annotated[tuple[PauseRequest, ...], list_map("owner")] = Field(
        default_factory=tuple, max_length=MAX_PAUSE_REQUESTS
    )
    """While there is any, no upgrade may begin; those that have begun finish. Several owners can each have
    one, if all of them use server-side apply. A list of at most 16, one per owner."""
    actuator: Actuator = Field(default_factory=lambda: Actuator(type=ActuatorType.EXTERNAL))
    """Who brings a drained node to its target. Has no effect under the strategy Manual. If absent, its type
    is External."""
    max_unavailable: NodeBudget = 1
    """How many nodes of the pool may be unavailable at a time: not Ready, cordoned or being deleted, for
    whatever reason. At most so many nodes, less the unavailable ones, are permitted to be upgraded, in the
    order of the plan. 0 and 0% stop all upgrades. An integer or a percentage, which rounds down to one node
    at least, default 1."""
    max_failed_nodes: Annotated[int, Field(strict=True, ge=0, le=MAX_NODES)] = 0
    """No upgrade begins while the upgrade of more nodes than this has failed. An integer, default 0."""
    max_blocked_nodes: Annotated[int, Field(strict=True, ge=0, le=MAX_NODES)] = 0
    """No upgrade begins while the drain of more nodes than this is blocked. An integer, default 0."""
    topology_key: Annotated[
        str,
        Field(max_length=512),
        Rule(
            f"self == '' || ({KEY_SYNTAX.cel})",
            "must be a key of a node label, such as 'topology.kubernetes.io/zone', or empty to upgrade nodes "
            "in any order",
            lambda key: key == "" or is_key(key),
        ),
    ] = Field(default_factory=lambda: DEFAULT_TOPOLOGY_KEY)
    """A node label, such as that of the zone: nodes with one value of it are upgraded before those with the
    next. Empty if nodes may be upgraded in any order. A string, topology.kubernetes.io/zone if absent."""
    canary: Canary | None = None
    """Nodes that are upgraded first. If absent, there are none."""
    soak_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = Field(default_factory=lambda: 120)
    """How long an upgraded node must be healthy before it counts as done. Under the strategy Manual only the
    plan uses it. Seconds, an integer, 120 if absent."""
    rejoin_timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 1800
    )
    """How long an upgraded node may take to be Ready at its target before its upgrade has failed. Under the
    strategy Manual the plan uses it, and the slot of a node that was deleted ends after it. Seconds, an
    integer, 1800 if absent."""
    settle_timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 1800
    )
    """How long evicted pods may take to be Ready on other nodes. The next node waits for them, also after
    this time, and the pool is Stalled then. Under the strategy Manual only the plan uses it. Seconds, an
    integer, 1800 if absent."""
    maintenance_windows: Annotated[tuple[MaintenanceWindow, ...], ATOMIC] = Field(
        default_factory=tuple, max_length=MAX_WINDOWS
    )
    """When upgrades may begin: while at least one window is open. A list of at most 16, at any time if
    absent."""
    maintenance_exclusions: Annotated[tuple[MaintenanceExclusion, ...], ATOMIC] = Field(
        default_factory=tuple, max_length=MAX_EXCLUSIONS
    )
    """When no upgrade may begin, even while a window is open. A list of at most 32."""
    overrides: Annotated[tuple[Override, ...], list_map("gate")] = Field(
        default_factory=tuple, max_length=MAX_OVERRIDES
    )
    """Gates that count as open until a time, although they are closed. A list of at most 10, one per gate."""
    drain: Drain = Field(default_factory=Drain)
    """How a node is drained before its upgrade. If absent, the defaults of its fields apply."""

    @property
    def is_ours(self) -> bool:
        """Whether the operator drains the nodes and hands them over."""
        return self.strategy is not Strategy.MANUAL

    @property
    def forces(self) -> bool:
        """Whether the operator deletes pods that it could not evict in time."""
        return self.is_ours and self.drain.on_timeout is OnTimeout.FORCE

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.strategy == 'Manual' || !has(self.actuator) || self.actuator.type == 'External'",
            "must have the type External unless `strategy` is Manual: the operator runs no Jobs yet",
            lambda self: not self.is_ours or self.actuator.type is ActuatorType.EXTERNAL,
            at=".actuator",
        ),
    )
