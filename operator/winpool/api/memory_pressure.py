"""What a pool asks of the memory detector: where it reads, what counts as pressure, and what follows.

The numbers of the detector get no schema default, since they are tuned: a default is stored in the object and
stays as it was. The limits of evictions do get one (``evictions``).
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.evictions import EvictionLimits
from winpool.api.model import ATOMIC, ApiModel
from winpool.api.quantity import Memory, bytes_of
from winpool.api.rules import Rule, Validation
from winpool.api.thresholds import CommitThresholds, PhysicalThresholds

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
        "series of windows_exporter, which has them. A string, required."
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
        description="Unknown: only the commit limit that the node reports counts. Fixed: the page file has "
        "`maxSize` and never grows. SystemManaged: Windows extends it up to `maxSize`. A string, required."
    )
    max_size: Memory | None = Field(
        default=None,
        description="The largest size of all page files of a node together. Required for Fixed, where 0 "
        "means that there is none, and for SystemManaged. An integer of bytes or a string such as 24Gi.",
    )

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
    ] = Field(
        default=(MemorySource(type=SourceType.KUBELET),),
        max_length=MAX_SOURCES,
        description="Where samples come from, the preferred first. The operator takes each value from the "
        "first source that has a fresh one. A list of at most 4, default [{type: Kubelet}].",
    )
    page_file: PageFile | None = Field(
        default=None,
        description="The page file of the nodes. If absent, its type is Unknown.",
    )
    commit: CommitThresholds | None = Field(
        default=None,
        description="When committed memory counts as pressure: all fields, or none. If absent, the "
        "operator's own values apply: 80 and 90 %, 1Gi, 120 s.",
    )
    physical: PhysicalThresholds | None = Field(
        default=None,
        description="When RAM counts as short: all fields, or none. Only the source Prometheus measures "
        "it. If absent, the operator's own values apply: 15, 10 and 5 %, 300 and 1000 reads per second.",
    )
    soft_grace_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] | None = Field(
        default=None,
        description="How long a node must be at Soft before the operator evicts a pod. Seconds, an integer, "
        "90 if absent.",
    )
    clear_after_seconds: Annotated[int, Field(strict=True, ge=60, le=3600)] | None = Field(
        default=None,
        description="How long a node must be clear of a level, by a margin, before the operator lowers the "
        "level. Seconds, an integer, 300 if absent.",
    )
    on_unattributed: OnUnattributed = Field(
        default_factory=lambda: OnUnattributed.REPORT,
        description="What to do if a node is under pressure and no pods explain it, so that evictions do not "
        "help. Report: the operator reports an issue. RequestUpgrade: in the modes Signal and Evict it also "
        "adds the annotation winpool.dev/upgrade-requested to the node, unless it has one. The node is then "
        "due for an upgrade, which restarts or replaces it. Needs `upgrade` in the spec. A string, Report if "
        "absent.",
    )
    eviction: EvictionLimits = Field(
        default=EvictionLimits(),
        description="Limits of evictions, and rules for pods. They apply in mode Evict.",
    )

    @property
    def grace_seconds(self) -> int:
        """How long a node is at Soft before a pod is evicted."""
        return DEFAULT_SOFT_GRACE_SECONDS if self.soft_grace_seconds is None else self.soft_grace_seconds

    @property
    def clear_seconds(self) -> int:
        """How long a node must be clear of a level before it is lowered."""
        return DEFAULT_CLEAR_AFTER_SECONDS if self.clear_after_seconds is None else self.clear_after_seconds
