"""Reads what kubelets answer: memory in ``/stats/summary``, the settings of evictions in ``/configz``.

Numbers that others report, as amounts that can be computed with; everything else is unknown.

What a source reports about the memory of a node. None is unknown, and never 0.

All amounts are in bytes. Which of them can be trusted, and for what, is in the docstring of each.

Reading ``/configz`` of a kubelet: whether the kubelet itself evicts pods when memory runs out.

What is not in the answer is unknown. Defaults must not be assumed: to list any hard threshold sets the
others to zero, unless mergeDefaultEvictionSettings is true.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds

Reading ``/stats/summary`` of a kubelet: only the memory of node, commit container and pods is decoded.

What Windows kubelets really send is stranger than the API says; the rules below have their examples in
the tests. https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from winpool.api.quantity import bytes_of
from winpool.api.text import read_moment
from winpool.kubelet.outcome import Outcome, PollError

LIMIT: Final = 2**53
"""Amounts from here on are unknown. It is 8 PiB, more than Windows can use, and whole numbers below it are
exact as a float, which is what Prometheus stores."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,32}([.][0-9]{0,32})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
"""How Prometheus writes a finite number. ``float`` also reads what it never writes, such as ``1_000``."""


def reported_bytes(reported: float | None) -> int | None:
    """Return an amount of memory in bytes, None where it is unknown.

    Windows kubelets report 0 for what they do not measure, so 0 is unknown too. No machine, no pod that
    runs and no kernel uses 0 bytes.
    """
    if reported is None or not 0 < reported < LIMIT or reported != int(reported):
        return None
    return int(reported)


def rate_of(reported: float | None) -> float | None:
    """Return a rate in events per second, None where it is unknown. 0 is a rate: nothing happens."""
    return reported if reported is not None and 0 <= reported < LIMIT else None


def number_in(text: str) -> float | None:
    """Read a number as Prometheus writes it; None for NaN, infinities, and what is no number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if abs(number) < LIMIT else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineMemory:
    """``node.memory`` of the Summary API. ``time`` is the kubelet's own time of the measurement.

    ``committed`` is all memory that Windows has promised to processes (``usageBytes``, the counter Committed
    Bytes); it can be more than the machine has. ``working_set`` is the sum of the private working sets.
    ``available`` is computed: the RAM minus ``working_set``. It ignores shared memory, the kernel and the
    cache, so it is an upper bound.
    """

    time: datetime
    committed: int | None
    available: int | None
    working_set: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMemory:
    """The system container ``windows-global-commit-memory``, which kubelets from 1.31 on report.

    ``limit`` is what Windows can promise now: RAM and page file. It changes when the page file grows.
    """

    time: datetime
    committed: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodMemory:
    """The memory of a pod. ``time`` is the kubelet's own time of the measurement, None where it is unknown.

    ``working_set`` is the sum of the private working sets of its containers. ``committed`` is unknown by
    default: only kubelets with the feature gate PodAndContainerStatsFromCRI report it.
    """

    uid: str
    namespace: str
    name: str
    time: datetime | None
    working_set: int | None
    committed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletSample:
    """What the kubelet of a node reports. ``pods`` is None where they were not asked for.

    A pod that is missing in ``pods`` is unknown: HostProcess pods have no statistics.
    """

    node: str
    memory: MachineMemory | None
    commit: CommitMemory | None
    pods: tuple[PodMemory, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExporterSample:
    """What windows_exporter measures on a node, as Prometheus has stored it.

    ``time`` is when Prometheus has scraped it, in seconds since 1970 by the clock of Prometheus. ``age`` is
    how many seconds before the query that was, by the same clock; negative where the two clocks of a
    federation differ. ``available`` is standby, free and zeroed memory. Rates are per second.
    """

    node: str
    time: float
    age: float
    committed: int | None
    commit_limit: int | None
    available: int | None
    physical: int | None
    pool_nonpaged: int | None
    page_reads: float | None
    pages_written: float | None
    pages_repurposed: float | None


SUMMARY_PATH: Final = "/stats/summary"
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
        committed=reported_bytes(told.usage_bytes),
        available=reported_bytes(told.available_bytes),
        working_set=reported_bytes(told.working_set_bytes),
    )


def _commit_memory(containers: Iterable[_Container]) -> CommitMemory | None:
    """Return the one commit container, None if a part of it is unknown. It has no working set."""
    found = [each.memory for each in containers if each.name == COMMIT_CONTAINER]
    if len(found) != 1 or found[0] is None:
        return None
    told = found[0]
    time, committed, available = (
        read_moment(told.time),
        reported_bytes(told.usage_bytes),
        reported_bytes(told.available_bytes),
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
        working_set=reported_bytes(told.working_set_bytes),
        committed=reported_bytes(told.usage_bytes),
    )


CONFIGZ_PATH: Final = "/configz"
"""Needs the right to get nodes/configz, which kubelets ask for from 1.33 on."""

_SIGNAL: Final = "memory.available"

_PERCENTAGE: Final = re.compile(r"([0-9]{1,3})([.][0-9]{1,9})?%", re.ASCII)


class KubeletEviction(StrEnum):
    """Whether the kubelet has a threshold for memory.available.

    Before 1.31 a kubelet on Windows reads the threshold and never acts on it.
    """

    ARMED = "Armed"
    NOT_ARMED = "NotArmed"
    UNKNOWN = "Unknown"


class _Configuration(msgspec.Struct, rename="camel", gc=False):
    eviction_hard: dict[str, str] | None = None
    eviction_soft: dict[str, str] | None = None
    merge_default_eviction_settings: bool | None = None


class _Configz(msgspec.Struct, gc=False):
    kubeletconfig: _Configuration


_configz: Final = msgspec.json.Decoder(_Configz)


def parse_configz(body: bytes | bytearray) -> KubeletEviction:
    """Read the answer of a kubelet. Raises PollError (UNREADABLE) for what is no configuration."""
    try:
        told = _configz.decode(body).kubeletconfig
    except BROKEN:
        raise PollError(Outcome.UNREADABLE, "the answer is not the configuration of a kubelet") from None
    hard = _by_hard(told.eviction_hard, merged=told.merge_default_eviction_settings is True)
    if hard is not KubeletEviction.ARMED and _SIGNAL in (told.eviction_soft or {}):
        soft = _by(told.eviction_soft or {})
        return hard if soft is KubeletEviction.NOT_ARMED else soft
    return hard


def _by_hard(thresholds: Mapping[str, str] | None, *, merged: bool) -> KubeletEviction:
    if not thresholds:
        return KubeletEviction.UNKNOWN
    if _SIGNAL not in thresholds:
        return KubeletEviction.UNKNOWN if merged else KubeletEviction.NOT_ARMED
    return _by(thresholds)


def _by(thresholds: Mapping[str, str]) -> KubeletEviction:
    """Judge the threshold: a positive quantity, or a percentage.

    The kubelet ignores 0% and 100% (k8s.io/kubernetes: pkg/kubelet/eviction/helpers.go).
    """
    threshold = thresholds[_SIGNAL]
    percentage = _PERCENTAGE.fullmatch(threshold)
    if percentage is not None:
        percent = float(threshold[:-1])
        if percent > 100:
            return KubeletEviction.UNKNOWN
        return KubeletEviction.ARMED if 0 < percent < 100 else KubeletEviction.NOT_ARMED
    try:
        amount = bytes_of(threshold)
    except ValueError:
        return KubeletEviction.UNKNOWN
    if amount < 0:
        return KubeletEviction.UNKNOWN
    return KubeletEviction.ARMED if amount else KubeletEviction.NOT_ARMED
