"""What a pool asks of the memory detector: where it reads, what counts as pressure, and what follows.

A set of thresholds is given as a whole or not at all. The numbers of the detector get no schema default,
since they are tuned: a default is stored in the object and stays as it was. The limits of evictions do get
one: what an admin has agreed to must not change with the version of the operator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import (
    MAX_NODES,
    POOL_NAME_PATTERN,
    PROMETHEUS_LABEL_PATTERN,
    Timeout,
    has_form,
    of_form,
)
from winpool.api.model import ATOMIC, ApiModel, Rule, Validation
from winpool.api.quantity import IntOrString, Memory, PositiveMemory, bytes_of
from winpool.api.selector import NamespaceName, PodSelector, names_pods

_MAX_READS: Final = 1_000_000
"""More than any disk reads in a second: what is above it is a slip."""

_Percent = Annotated[int, Field(strict=True, ge=1, le=99)]
_Reads = Annotated[int, Field(strict=True, ge=1, le=_MAX_READS)]


class CommitThresholds(ApiModel):
    """When committed memory counts as pressure."""

    warning_used_percent: _Percent
    """A node is at Warning if it has committed more than this share of what it can commit at most. Percent,
    an integer, required."""
    soft_used_percent: _Percent
    """The same for Soft. Above `warningUsedPercent`. Percent, an integer, required."""
    hard_headroom: PositiveMemory
    """A node is at Hard if it can commit less than this, or less than 3 % of what it can commit at most. An
    integer of bytes or a string such as 1Gi, required."""
    hard_eta_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)]
    """A node at Soft is at Hard if it commits more than it did in the last hour, and at the rate of the last
    minute can commit nothing more within this time. Seconds, an integer, required."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.warningUsedPercent < self.softUsedPercent",
            "must be above `warningUsedPercent`: each is the share that is committed",
            lambda self: self.warning_used_percent < self.soft_used_percent,
            at=".softUsedPercent",
        ),
    )


class PhysicalThresholds(ApiModel):
    """When RAM counts as short. Little RAM alone is no harm: Soft and Hard need paging as well."""

    warning_available_percent: _Percent
    """A node is at Warning if less than this share of its RAM is available. Percent, an integer, required."""
    soft_available_percent: _Percent
    """The same for Soft, if the node also reads more than `softReadsPerSecond` and writes pages out. Below
    `warningAvailablePercent`. Percent, an integer, required."""
    hard_available_percent: _Percent
    """The same for Hard, if the node also reads more than `hardReadsPerSecond`. Below `softAvailablePercent`.
    Percent, an integer, required."""
    soft_reads_per_second: _Reads
    """Read operations for page faults, per second, above which a node can be at Soft. An integer,
    required."""
    hard_reads_per_second: _Reads
    """The same for Hard. At least `softReadsPerSecond`. An integer, required."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.hardAvailablePercent < self.softAvailablePercent && "
            "self.softAvailablePercent < self.warningAvailablePercent",
            "must be in the order `hardAvailablePercent` below `softAvailablePercent` below "
            "`warningAvailablePercent`: each is the share of RAM that is still available",
            lambda self: (
                self.hard_available_percent < self.soft_available_percent < self.warning_available_percent
            ),
        ),
        Rule(
            "self.softReadsPerSecond <= self.hardReadsPerSecond",
            "must be at least `softReadsPerSecond`",
            lambda self: self.soft_reads_per_second <= self.hard_reads_per_second,
            at=".hardReadsPerSecond",
        ),
    )


MAX_EVICTIONS_PER_NODE: Final = 10
"""The annotation on the node has an entry for each, and at most 2 KiB."""

MAX_RULES: Final = 16


_PERCENT_PATTERN: Final = "^([1-9][0-9]?|100)%$"
_SHARE_SENTENCE: Final = f"must be a whole number from 1 to {MAX_NODES} or a percentage from '1%' to '100%'"


def is_share(value: int | str) -> bool:
    """Whether ``value`` is a number or a percentage of nodes above 0: the twin of the rule in CEL."""
    if isinstance(value, int):
        return 1 <= value <= MAX_NODES
    return has_form(value, _PERCENT_PATTERN)


NodeShare = Annotated[
    int | str,
    IntOrString(_SHARE_SENTENCE),
    Rule(
        f"type(self) == int ? self >= 1 && self <= {MAX_NODES} : string(self).matches('{_PERCENT_PATTERN}')",
        f"{_SHARE_SENTENCE}; to evict no pods, set `mode` to Signal",
        is_share,
    ),
]
"""A number of nodes, or a percentage of the nodes of the pool.

0 is refused: a share that rounds down is at least one node, so that a small pool has evictions too. An admin
who writes 0 wants none."""


class EvictionBehavior(StrEnum):
    """What a rule says of the pods that it matches."""

    NEVER = "Never"
    PREFER = "Prefer"


class EvictionRule(ApiModel):
    """What the pool says of some pods. The first rule that matches a pod decides."""

    namespaces: Annotated[tuple[NamespaceName, ...], ATOMIC] = Field(default_factory=tuple, max_length=16)
    """Namespaces of the pods. A list of at most 16 strings, all namespaces if absent."""
    pod_selector: PodSelector | None = None
    """Labels of the pods. All pods of the namespaces if absent."""
    behavior: EvictionBehavior
    """Never: the operator does not evict these pods. Prefer: it evicts them before others of the same
    priority. A string, required."""

    rules: ClassVar[tuple[Validation, ...]] = (names_pods("; to evict no pods, set `mode` to Signal"),)


class EvictionLimits(ApiModel):
    """How many pods and nodes evictions may concern, and which pods."""

    max_pods_per_node: Annotated[int, Field(strict=True, ge=1, le=MAX_EVICTIONS_PER_NODE)] = 3
    """Evictions on one node within `periodSeconds`, at most. An integer, default 3."""
    period_seconds: Timeout = 600
    """How long an eviction counts towards `maxPodsPerNode`. Seconds, an integer, default 600."""
    max_nodes: NodeShare = "5%"
    """Nodes of the pool that can have an unfinished eviction at the same time. An integer or a percentage,
    which rounds down to one node at least, default 5%."""
    max_pressured_nodes: NodeShare = "20%"
    """If more nodes of the pool than this are under pressure or unknown, the operator evicts nothing, because
    the pods would only move the pressure to other nodes. An integer or a percentage, which rounds up,
    default 20%."""
    min_pod_age_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = 120
    """The operator does not evict younger pods. Seconds, an integer, default 120."""
    pod_rules: Annotated[tuple[EvictionRule, ...], ATOMIC] = Field(
        default_factory=tuple, alias="rules", max_length=MAX_RULES
    )
    """Pods that the operator does not evict, or evicts before others. The first rule that matches a pod
    decides. No rule permits the eviction of pods that the operator never evicts, such as those of
    DaemonSets. A list of at most 16."""


DEFAULT_SOFT_GRACE_SECONDS: Final = 90
"""The example of the kubelet's documentation.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#soft-eviction-thresholds"""

DEFAULT_CLEAR_AFTER_SECONDS: Final = 300
"""The kubelet's ``evictionPressureTransitionPeriod``."""

DEFAULT_NODE_LABEL: Final = "node"
"""The label that kube-prometheus gives to the series of node exporters."""

MAX_SOURCES: Final = 4


class MemoryMode(StrEnum):
    """What the operator does about memory pressure. Each includes those before it."""

    OBSERVE = "Observe"
    SIGNAL = "Signal"
    EVICT = "Evict"


class SourceType(StrEnum):
    """Where samples come from."""

    KUBELET = "Kubelet"
    PROMETHEUS = "Prometheus"


class PageFileType(StrEnum):
    """What is known of the page files of the nodes."""

    UNKNOWN = "Unknown"
    FIXED = "Fixed"
    SYSTEM_MANAGED = "SystemManaged"


class OnUnattributed(StrEnum):
    """What becomes of a node whose memory no pod explains, so that no eviction helps."""

    REPORT = "Report"
    REQUEST_UPGRADE = "RequestUpgrade"


class PrometheusSource(ApiModel):
    """Which series of a Prometheus are those of the pool's nodes."""

    data_source: Annotated[
        str,
        Field(max_length=253),
        of_form(
            POOL_NAME_PATTERN,
            "must be the name of a data source from the operator's settings: at most 63 lowercase letters, "
            "digits and '-'",
        ),
    ]
    """Name of a data source from the operator's settings (`--data-sources-file`). A string, required."""
    node_label: Annotated[
        str,
        Field(max_length=253),
        of_form(
            PROMETHEUS_LABEL_PATTERN,
            "must be the name of a label in Prometheus: at most 128 letters, digits and '_', and no digit "
            "first",
        ),
    ] = Field(default_factory=lambda: DEFAULT_NODE_LABEL)
    """The label whose value is the name of the Kubernetes node. A string, node if absent."""


class MemorySource(ApiModel):
    """One source of samples."""

    type: SourceType
    """Kubelet: the Summary API of each kubelet, which has no paging rates. Prometheus: the series of
    windows_exporter, which has them. A string, required."""
    prometheus: PrometheusSource | None = None
    """Which Prometheus. Required for the type Prometheus, and only there."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(self.type == 'Prometheus') == has(self.prometheus)",
            "must be given when `type` is Prometheus, and only then",
            lambda self: (self.type is SourceType.PROMETHEUS) == (self.prometheus is not None),
            at=".prometheus",
        ),
    )

    @property
    def name(self) -> str:
        """The source as people and metrics name it: Kubelet, or Prometheus/<data source>."""
        return self.type if self.prometheus is None else f"{self.type}/{self.prometheus.data_source}"


class PageFile(ApiModel):
    """The page file of the nodes, which decides how much memory Windows can promise."""

    type: PageFileType
    """Unknown: only the commit limit that the node reports counts. Fixed: the page file has `maxSize` and
    never grows. SystemManaged: Windows extends it up to `maxSize`. A string, required."""
    max_size: Memory | None = None
    """The largest size of all page files of a node together. Required for Fixed, where 0 means that there is
    none, and for SystemManaged. An integer of bytes or a string such as 24Gi."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(self.type == 'Unknown') != has(self.maxSize)",
            "must be given when `type` is Fixed or SystemManaged, and only then",
            lambda self: (self.type is PageFileType.UNKNOWN) == (self.max_size is None),
            at=".maxSize",
        ),
        Rule(
            "self.type != 'SystemManaged' || !has(self.maxSize) || !isQuantity(string(self.maxSize)) || "
            "quantity(string(self.maxSize)).compareTo(quantity('0')) != 0",
            "must be above 0 if `type` is SystemManaged; for nodes without a page file, set `type` to Fixed",
            lambda self: self.type is not PageFileType.SYSTEM_MANAGED or self.max_bytes != 0,
            at=".maxSize",
        ),
    )

    @property
    def max_bytes(self) -> int | None:
        """The size at most, in bytes; None where it is unknown."""
        return None if self.max_size is None else bytes_of(self.max_size)


class MemoryPressure(ApiModel):
    """How memory pressure on the nodes of the pool is detected, and what the operator does about it."""

    mode: MemoryMode = MemoryMode.OBSERVE
    """Observe: the operator reports pressure in the status of the pool. Signal: it also sets the condition
    WindowsMemoryPressure and a NoSchedule taint on the node. Evict: it also evicts pods there. A string,
    default Observe."""
    sources: Annotated[
        tuple[MemorySource, ...],
        ATOMIC,
        Rule(
            "self.size() > 0",
            "must have at least one source; to read the kubelets, remove `sources`",
            lambda sources: len(sources) > 0,
        ),
        Rule(
            "self.all(a, self.exists_one(b, a.type == b.type && has(a.prometheus) == has(b.prometheus) && "
            "(!has(a.prometheus) || a.prometheus.dataSource == b.prometheus.dataSource)))",
            "must have each source only once: one of type Kubelet, and one for each `dataSource`",
            lambda sources: len({each.name for each in sources}) == len(sources),
        ),
    ] = Field(default=(MemorySource(type=SourceType.KUBELET),), max_length=MAX_SOURCES)
    """Where samples come from, the preferred first. The operator takes each value from the first source that
    has a fresh one. A list of at most 4, default [{type: Kubelet}]."""
    page_file: PageFile | None = None
    """The page file of the nodes. If absent, its type is Unknown."""
    commit: CommitThresholds | None = None
    """When committed memory counts as pressure: all fields, or none. If absent, the operator's own values
    apply: 80 and 90 %, 1Gi, 60 s."""
    physical: PhysicalThresholds | None = None
    """When RAM counts as short: all fields, or none. Only the source Prometheus measures it. If absent, the
    operator's own values apply: 15, 10 and 5 %, 300 and 1000 reads per second."""
    soft_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = Field(
        default_factory=lambda: DEFAULT_SOFT_GRACE_SECONDS
    )
    """How long the RAM of a node must be at Soft before the operator evicts a pod. For Soft by committed
    memory it evicts none. Seconds, an integer, 90 if absent."""
    clear_after_seconds: Annotated[int, Field(strict=True, ge=60, le=3600)] = Field(
        default_factory=lambda: DEFAULT_CLEAR_AFTER_SECONDS
    )
    """How long a node must be clear of a level, by a margin, before the operator lowers the level. Seconds,
    an integer, 300 if absent."""
    on_unattributed: OnUnattributed = Field(default_factory=lambda: OnUnattributed.REPORT)
    """What to do if a node is under pressure and no pods explain it, so that evictions do not help. Report:
    the operator reports an issue. RequestUpgrade: in the modes Signal and Evict it also adds the
    annotation winpool.dev/upgrade-requested to the node, unless it has one. The node is then due for an
    upgrade, which restarts or replaces it. Needs `upgrade` in the spec. A string, Report if absent."""
    eviction: EvictionLimits = EvictionLimits()
    """Limits of evictions, and rules for pods. They apply in mode Evict."""
