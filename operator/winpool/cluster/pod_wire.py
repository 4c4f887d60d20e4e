"""The shapes that are read from the JSON of pods; nothing else of it is read. For nodes, see ``wire``.

Of a pod of 5 to 20 kB a few hundred bytes are needed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.cluster.wire import ListOf


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. The records live for microseconds, without cycles, so ``gc`` is off."""


class Owner(_Base):
    """The part of meta/v1 OwnerReference that is read."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class PodAnnotations(_Base):
    """The one annotation that is read: the kubelet sets it on the mirror pods of static pods."""

    mirror: str | None = msgspec.field(default=None, name="kubernetes.io/config.mirror")


class PodMetadata(_Base):
    """The part of meta/v1 ObjectMeta that is read of a pod."""

    namespace: str = ""
    name: str = ""
    labels: dict[str, str] | None = None
    annotations: PodAnnotations | None = None
    owner_references: list[Owner] | None = None
    deletion_timestamp: str | None = None


class TolerationObject(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """core/v1 Toleration. Frozen, so that equal ones can be shared: most pods have the same."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodOS(_Base):
    """core/v1 PodOS."""

    name: str = ""


class PodSpec(_Base):
    """The part of core/v1 PodSpec that is read."""

    node_name: str | None = None
    os: PodOS | None = None
    priority_class_name: str | None = None
    tolerations: tuple[TolerationObject, ...] | None = None


class Waiting(_Base):
    """The part of core/v1 ContainerStateWaiting that is read."""

    reason: str | None = None
    message: str | None = None


class ContainerState(_Base):
    """The part of core/v1 ContainerState that is read."""

    waiting: Waiting | None = None


class ContainerStatus(_Base):
    """The part of core/v1 ContainerStatus that is read."""

    state: ContainerState | None = None


class PodCondition(_Base):
    """The part of core/v1 PodCondition that is read."""

    type: str = ""
    status: str = ""


class PodStatus(_Base):
    """The part of core/v1 PodStatus that is read."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[PodCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None


class PodObject(_Base):
    """core/v1 Pod."""

    metadata: PodMetadata
    spec: PodSpec
    status: PodStatus | None = None


class BoundSpec(_Base):
    """The part of a spec that says on which node a pod is."""

    node_name: str


class BoundPod(_Base):
    """A pod; only its node is read."""

    spec: BoundSpec


pod_list: Final = msgspec.json.Decoder(ListOf[PodObject])
pod_object: Final = msgspec.json.Decoder(PodObject)
bound_pod: Final = msgspec.json.Decoder(BoundPod)
