"""The shapes that are read of the pods of a node under memory pressure, and of PodDisruptionBudgets.

For pods in general, see ``pod_wire``: of those here other fields are needed, and of few pods.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.cluster.pod_wire import Owner
from winpool.cluster.wire import Bounded, ListOf


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class VictimAnnotations(_Base):
    """The two annotations that are read.

    The kubelet sets the first on the mirror pods of static pods. The second may be any text.
    """

    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")
    deletion_cost: str | None = msgspec.field(default=None, name="controller.kubernetes.io/pod-deletion-cost")


class VictimMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    namespace: Bounded = ""
    name: Bounded = ""
    uid: Bounded = ""
    labels: dict[str, str] | None = None
    annotations: VictimAnnotations | None = None
    owner_references: list[Owner] | None = None
    creation_timestamp: Bounded | None = None
    deletion_timestamp: Bounded | None = None


class WindowsOptions(_Base):
    """The part of core/v1 WindowsSecurityContextOptions that is read."""

    host_process: bool | None = None


class SecurityContext(_Base):
    """The part of core/v1 SecurityContext, and of PodSecurityContext, that is read."""

    windows_options: WindowsOptions | None = None


class Requests(_Base):
    """The part of the requests of core/v1 ResourceRequirements that is read."""

    memory: Bounded | int | None = None


class Resources(_Base):
    """The part of core/v1 ResourceRequirements that is read."""

    requests: Requests | None = None


class VictimContainer(_Base):
    """The part of core/v1 Container that is read. ``restart_policy`` is that of a sidecar."""

    name: Bounded = ""
    resources: Resources | None = None
    security_context: SecurityContext | None = None
    restart_policy: str | None = None


class VictimSpec(_Base):
    """The part of core/v1 PodSpec that is read."""

    node_name: Bounded = ""
    priority: int | None = None
    termination_grace_period_seconds: int | None = None
    security_context: SecurityContext | None = None
    resources: Resources | None = None
    containers: list[VictimContainer] | None = None
    init_containers: list[VictimContainer] | None = None
    ephemeral_containers: list[VictimContainer] | None = None


class ContainerStatus(_Base):
    """The part of core/v1 ContainerStatus that is read. ``resources`` are those that the node has granted."""

    name: Bounded = ""
    resources: Resources | None = None


class VictimStatus(_Base):
    """The part of core/v1 PodStatus that is read."""

    phase: Bounded | None = None
    resources: Resources | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class VictimPod(_Base):
    """core/v1 Pod."""

    metadata: VictimMetadata
    spec: VictimSpec
    status: VictimStatus | None = None


class SelectorRequirementObject(_Base):
    """meta/v1 LabelSelectorRequirement."""

    key: Bounded = ""
    operator: Bounded = ""
    values: list[str] | None = None


class LabelSelectorObject(_Base):
    """meta/v1 LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirementObject] | None = None


class BudgetMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a budget."""

    namespace: Bounded = ""
    name: Bounded = ""
    generation: int = 0


class BudgetSpec(_Base):
    """The part of policy/v1 PodDisruptionBudgetSpec that is read."""

    selector: LabelSelectorObject | None = None
    unhealthy_pod_eviction_policy: Bounded | None = None


class BudgetStatus(_Base):
    """The part of policy/v1 PodDisruptionBudgetStatus that is read."""

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0


class BudgetObject(_Base):
    """policy/v1 PodDisruptionBudget."""

    metadata: BudgetMetadata
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


victim_list: Final = msgspec.json.Decoder(ListOf[VictimPod])
budget_list: Final = msgspec.json.Decoder(ListOf[BudgetObject])
