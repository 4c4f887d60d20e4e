"""What a pool asks of the memory detector: where it reads, what counts as pressure, and what follows.

The lines of the detector get no schema default, since they are tuned: a default is stored in the object and
stays as it was (docs/concepts). The limits of evictions do get one: they are what an admin has agreed to.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.model import ATOMIC, ApiModel
from winpool.api.quantity import IntOrPercent, Memory, bytes_of
from winpool.api.rules import Rule, Validation
from winpool.api.validation import NamespaceName, PodSelector

DEFAULT_SOFT_GRACE_SECONDS: Final = 90
"""The example of the kubelet's documentation.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#soft-eviction-thresholds"""

DEFAULT_CLEAR_AFTER_SECONDS: Final = 300
"""The kubelet's ``evictionPressureTransitionPeriod``."""

DEFAULT_NODE_LABEL: Final = "node"
"""The label that kube-prometheus gives to the series of node exporters."""

MAX_SOURCES: Final = 4
MAX_RULES: Final = 16


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


class EvictionBehavior(StrEnum):
    """What a rule says of the pods that it matches."""

    NEVER = "Never"
    PREFER = "Prefer"


class PrometheusSource(ApiModel):
    """Which series of a Prometheus are those of the pool's nodes."""

    data_source: Annotated[
        str,
        Field(max_length=253),
        Rule(
            f"self.matches('{syntax.POOL_NAME_PATTERN}')",
            "must be the name of a data source from the operator's settings: at most 63 lowercase letters, "
            "digits and '-'",
            syntax.is_pool_name,
        ),
    ] = Field(
        description="Name of a data source from the operator's settings (`--data-sources-file`). A string, "
        "required."
    )
    node_label: Annotated[
        str,
        Field(max_length=253),
        Rule(
            f"self.matches('{syntax.PROMETHEUS_LABEL_PATTERN}')",
            "must be the name of a label in Prometheus: at most 128 letters, digits and '_', and no digit "
            "first",
            syntax.is_prometheus_label,
        ),
    ] = Field(
        default_factory=lambda: DEFAULT_NODE_LABEL,
        description="The label whose value is the name of the Kubernetes node. A string, node if absent.",
    )


class MemorySource(ApiModel):
    """One source of samples."""

    type: SourceType = Field(
        description="Kubelet: the Summary API of each kubelet, which has no paging rates. Prometheus: the "
        "series of windows_exporter, which have them. A string, required."
    )
    prometheus: PrometheusSource | None = Field(
        default=None, description="Which Prometheus. Required for the type Prometheus, and only there."
    )

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

    type: PageFileType = Field(
        description="Unknown: only the limit that the node measures counts. Fixed: the page file has "
        "`maxSize` and never grows. SystemManaged: Windows extends it up to `maxSize`. A string, required."
    )
    max_size: Memory | None = Field(
        default=None,
        description="Size of the page file at most. An integer of bytes or a string such as 24Gi. Required "
        "for Fixed and SystemManaged, and only there.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(self.type == 'Unknown') != has(self.maxSize)",
            "must be given when `type` is Fixed or SystemManaged, and only then",
            lambda self: (self.type is PageFileType.UNKNOWN) == (self.max_size is None),
            at=".maxSize",
        ),
    )

    @property
    def max_bytes(self) -> int | None:
        """The size at most, in bytes; None where it is unknown."""
        return None if self.max_size is None else bytes_of(self.max_size)


Percent = Annotated[int, Field(strict=True, ge=1, le=99)]
_Reads = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class CommitThresholds(ApiModel):
    """When committed memory counts as pressure. All four are required: half of a set is a mistake."""

    warning_used_percent: Percent = Field(
        description="Committed share of the commit limit from which a node is at Warning. Percent, an "
        "integer, required."
    )
    soft_used_percent: Percent = Field(
        description="The same for Soft: condition and taint, and an eviction after `softGraceSeconds`. "
        "Percent, an integer, required."
    )
    hard_headroom: Memory = Field(
        description="What is left of the commit limit below which a node is at Hard. An integer of bytes or "
        "a string such as 1Gi, required."
    )
    hard_eta_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        description="A node above Soft is also at Hard if the limit is reached within this time at the "
        "present rate. Seconds, an integer, required."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.warningUsedPercent < self.softUsedPercent",
            "must be above `warningUsedPercent`",
            lambda self: self.warning_used_percent < self.soft_used_percent,
            at=".softUsedPercent",
        ),
    )


class PhysicalThresholds(ApiModel):
    """When RAM counts as short. Little RAM alone is no harm: Soft and Hard need paging as well."""

    warning_available_percent: Percent = Field(
        description="Available share of RAM below which a node is at Warning. Percent, an integer, required."
    )
    soft_available_percent: Percent = Field(
        description="The same for Soft, together with `softReadsPerSecond`. Percent, an integer, required."
    )
    hard_available_percent: Percent = Field(
        description="The same for Hard, together with `hardReadsPerSecond`. Percent, an integer, required."
    )
    soft_reads_per_second: _Reads = Field(
        description="Read operations for page faults, per second, above which a node can be at Soft. An "
        "integer, required."
    )
    hard_reads_per_second: _Reads = Field(description="The same for Hard. An integer, required.")

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


class EvictionRule(ApiModel):
    """What the pool says of some pods. The first rule that matches a pod decides."""

    namespaces: Annotated[tuple[NamespaceName, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=16,
        description="Namespaces of the pods. A list of at most 16 strings, all namespaces if absent.",
    )
    pod_selector: PodSelector | None = Field(
        default=None, description="Labels of the pods. All pods of the namespaces if absent."
    )
    behavior: EvictionBehavior = Field(
        description="Never: the operator does not evict these pods. Prefer: it evicts them before others of "
        "the same priority. A string, required."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(has(self.namespaces) && self.namespaces.size() > 0) || has(self.podSelector)",
            "must have `namespaces`, `podSelector` or both",
            lambda self: bool(self.namespaces) or self.pod_selector is not None,
        ),
    )


class EvictionLimits(ApiModel):
    """How many pods and nodes evictions may concern, and which pods."""

    max_pods_per_node: Annotated[int, Field(strict=True, ge=1, le=10)] = Field(
        default=3,
        description="Evictions on one node within `periodSeconds`. An integer from 1 to 10, default 3.",
    )
    period_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default=600, description="How long an eviction counts. Seconds, an integer, default 600."
    )
    max_nodes: IntOrPercent = Field(
        default="5%",
        description="Nodes of the pool with an unfinished eviction at the same time. An integer or a "
        "percentage, which rounds down, and at least 1. Default 5%.",
    )
    max_pressured_nodes: IntOrPercent = Field(
        default="20%",
        description="If more nodes of the pool are under pressure or unknown, nothing is evicted, since the "
        "pods would only move the pressure to other nodes. An integer or a percentage, which rounds up. "
        "Default 20%.",
    )
    min_pod_age_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = Field(
        default=120,
        description="Younger pods are not evicted. Seconds, an integer, default 120.",
    )
    pod_rules: Annotated[tuple[EvictionRule, ...], ATOMIC] = Field(
        default_factory=tuple,
        alias="rules",
        max_length=MAX_RULES,
        description="Pods that are never evicted, or before others. The first rule that matches a pod "
        "decides. Pods that the operator never evicts stay so. A list of at most 16.",
    )


class MemoryPressure(ApiModel):
    """How memory pressure on the nodes of the pool is detected, and what the operator does about it."""

    mode: MemoryMode = Field(
        default=MemoryMode.OBSERVE,
        description="Observe: the operator reports pressure in the status of the pool. Signal: it also sets "
        "the condition WindowsMemoryPressure and a NoSchedule taint on the node. Evict: it also evicts pods "
        "there. A string, default Observe.",
    )
    sources: Annotated[
        tuple[MemorySource, ...],
        ATOMIC,
        Rule(
            "self.all(a, self.exists_one(b, a.type == b.type && has(a.prometheus) == has(b.prometheus) && "
            "(!has(a.prometheus) || a.prometheus.dataSource == b.prometheus.dataSource)))",
            "must name each source only once",
            lambda sources: len({each.name for each in sources}) == len(sources),
        ),
    ] = Field(
        default=(MemorySource(type=SourceType.KUBELET),),
        min_length=1,
        max_length=MAX_SOURCES,
        description="Where samples come from, the preferred first. Each value is taken from the first source "
        "that has a fresh one. A list of 1 to 4, default the kubelets.",
    )
    page_file: PageFile | None = Field(
        default=None,
        description="The page file of the nodes. If absent, it is Unknown.",
    )
    commit: CommitThresholds | None = Field(
        default=None,
        description="When committed memory counts as pressure. If absent, the operator's own values apply: "
        "80 and 90 %, 1Gi and 120 s.",
    )
    physical: PhysicalThresholds | None = Field(
        default=None,
        description="When RAM counts as short. If absent, the operator's own values apply: 15, 10 and 5 %, "
        "300 and 1000 reads per second.",
    )
    soft_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] | None = Field(
        default=None,
        description="How long a node is at Soft before a pod is evicted. Seconds, an integer, 90 if absent.",
    )
    clear_after_seconds: Annotated[int, Field(strict=True, ge=60, le=3600)] | None = Field(
        default=None,
        description="How long a node must be clear of a level before the level is lowered. Seconds, an "
        "integer, 300 if absent.",
    )
    eviction: EvictionLimits = Field(
        default=EvictionLimits(),
        description="Limits of evictions, and rules for pods. They apply in the mode Evict.",
    )

    @property
    def grace_seconds(self) -> int:
        """How long a node is at Soft before a pod is evicted."""
        return DEFAULT_SOFT_GRACE_SECONDS if self.soft_grace_seconds is None else self.soft_grace_seconds

    @property
    def clear_seconds(self) -> int:
        """How long a node must be clear of a level before it is lowered."""
        return DEFAULT_CLEAR_AFTER_SECONDS if self.clear_after_seconds is None else self.clear_after_seconds
