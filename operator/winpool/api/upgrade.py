"""What a pool asks of OS upgrades: which nodes are due, what must be open before one may begin, and how.

Under the strategy Manual the operator decides, explains and labels the nodes, and others act. Under the other
strategies it drains a node, hands it over to an actor that patches its machine, and takes it back.

What the API server can check of a maintenance window it checks. Whether the time zone exists and the schedule
ever begins is the operator's to find out (``upgrade.windows``): both need data that changes without the API.

Limits have schema defaults, tuned numbers have not: a default is stored in the object and stays as it was.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import (
    DNS_SUBDOMAIN_PATTERN,
    KEY_SYNTAX,
    MAX_NODES,
    MAX_PREFIX_LENGTH,
    NAME_PATTERN,
    POOL_NAME_PATTERN,
    SpecTime,
    Timeout,
    has_form,
    is_key,
    is_object_name,
    is_spec_time,
    of_form,
)
from winpool.api.model import ATOMIC, ApiModel, Rule, Validation, cel_list, list_map
from winpool.api.quantity import IntOrString
from winpool.api.selector import NamespaceName, NodeSelector, PodSelector, names_pods

MAX_RULES: Final = 16

LEAST_SECONDS_TO_FORCE: Final = 600
"""Windows pods take minutes to end: what is forced sooner was never given the time to leave."""

MAX_ORDER: Final = 1000


class OnTimeout(StrEnum):
    """What becomes of a node that is not drained in time."""

    WAIT = "Wait"
    RESTORE = "Restore"
    QUARANTINE = "Quarantine"
    FORCE = "Force"


class EmptyDirPods(StrEnum):
    """What becomes of pods whose data is lost with the node: those with an emptyDir volume."""

    EVICT = "Evict"
    BLOCK = "Block"


class UnmanagedPods(StrEnum):
    """What becomes of pods that no controller creates again."""

    BLOCK = "Block"
    EVICT = "Evict"


class DrainBehavior(StrEnum):
    """What a rule says of the pods that it matches."""

    DRAIN = "Drain"
    SKIP = "Skip"
    WAIT_COMPLETED = "WaitCompleted"


class DrainRule(ApiModel):
    """How some pods are drained. The first rule that matches a pod decides."""

    name: Annotated[
        str,
        Field(max_length=253),
        of_form(
            POOL_NAME_PATTERN,
            "must be at most 63 lowercase letters, digits and '-', beginning and ending with a letter or "
            "digit, such as 'db'",
        ),
    ]
    """Name of the rule, for messages about pods that it matches. A string, required."""
    namespaces: Annotated[tuple[NamespaceName, ...], ATOMIC] = Field(default_factory=tuple, max_length=16)
    """Namespaces of the pods. A list of at most 16 strings, all namespaces if absent."""
    pod_selector: PodSelector | None = None
    """Labels of the pods. All pods of the namespaces if absent."""
    behavior: DrainBehavior = Field(default_factory=lambda: DrainBehavior.DRAIN)
    """Drain: the operator evicts these pods. Skip: it leaves them on the node. WaitCompleted: it evicts none
    of them and waits until they end by themselves. A string, Drain if absent."""
    order: Annotated[int, Field(strict=True, ge=-MAX_ORDER, le=MAX_ORDER)] = Field(default_factory=int)
    """Pods with a lower number leave the node before those with a higher one. Only with the behavior Drain.
    An integer, 0 if absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        names_pods(),
        Rule(
            "!has(self.order) || self.order == 0 || !has(self.behavior) || self.behavior == 'Drain'",
            "must be absent unless `behavior` is Drain: other pods are not evicted in an order",
            lambda self: self.order == 0 or self.behavior is DrainBehavior.DRAIN,
            at=".order",
        ),
    )


class Drain(ApiModel):
    """How a node is drained before its upgrade."""

    timeout_seconds: Timeout = Field(default_factory=lambda: 3600)
    """How long the drain of a node may take before `onTimeout` applies. Under the strategy Manual only the
    plan uses it. Seconds, an integer, 3600 if absent."""
    on_timeout: OnTimeout = Field(default_factory=lambda: OnTimeout.WAIT)
    """What to do if a node is not drained in time. Wait: continue to evict. Restore: uncordon the node and
    retry later. Quarantine: leave it cordoned and count it in `maxFailedNodes`. Force: delete the pods that
    are left, whatever PodDisruptionBudgets allow, each with its own grace period; `timeoutSeconds` is at
    least 600, and the operator needs the flag --allow-force and the rights of the overlay `force`. Has no
    effect under the strategy Manual. A string, Wait if absent."""
    empty_dir_pods: EmptyDirPods = Field(default_factory=lambda: EmptyDirPods.EVICT)
    """Pods with an emptyDir volume, which lose its data. Evict: they are evicted like others. Block: they
    keep the node from being drained, until its time is over where `onTimeout` is Force. Has no effect under
    the strategy Manual. A string, Evict if absent."""
    unmanaged_pods: UnmanagedPods = Field(default_factory=lambda: UnmanagedPods.BLOCK)
    """Pods without a controller, which nothing creates again. Block: they keep the node from being drained,
    until its time is over where `onTimeout` is Force. Evict: they are evicted like others. Has no effect
    under the strategy Manual. A string, Block if absent."""
    volume_detach_timeout_seconds: Timeout = Field(default_factory=lambda: 600)
    """How long the volumes of drained pods may take to detach from the node before its drain counts as
    blocked. Under the strategy Manual only the plan uses it. Seconds, an integer, 600 if absent."""
    pod_rules: Annotated[
        tuple[DrainRule, ...],
        ATOMIC,
        Rule(
            "self.all(a, self.exists_one(b, a.name == b.name))",
            "must have each `name` only once",
            lambda rules: len({each.name for each in rules}) == len(rules),
        ),
    ] = Field(default_factory=tuple, alias="rules", max_length=MAX_RULES)
    """Pods that are drained in another way or order. The first rule that matches a pod decides. Has no effect
    under the strategy Manual. A list of at most 16."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.onTimeout) || self.onTimeout != 'Force' || !has(self.timeoutSeconds) || "
            f"self.timeoutSeconds >= {LEAST_SECONDS_TO_FORCE}",
            f"must be at least {LEAST_SECONDS_TO_FORCE} if `onTimeout` is Force: pods on Windows need "
            "minutes to end",
            lambda self: (
                self.on_timeout is not OnTimeout.FORCE or self.timeout_seconds >= LEAST_SECONDS_TO_FORCE
            ),
            at=".timeoutSeconds",
        ),
    )


MAX_REASON: Final = 256
"""Characters of a reason that people write: a sentence, and the number of a ticket."""


class Gate(StrEnum):
    """What has to be open before a node may be upgraded, in the order in which it is reported."""

    SUPPORT_MATRIX = "SupportMatrix"
    END_OF_SUPPORT = "EndOfSupport"
    REVISION_FLOOR = "RevisionFloor"
    RELEASE_CHANGE = "ReleaseChange"
    VERSION_SKEW = "VersionSkew"
    CONTROL_PLANE = "ControlPlane"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    POOL_HEALTH = "PoolHealth"
    CAPACITY = "Capacity"
    IMAGES = "Images"
    BUDGET = "Budget"
    DISRUPTION_BUDGETS = "PodDisruptionBudgets"


NEVER_OVERRIDDEN: Final = (Gate.BUDGET, Gate.DISRUPTION_BUDGETS)
"""The gates that no override opens: they keep workloads available, which no upgrade is urgent enough for."""

MAX_OVERRIDES: Final = len(Gate) - len(NEVER_OVERRIDDEN)
"""One for each gate that can be overridden."""


class Override(ApiModel):
    """A gate that counts as open until a time, and why."""

    gate: Annotated[
        Gate,
        Rule(
            f"!(self in {cel_list(NEVER_OVERRIDDEN)})",
            "must not be Budget or PodDisruptionBudgets: no override opens these gates; to permit more nodes "
            "at a time, set `maxUnavailable`, and to let pods move, change their PodDisruptionBudget",
            lambda gate: gate not in NEVER_OVERRIDDEN,
        ),
    ]
    """The gate: SupportMatrix, EndOfSupport, RevisionFloor, ReleaseChange, VersionSkew, ControlPlane,
    MaintenanceWindow, PoolHealth, Capacity or Images. Budget and PodDisruptionBudgets cannot be
    overridden. A string, required, once per list."""
    until: SpecTime
    """When the override ends. From then on it has no effect, and the operator reports it as an issue until it
    is removed. An RFC 3339 time such as 2026-12-01T00:00:00Z, required."""
    reason: Annotated[
        str,
        Field(max_length=MAX_REASON),
        Rule(
            "self.matches('[^ ]')",
            "must say why the gate may be ignored, such as 'incident 4711'",
            lambda reason: bool(reason.strip(" ")),
        ),
    ]
    """Why the gate may be ignored. The operator reports it as long as the override is in force. A string of
    at most 256 characters, required."""

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still opens its gate at ``now``."""
        return now < self.until


MAX_PAUSE_REQUESTS: Final = 16
"""Owners of a request: teams and programs that watch one pool."""


class NodesInWork(StrEnum):
    """What becomes of nodes that the operator drains while someone requests a pause."""

    FINISH = "Finish"
    RESTORE = "Restore"


class PauseRequest(ApiModel):
    """A request of one owner that no upgrade begins."""

    owner: Annotated[
        str,
        Field(max_length=512),
        of_form(
            f"^{NAME_PATTERN}$",
            "must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or "
            "digit, such as 'sre'",
        ),
    ]
    """Who requests it: a team or a program. A string, required, once per list."""
    reason: str = Field(default_factory=str, max_length=MAX_REASON)
    """Why no upgrade may begin. A string of at most 256 characters, empty if absent."""
    nodes_in_work: NodesInWork = Field(default_factory=lambda: NodesInWork.FINISH)
    """What becomes of nodes that the operator drains. Finish: their upgrade continues. Restore: they are
    uncordoned, unless they are handed over already. A string, Finish if absent."""


MAX_WINDOWS: Final = 16
"""Two for each day of the week, and some that come once a month. Each is judged in every pass."""

MAX_EXCLUSIONS: Final = 32
"""The public holidays of two years in most countries."""

LEAST_SECONDS: Final = 60
"""The least duration of a window: schedules have minutes."""

MOST_SECONDS: Final = 7 * 24 * 3600
"""A week. What is open for longer begins again before it ends, under nearly every schedule."""

MAX_SCHEDULE_LENGTH: Final = 128
"""Characters: each field fits as a list of several ranges, and to parse it costs nothing."""

SCHEDULE_PATTERN: Final = "^[0-9A-Za-z*/,#-]+( +[0-9A-Za-z*/,#-]+){4}$"
"""Five fields of the characters that schedules of cron are made of."""

TIME_ZONE_PATTERN: Final = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,3}$"
"""The form of names in the IANA database (https://data.iana.org/time-zones/theory.html#naming)."""

MAX_TIME_ZONE_LENGTH: Final = 64
"""Twice the longest name in the database."""


def has_five_fields(text: str) -> bool:
    """Whether ``text`` has the form of a schedule of cron. Whether it can be read is not asked here."""
    return len(text) <= MAX_SCHEDULE_LENGTH and has_form(text, SCHEDULE_PATTERN)


def is_time_zone_name(text: str) -> bool:
    """Whether ``text`` has the form of a name of a time zone. Whether it exists is not asked here."""
    return len(text) <= MAX_TIME_ZONE_LENGTH and has_form(text, TIME_ZONE_PATTERN)


class MaintenanceWindow(ApiModel):
    """A time that comes again and again, in which upgrades may begin."""

    schedule: Annotated[
        str,
        Field(max_length=256),
        Rule(
            f"self.size() <= {MAX_SCHEDULE_LENGTH} && self.matches('{SCHEDULE_PATTERN}')",
            "must be the five fields of cron (minute, hour, day of the month, month, day of the week), at "
            "most 128 characters, such as '0 22 * * 6' for Saturdays at 22:00",
            has_five_fields,
        ),
    ]
    """When the window begins: minute, hour, day of the month, month and day of the week of cron, such as 0 22
    * * 6, in `timeZone`. A start that the clocks skip is at the first instant after the change, one that
    they show twice is at the first of both. A string, required."""
    duration_seconds: Annotated[int, Field(strict=True, ge=LEAST_SECONDS, le=MOST_SECONDS)]
    """How long the window is open, as elapsed time. An upgrade that has begun does not end with it. Seconds,
    an integer, required."""
    time_zone: Annotated[
        str,
        Field(max_length=256),
        Rule(
            f"self.size() <= {MAX_TIME_ZONE_LENGTH} && self.matches('{TIME_ZONE_PATTERN}')",
            "must be the name of a time zone in the IANA database, such as 'Europe/Berlin' or 'Etc/UTC'",
            is_time_zone_name,
        ),
    ] = Field(default_factory=lambda: "Etc/UTC")
    """The time zone of `schedule`: a name of the IANA database, such as Europe/Berlin. A string, Etc/UTC if
    absent."""


class MaintenanceExclusion(ApiModel):
    """A time in which no upgrade begins, whatever the windows say."""

    start: SpecTime
    """When it begins. An RFC 3339 time such as 2026-12-20T00:00:00Z, required."""
    end: SpecTime
    """When it is over. After `start`. An RFC 3339 time such as 2027-01-03T00:00:00Z, required."""
    reason: str = Field(default_factory=str, max_length=MAX_REASON)
    """Why no upgrade begins then, for people who ask the gate. A string of at most 256 characters, empty if
    absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            # What is no time is the other rule's to refuse, and timestamp() would fail on it.
            f"!({is_spec_time('self.start')}) || !({is_spec_time('self.end')}) || "
            "timestamp(self.start) < timestamp(self.end)",
            "must be after `start`",
            lambda self: self.start < self.end,
            at=".end",
        ),
    )


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
    timeout_seconds: Timeout = Field(default_factory=lambda: 7200)
    """How long the Job may take, reboots included. Seconds, an integer, 7200 if absent."""


class ExternalActuator(ApiModel):
    """Another program that patches the machine."""

    timeout_seconds: Timeout = Field(default_factory=lambda: 7200)
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
    rejoin_timeout_seconds: Timeout = Field(default_factory=lambda: 1800)
    """How long an upgraded node may take to be Ready at its target before its upgrade has failed. Under the
    strategy Manual the plan uses it, and the slot of a node that was deleted ends after it. Seconds, an
    integer, 1800 if absent."""
    settle_timeout_seconds: Timeout = Field(default_factory=lambda: 1800)
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
