"""Lists the controllers that make lost pods again, to know when what a drain moved is back.

All are listed in the whole cluster: the pods of a node are of up to a hundred namespaces. Of each a few
hundred bytes are kept. A ReplicaSet without pods that wants none is left out, since a Deployment keeps ten of
them (``revisionHistoryLimit``), and so is one that is being deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Final

import msgspec

from winpool.kube.errors import StreamGarbled
from winpool.kube.lists import Listing, ListPage, ListReader, Pager
from winpool.kube.request import Send
from winpool.kube.wire import Base, Bounded, ListOf
from winpool.model.rollout import Controller, Workloads, mark_of


class _Owner(Base):
    """The part of meta/v1 OwnerReference that is read. The API server does not limit the length of a UID."""

    uid: str = ""
    controller: bool | None = None


class _Metadata(Base):
    namespace: Bounded = ""
    name: Bounded = ""
    uid: Bounded = ""
    owner_references: list[_Owner] | None = None
    deletion_timestamp: str | None = None


class _Spec(Base):
    """What is read of the specs of all kinds; the fields after ``paused`` are those of a Job."""

    replicas: int | None = None
    paused: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool | None = None
    pod_replacement_policy: Bounded | None = None


class _Condition(Base):
    type: str = ""
    status: str = ""


class _Status(Base):
    """What is read of the statuses of all kinds; the fields after ``ready_replicas`` are those of a Job."""

    replicas: int | None = None
    ready_replicas: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    terminating: int | None = None
    conditions: list[_Condition] | None = None


class _Item(Base):
    """The part that is read of a controller of any kind."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


PAGE_BYTES: Final = 8 * 1024 * 1024
"""A controller has 5 to 20 kB."""

LIST_SECONDS: Final = 10.0
"""For the list of one kind. Those of all kinds, one after the other, permit nothing after a minute
(``upgrade.settle``)."""

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

_decoder: Final = msgspec.json.Decoder(ListOf[_Item])


def _decode(body: bytes | bytearray, *, resource: str, kind: str, api_version: str) -> ListPage[Controller]:
    """Read one page. Raises StreamGarbled where one cannot be read: it may not be back (P4)."""
    reader = ListReader(_decoder, resource=resource, kind=f"{kind}List", api_version=api_version)
    page = reader.read(body)
    found = [_controller(item, kind, resource) for item in page.items or ()]
    kept = tuple(each for each in found if each is not None)
    return ListPage(kept, page.metadata.resource_version, page.metadata.continue_)


def _controller(item: _Item | msgspec.Raw, kind: str, resource: str) -> Controller | None:
    if not isinstance(item, _Item) or not (item.metadata.namespace and item.metadata.uid):
        raise StreamGarbled(f"list {resource}: one that cannot be read")
    metadata, spec, status = item.metadata, item.spec or _Spec(), item.status or _Status()
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


def _decoder_of(
    resource: str, kind: str, api_version: str
) -> Callable[[bytes | bytearray], ListPage[Controller]]:
    return partial(_decode, resource=resource, kind=kind, api_version=api_version)


LISTINGS: Final = (
    # ReplicaSets before Deployments: the owner of one that was listed is then listed too.
    Listing(
        resource="replicasets",
        collection="/apis/apps/v1/replicasets",
        decode=_decoder_of("replicasets", REPLICA_SET, "apps/v1"),
        page_bytes=PAGE_BYTES,
    ),
    Listing(
        resource="deployments",
        collection="/apis/apps/v1/deployments",
        decode=_decoder_of("deployments", "Deployment", "apps/v1"),
        page_bytes=PAGE_BYTES,
    ),
    Listing(
        resource="statefulsets",
        collection="/apis/apps/v1/statefulsets",
        decode=_decoder_of("statefulsets", "StatefulSet", "apps/v1"),
        page_bytes=PAGE_BYTES,
    ),
    Listing(
        resource="replicationcontrollers",
        collection="/api/v1/replicationcontrollers",
        decode=_decoder_of("replicationcontrollers", "ReplicationController", "v1"),
        page_bytes=PAGE_BYTES,
    ),
    Listing(
        resource="jobs",
        collection="/apis/batch/v1/jobs",
        decode=_decoder_of("jobs", JOB, "batch/v1"),
        page_bytes=PAGE_BYTES,
    ),
)


class _Kept:
    """The controllers of all lists, in bounded memory. Of a namespace with too many none is kept."""

    def __init__(self) -> None:
        self.left_out: set[str] = set()
        self._found: dict[str, dict[str, Controller]] = {}
        self._sizes: Counter[str] = Counter()

    def keep(self, controllers: Iterable[Controller]) -> tuple[Controller, ...]:
        """Keep ``controllers``; return none of them, so that no one else keeps them.

        One that comes again, in a list that begins again, replaces what it was.
        """
        for each in controllers:
            namespace = each.name.partition("/")[0]
            if namespace in self.left_out:
                continue
            own, mark = self._found.setdefault(namespace, {}), mark_of(each.uid)
            if mark not in own:
                self._sizes[namespace] += OF_EACH + len(each.name) + len(each.uid) + len(each.owner_uid)
            own[mark] = each
        size = self._sizes.total()
        if size > MOST_OF_ALL:
            self._make_room(size)
        return ()

    def _make_room(self, size: int) -> None:
        """Drop the namespaces with the most, until there is room for some pages.

        So it is not done again for each page: a cluster may have very many namespaces.
        """
        for largest, own in self._sizes.most_common():
            if size <= MOST_OF_ALL - ROOM:
                break
            size -= own
            self.left_out.add(largest)
            del self._sizes[largest], self._found[largest]

    def all(self) -> dict[str, Controller]:
        """Return what is kept, by mark."""
        return {mark: each for own in self._found.values() for mark, each in own.items()}


class WorkloadLister:
    """Lists the controllers of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pagers = [Pager(send, each) for each in LISTINGS]

    async def list(self, *, started: datetime, began: float) -> Workloads:
        """Return all of them, by lists that begin now, at ``started``. Raises ApiErrors."""
        kept = _Kept()
        for pager in self._pagers:
            await pager.collect_within(LIST_SECONDS, lambda page: kept.keep(page.items))
        found = kept.all()
        marks = {each.title: mark for mark, each in found.items()}
        return Workloads(started, began, found, marks, frozenset(kept.left_out))
