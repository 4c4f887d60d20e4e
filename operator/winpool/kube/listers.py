"""Lists what no one watches: RuntimeClasses, DaemonSets, VolumeAttachments, and the controllers of pods.

Each is listed in the whole cluster, since the API server selects none of them by what is asked for, and of
each object a few hundred bytes are kept at most.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.api.text import grouped
from winpool.kube import wire
from winpool.kube.errors import TooLarge
from winpool.kube.lists import Kind, Listing, ListPage, NamespaceStore, Pager
from winpool.kube.pods import placement_of
from winpool.kube.request import Send
from winpool.kube.wire import BROKEN, Base, Bounded, ObjectMeta
from winpool.model.pods import DaemonSet, RuntimeClass, RuntimeClasses
from winpool.model.rollout import Attachments, Controller, Workloads, mark_of
from winpool.model.survey import daemon_set_place

LIST_SECONDS: Final = 10.0
"""For the whole list of a kind. A pass over all pods ends with that of RuntimeClasses, of which clusters have
a handful. The surveys of the pods that are listed meanwhile wait for that of DaemonSets, and permit nothing
after a minute (``model.snapshot``). The lists of all kinds of controllers, one after the other, permit
nothing after a minute either (``upgrade.settle``)."""

ATTACHMENTS_SECONDS: Final = 15.0
"""For the whole list of VolumeAttachments. What it says counts from its begin."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""A DaemonSet, as any controller, has 5 to 20 kB."""


# RuntimeClasses, to know which nodes may take the pods that replace those of a drained node.


class _RuntimeClass(Base):
    """The part of node.k8s.io/v1 RuntimeClass that is read.

    ``scheduling`` has ``nodeSelector`` and ``tolerations`` as the spec of a pod has them.
    """

    metadata: ObjectMeta
    scheduling: wire.PodSpec | None = None


def _runtime_class(item: _RuntimeClass) -> tuple[str, RuntimeClass | None]:
    if not item.metadata.name:
        raise ValueError("it has no name")
    placement = placement_of(item.scheduling or wire.PodSpec())
    return item.metadata.name, RuntimeClass(*placement) if placement else None


RUNTIME_CLASSES: Final = Kind(
    _RuntimeClass,
    _runtime_class,
    resource="runtimeclasses",
    kind="RuntimeClass",
    api_version="node.k8s.io/v1",
).listing


class RuntimeClassLister:
    """Lists the RuntimeClasses of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, RUNTIME_CLASSES)

    async def list(self) -> RuntimeClasses:
        """Return all of them within LIST_SECONDS. Raises ApiErrors."""
        found, _ = await self._pager.collect_within(LIST_SECONDS, lambda page: page.items)
        return dict(found)


# DaemonSets that are made for Windows nodes, to find those whose pods a taint keeps away.
#
# No pod shows that. For a node with a taint that a DaemonSet does not tolerate it creates none, so the agent
# is missing without a word (https://github.com/rancher/rancher/issues/22857). A DaemonSet without a label or
# a field that names Windows is left out: most are made for Linux, and a taint is there to keep them away.


class _Template(Base):
    spec: wire.PodSpec


class _DaemonSetSpec(Base):
    template: _Template


class _DaemonSet(Base):
    """The part of apps/v1 DaemonSet that is read."""

    metadata: ObjectMeta
    spec: _DaemonSetSpec


MOST_DAEMON_SETS: Final = 128
"""DaemonSets for Windows nodes, those of kube-system first. Clusters have about ten. Each is compared with
every node, so that anyone who may create DaemonSets could otherwise hold up the operator."""

_daemon_set: Final = msgspec.json.Decoder(_DaemonSet)


def _for_windows(item: msgspec.Raw) -> DaemonSet | None:
    """Read one that is made for Windows nodes. One that cannot be read is left out."""
    try:
        found = _daemon_set.decode(item)
        placement = placement_of(found.spec.template.spec)
    except BROKEN:
        return None
    metadata, os = found.metadata, found.spec.template.spec.os
    if placement is None or metadata.deletion_timestamp is not None:
        return None
    labels, tolerations = placement
    if any(each.operator == "Exists" and not each.key and not each.effect for each in tolerations):
        return None  # it tolerates all, as most agents do
    if (OS_LABEL, OS_WINDOWS) not in labels and (os is None or os.name != OS_WINDOWS):
        return None
    return DaemonSet(f"{metadata.namespace}/{metadata.name}", labels, tolerations)


_DAEMON_SETS: Final = Kind(
    msgspec.Raw, _for_windows, resource="daemonsets", kind="DaemonSet", api_version="apps/v1"
)

DAEMON_SETS: Final = replace(_DAEMON_SETS.listing, page_bytes=PAGE_BYTES)


class DaemonSetLister:
    """Lists the DaemonSets of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, DAEMON_SETS)

    async def list(self) -> tuple[DaemonSet, ...]:
        """Return those made for Windows nodes, MOST_DAEMON_SETS at most. Raises ApiErrors."""
        kept: dict[str, DaemonSet] = {}

        def keep(page: ListPage[DaemonSet]) -> tuple[DaemonSet, ...]:
            kept.update((each.name, each) for each in page.items)
            for name in sorted(kept, key=daemon_set_place)[MOST_DAEMON_SETS:]:
                del kept[name]
            return ()

        await self._pager.collect_within(LIST_SECONDS, keep)
        return tuple(kept.values())


# VolumeAttachments, to know when the volumes of a drained node are detached. They are written by the control
# plane alone.


class _Source(Base):
    persistent_volume_name: Bounded | None = None


class _AttachmentSpec(Base):
    node_name: Bounded = ""
    source: _Source | None = None


class _Attachment(Base):
    """The part of storage.k8s.io/v1 VolumeAttachment that is read."""

    metadata: ObjectMeta
    spec: _AttachmentSpec


MOST_ATTACHMENTS: Final = 200_000
"""Of the cluster: for each of 5,000 nodes 40, which is more than most machines can attach. They take 300
bytes each."""


class Attachment(NamedTuple):
    """A VolumeAttachment: its name, its node, and its volume."""

    name: str
    node: str
    volume: str


def _attachment(item: _Attachment) -> Attachment:
    name, source = item.metadata.name, item.spec.source or _Source()
    if not (name and item.spec.node_name):
        raise ValueError("it has no name, or no node")
    return Attachment(name, item.spec.node_name, source.persistent_volume_name or name)


ATTACHMENTS: Final = Kind(
    _Attachment,
    _attachment,
    resource="volumeattachments",
    kind="VolumeAttachment",
    api_version="storage.k8s.io/v1",
).listing


class AttachmentLister:
    """Lists the VolumeAttachments of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, ATTACHMENTS)

    async def list(self, *, started: datetime, began: float) -> Attachments:
        """Return all of them, by a list that begins now, at ``started``. Raises ApiErrors."""
        kept: dict[str, tuple[str, str]] = {}

        def keep(page: ListPage[Attachment]) -> tuple[Attachment, ...]:
            kept.update((each.name, (each.node, each.volume)) for each in page.items)
            if len(kept) > MOST_ATTACHMENTS:
                raise TooLarge(f"list volumeattachments: there are more than {MOST_ATTACHMENTS}")
            return ()

        await self._pager.collect_within(ATTACHMENTS_SECONDS, keep)
        volumes = {node: tuple(sorted(each)) for node, each in grouped(kept.values()).items()}
        return Attachments(started, began, volumes)


# The controllers that make lost pods again, to know when what a drain moved is back.
#
# The pods of a node are of up to a hundred namespaces. A ReplicaSet without pods that wants none is left out,
# since a Deployment keeps ten of them (``revisionHistoryLimit``), and so is one that is being deleted.


class _Spec(Base):
    """What is read of the specs of all kinds; the fields after ``paused`` are those of a Job."""

    replicas: int | None = None
    paused: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    pod_replacement_policy: Bounded | None = None


class _Status(Base):
    """What is read of the statuses of all kinds; the fields after ``ready_replicas`` are those of a Job."""

    replicas: int | None = None
    ready_replicas: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    terminating: int | None = None
    conditions: list[wire.Condition] | None = None


class _Controller(Base):
    """The part that is read of a controller of any kind."""

    metadata: ObjectMeta
    spec: _Spec | None = None
    status: _Status | None = None


OF_EACH: Final = 512
"""Bytes that a controller takes in memory beside the characters of its texts."""

MOST_OF_ALL: Final = 32 * 1024 * 1024
"""The size of what is kept: of fifty thousand controllers. Beyond it the namespaces with the most are left
out, so that no one can have those of others left out."""

ROOM: Final = MOST_OF_ALL // 8
"""What is free after that: room for several pages of 500."""

_LONGEST_UID: Final = 64
"""Those of Kubernetes have 36 characters. What has more is no UID of a controller that is listed."""

_FAILED: Final = "Failed"
"""The value of ``podReplacementPolicy`` with which a pod is replaced only once it has ended (KEP-3939)."""

_OVER: Final = frozenset({"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"})
"""The conditions of a Job that makes no more pods."""

JOB: Final = "Job"
REPLICA_SET: Final = "ReplicaSet"


def _controller(item: _Controller, *, kind: str) -> Controller | None:
    metadata, spec, status = item.metadata, item.spec or _Spec(), item.status or _Status()
    if not (metadata.namespace and metadata.uid):
        raise ValueError("it has no namespace, or no UID")
    wanted = _wanted_of_job(spec, status) if kind == JOB else _or_one(spec.replicas)
    if metadata.deletion_timestamp is not None or (
        kind == REPLICA_SET and not wanted and not status.replicas
    ):
        return None
    owners = (each.uid for each in metadata.owner_references or () if each.controller)
    owner = next(owners, "")
    return Controller(
        kind,
        f"{metadata.namespace}/{metadata.name}",
        metadata.uid,
        owner if len(owner) <= _LONGEST_UID else "",
        wanted,
        (status.ready if kind == JOB else status.ready_replicas) or 0,
        bool(spec.paused or spec.suspend),
    )


def _or_one(number: int | None) -> int:
    """Return the number of a field that is 1 where it is absent."""
    return 1 if number is None else number


def _wanted_of_job(spec: _Spec, status: _Status) -> int:
    """Return how many pods a Job is to have now, without those that wait for their predecessors to end.

    By the rules of ``manageJob`` in k8s.io/kubernetes, pkg/controller/job: one without ``completions`` makes
    no more pods once one of them has succeeded.
    """
    if any(each.type in _OVER and each.status == "True" for each in status.conditions or ()):
        return 0
    wanted, succeeded = _or_one(spec.parallelism), status.succeeded or 0
    if spec.completions is not None:
        wanted = min(wanted, spec.completions - succeeded)
    elif succeeded:
        return 0
    waiting = status.terminating or 0 if spec.pod_replacement_policy == _FAILED else 0
    return max(0, wanted - waiting)


CONTROLLERS: Final = (
    # ReplicaSets before Deployments: the owner of one that was listed is then listed too.
    ("replicasets", REPLICA_SET, "apps/v1"),
    ("deployments", "Deployment", "apps/v1"),
    ("statefulsets", "StatefulSet", "apps/v1"),
    ("replicationcontrollers", "ReplicationController", "v1"),
    ("jobs", JOB, "batch/v1"),
)


def _listing(resource: str, kind: str, api_version: str) -> Listing[ListPage[Controller]]:
    keep = partial(_controller, kind=kind)
    found = Kind(_Controller, keep, resource=resource, kind=kind, api_version=api_version)
    return replace(found.listing, page_bytes=PAGE_BYTES)


LISTINGS: Final = tuple(_listing(*each) for each in CONTROLLERS)


def _size(each: Controller) -> int:
    return OF_EACH + len(each.name) + len(each.uid) + len(each.owner_uid)


class WorkloadLister:
    """Lists the controllers of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pagers = [Pager(send, each) for each in LISTINGS]

    async def list(self, *, started: datetime, began: float) -> Workloads:
        """Return all of them, by lists that begin now, at ``started``. Raises ApiErrors."""
        kept = NamespaceStore(_size, most=MOST_OF_ALL, free=ROOM)

        def keep(page: ListPage[Controller]) -> tuple[Controller, ...]:
            for each in page.items:
                kept.keep(each.name.partition("/")[0], mark_of(each.uid), each)
            return ()

        for pager in self._pagers:
            await pager.collect_within(LIST_SECONDS, keep)
        found = dict(kept.items())
        marks = {each.title: mark for mark, each in found.items()}
        return Workloads(started, began, found, marks, frozenset(kept.left_out))
