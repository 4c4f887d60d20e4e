"""The shapes that are read of pods on nodes that may be upgraded, beside those of ``pod_wire``.

Most pods of a cluster are on other nodes. So these fields are passed over at first, and read where they are
needed: a part of a pod that is *raw* costs as little as one that is not read at all.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.api.keys import WINDOWS_BUILD_ANNOTATION
from winpool.cluster.pod_wire import PodAnnotations, PodMetadata, PodObject, PodSpec
from winpool.cluster.wire import Bounded, ListOf

ABSENT: Final = msgspec.Raw()


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class WorkAnnotations(PodAnnotations):
    """The annotations that are read. The second may be any text."""

    windows_build: str | None = msgspec.field(default=None, name=WINDOWS_BUILD_ANNOTATION)


class WorkMetadata(PodMetadata):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    annotations: WorkAnnotations | None = None


class WorkSpec(PodSpec):
    """The part of core/v1 PodSpec that is read, raw but for what is read of every pod."""

    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    topology_spread_constraints: msgspec.Raw = ABSENT
    volumes: msgspec.Raw = ABSENT
    containers: msgspec.Raw = ABSENT
    init_containers: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT
    overhead: msgspec.Raw = ABSENT
    resource_claims: msgspec.Raw = ABSENT
    scheduler_name: msgspec.Raw = ABSENT
    termination_grace_period_seconds: msgspec.Raw = ABSENT


class WorkObject(PodObject):
    """core/v1 Pod."""

    metadata: WorkMetadata
    spec: WorkSpec


Amounts = dict[str, str | int]
"""core/v1 ResourceList."""


class Resources(_Base):
    """The part of core/v1 ResourceRequirements that is read."""

    requests: Amounts | None = None


class Port(_Base):
    """The part of core/v1 ContainerPort that is read."""

    host_port: int | None = None


class Container(_Base):
    """The part of core/v1 Container that is read. ``restart_policy`` is that of a sidecar."""

    resources: Resources | None = None
    ports: list[Port] | None = None
    restart_policy: str | None = None


class Expression(_Base):
    """core/v1 NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Term(_Base):
    """core/v1 NodeSelectorTerm."""

    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(_Base):
    """core/v1 NodeSelector."""

    node_selector_terms: list[Term] | None = None


class NodeAffinity(_Base):
    """The part of core/v1 NodeAffinity that is read: what is only preferred keeps a pod from no node."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinity(_Base):
    """The part of core/v1 PodAffinity, and of PodAntiAffinity, that is read."""

    required: list[msgspec.Raw] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(_Base):
    """core/v1 Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Spread(_Base):
    """The part of core/v1 TopologySpreadConstraint that is read."""

    when_unsatisfiable: str = ""


containers: Final = msgspec.json.Decoder(list[Container] | None)
resources: Final = msgspec.json.Decoder(Resources | None)
amounts: Final = msgspec.json.Decoder(Amounts | None)
affinity: Final = msgspec.json.Decoder(Affinity | None)
spreads: Final = msgspec.json.Decoder(list[Spread] | None)
volumes: Final = msgspec.json.Decoder(list[dict[str, msgspec.Raw]] | None)
selector: Final = msgspec.json.Decoder(dict[str, str] | None)
claims: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
name: Final = msgspec.json.Decoder(Bounded | None)
number: Final = msgspec.json.Decoder(int | None)

work_list: Final = msgspec.json.Decoder(ListOf[WorkObject])
work_object: Final = msgspec.json.Decoder(WorkObject)
