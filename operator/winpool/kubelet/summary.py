"""Reading ``/stats/summary`` of a kubelet: only the memory of node, commit container and pods is decoded.

What Windows kubelets really send is stranger than the API says; the rules below have their examples in
the tests. https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from winpool.api.moments import read_moment
from winpool.kubelet.amounts import LIMIT, bytes_of
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.samples import CommitMemory, KubeletSample, MachineMemory, PodMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

PATH: Final = "/stats/summary"
"""Needs the right to get nodes/stats."""

COMMIT_CONTAINER: Final = "windows-global-commit-memory"
"""The name of the system container, SystemContainerWindowsGlobalCommitMemory of the Summary API."""

BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises on foreign bytes: not JSON, wrong types, not UTF-8, or nested too deep."""

_Name = Annotated[str, msgspec.Meta(max_length=253)]
"""A name or UID of Kubernetes, which are no longer. Longer texts are not kept."""

_Time = Annotated[str, msgspec.Meta(max_length=64)]
"""A time of RFC 3339, which has at most 35 characters."""


MOST_PODS: Final = 1000
"""Pods of a node, of which a kubelet runs 110 by default. Five lists of a hot node are kept, so a hostile one
with the 37,000 that an answer has room for would take some 40 MB."""


class _Base(msgspec.Struct, rename="camel", gc=False):
    """Names as in JSON. Every field is optional, whatever the API promises."""


class _Memory(_Base):
    time: _Time | None = None
    available_bytes: int | float | None = None
    usage_bytes: int | float | None = None
    working_set_bytes: int | float | None = None


class _Container(_Base):
    name: str = ""
    memory: _Memory | None = None


class _Node(_Base):
    node_name: _Name = ""
    memory: _Memory | None = None
    system_containers: list[_Container] | None = None


class _PodRef(_Base):
    name: _Name = ""
    namespace: _Name = ""
    uid: _Name = ""


class _Pod(_Base):
    pod_ref: _PodRef | None = None
    memory: _Memory | None = None


class _Summary(_Base):
    node: _Node


class _SummaryWithPods(_Base):
    node: _Node
    pods: Annotated[list[_Pod], msgspec.Meta(max_length=MOST_PODS)] | None = None


_summary: Final = msgspec.json.Decoder(_Summary)
_summary_with_pods: Final = msgspec.json.Decoder(_SummaryWithPods)


def parse_summary(body: bytes | bytearray, *, node: str, pods: bool = False) -> KubeletSample:
    """Read the answer of the kubelet of ``node``, with its ``pods`` if asked.

    Raises PollError: UNREADABLE for what is no summary, WRONG_NODE for the summary of another node, which
    another machine at a reused address sends.
    """
    try:
        told: _Summary | _SummaryWithPods = (_summary_with_pods if pods else _summary).decode(body)
    except BROKEN:
        raise PollError(Outcome.UNREADABLE, "the answer is not a summary") from None
    if not told.node.node_name:
        raise PollError(Outcome.UNREADABLE, "the summary does not say of which node it is")
    if told.node.node_name != node:
        raise PollError(Outcome.WRONG_NODE, "the summary is of a node with another name")
    return KubeletSample(
        node=node,
        memory=_machine_memory(told.node.memory),
        commit=_commit_memory(told.node.system_containers or ()),
        pods=_pods(told.pods or ()) if isinstance(told, _SummaryWithPods) else None,
    )


def _machine_memory(told: _Memory | None) -> MachineMemory | None:
    """Return the memory of the machine; None without a time, since its age cannot be known then."""
    time = None if told is None else read_moment(told.time)
    if told is None or time is None:
        return None
    return MachineMemory(
        time=time,
        committed=bytes_of(told.usage_bytes),
        available=bytes_of(told.available_bytes),
        working_set=bytes_of(told.working_set_bytes),
    )


def _commit_memory(containers: Iterable[_Container]) -> CommitMemory | None:
    """Return the one commit container, None if a part of it is unknown. It has no working set."""
    found = [each.memory for each in containers if each.name == COMMIT_CONTAINER]
    if len(found) != 1 or found[0] is None:
        return None
    told = found[0]
    time, committed, available = (
        read_moment(told.time),
        bytes_of(told.usage_bytes),
        bytes_of(told.available_bytes),
    )
    if time is None or committed is None or available is None or committed + available >= LIMIT:
        return None
    return CommitMemory(time=time, committed=committed, limit=committed + available)


def _pods(told: Iterable[_Pod]) -> tuple[PodMemory, ...]:
    """Return the pods that have a UID, in the order of the UIDs. A UID that is there twice is of no pod."""
    found: dict[str, PodMemory | None] = {}
    for each in told:
        if each.pod_ref is not None and each.pod_ref.uid:
            uid = each.pod_ref.uid
            found[uid] = None if uid in found else _pod_memory(each.pod_ref, each.memory or _Memory())
    return tuple([pod for _, pod in sorted(found.items()) if pod is not None])


def _pod_memory(ref: _PodRef, told: _Memory) -> PodMemory:
    return PodMemory(
        uid=ref.uid,
        namespace=ref.namespace,
        name=ref.name,
        time=read_moment(told.time),
        working_set=bytes_of(told.working_set_bytes),
        committed=bytes_of(told.usage_bytes),
    )
