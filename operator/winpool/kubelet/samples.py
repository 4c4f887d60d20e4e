"""Names every end of a poll, and reads what kubelets answer: memory, and the thresholds of their evictions.

Memory is in ``/stats/summary``, thresholds are in ``/configz``. What Windows kubelets really send is stranger
than the API says; the rules below have their examples in the tests. What is not in an answer is unknown, and
never 0.
https://pkg.go.dev/k8s.io/kubelet/pkg/apis/stats/v1alpha1

The sentence about an end has no names, no counts and no text from the answer. So it stays the same while its
cause lasts, and no answer can put words or a token into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from winpool.api.quantity import bytes_of
from winpool.api.text import read_moment
from winpool.model.pressure import LARGEST, MemorySample, PodUsage, commit_of_all


class Outcome(StrEnum):
    """How a poll of a kubelet, or a query of Prometheus, has ended. Only SAMPLED gives a sample."""

    SAMPLED = "Sampled"
    NO_ADDRESS = "NoAddress"
    REFUSED_ADDRESS = "RefusedAddress"
    NO_TOKEN = "NoToken"  # noqa: S105 - not a token
    NO_CONNECTION = "NoConnection"
    CERTIFICATE = "Certificate"
    TIMEOUT = "Timeout"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    REDIRECTED = "Redirected"
    SERVER_ERROR = "ServerError"
    TOO_LARGE = "TooLarge"
    UNREADABLE = "Unreadable"
    WRONG_NODE = "WrongNode"
    NO_NUMBERS = "NoNumbers"
    """It has answered, and nothing of the answer is a current number."""
    NO_SERIES = "NoSeries"
    """Prometheus has answered, and not about this node."""


KUBELET_SENTENCES: Final[Mapping[Outcome, str]] = {
    Outcome.SAMPLED: "The kubelet has sent a sample.",
    Outcome.NO_ADDRESS: (
        "The node reports no InternalIP that is an IP address, or no valid port of its kubelet. Check the "
        "status of the node, and the flag --node-ip of its kubelet."
    ),
    Outcome.REFUSED_ADDRESS: (
        "The operator does not send a token to the address that the node reports: it is that of the API "
        "server, or one that no kubelet of another machine has. Check the status of the node."
    ),
    Outcome.NO_TOKEN: (
        "The operator has no token for kubelets. Check that the ServiceAccount winpool-kubelet-reader "
        "exists, and that the operator may create tokens for it."
    ),
    Outcome.NO_CONNECTION: (
        "The operator cannot connect to the kubelet. Check that the node is up, and that network policies "
        "and firewalls permit connections from the operator to the port of the kubelet."
    ),
    Outcome.CERTIFICATE: (
        "The operator does not trust the certificate of the kubelet. Set the CA of the kubelets in the "
        "settings of the operator. The certificate must be for the address or the name of the node."
    ),
    Outcome.TIMEOUT: "The kubelet did not answer in time. Check the load of the node.",
    Outcome.UNAUTHORIZED: (
        "The kubelet does not accept the token of the ServiceAccount winpool-kubelet-reader. Set "
        "authentication.webhook.enabled to true in the configuration of the kubelet, and check that the "
        "kubelet reaches the API server, which reviews the token."
    ),
    Outcome.FORBIDDEN: (
        "The kubelet refuses the request. Grant the ServiceAccount winpool-kubelet-reader the right to get "
        "nodes/stats and nodes/configz."
    ),
    Outcome.REDIRECTED: (
        "The kubelet answers with a redirect, and the operator follows none. Check what listens on the port "
        "of the kubelet."
    ),
    Outcome.SERVER_ERROR: "The kubelet answers with an error. Check the log of the kubelet.",
    Outcome.TOO_LARGE: (
        "The answer of the kubelet is larger than 1 MiB. Check what listens on the port of the kubelet."
    ),
    Outcome.UNREADABLE: (
        "The operator cannot read the answer of the kubelet. Check what listens on the port of the kubelet."
    ),
    Outcome.WRONG_NODE: (
        "The answer is about another node. Check that no two nodes report the same InternalIP."
    ),
    Outcome.NO_NUMBERS: (
        "The kubelet answers without current numbers of the memory of the node. Check its log for errors of "
        "performance counters, and restart the kubelet."
    ),
}
"""What is wrong with a poll of a kubelet, and what to do."""

PROMETHEUS_SENTENCES: Final[Mapping[Outcome, str]] = {
    Outcome.SAMPLED: "Prometheus has sent samples.",
    Outcome.NO_TOKEN: (
        "The operator cannot read the token or password for Prometheus. Check that file of the data source "
        "in the settings of the operator: one line of printable ASCII without spaces."
    ),
    Outcome.NO_CONNECTION: (
        "The operator cannot connect to Prometheus. Check the URL of the data source in the settings of the "
        "operator, and that network policies permit the connection."
    ),
    Outcome.CERTIFICATE: (
        "The operator does not trust the certificate of Prometheus. Set the CA of the data source in the "
        "settings of the operator. The certificate must be for the host of the URL."
    ),
    Outcome.TIMEOUT: "Prometheus did not answer in time. Check its load.",
    Outcome.UNAUTHORIZED: (
        "Prometheus answers that credentials are missing or not valid. Set or renew the token file, "
        "basicAuth or headers of the data source. If it takes none of these, put a proxy before it that adds "
        "what it takes."
    ),
    Outcome.FORBIDDEN: (
        "Prometheus refuses the query. Grant the user of the token or password the right to query it. If the "
        "data source has neither, set one, or put a proxy before Prometheus that adds the credentials."
    ),
    Outcome.REDIRECTED: (
        "Prometheus answers with a redirect, and the operator follows none. Set the URL that it redirects "
        "to in the settings of the operator."
    ),
    Outcome.SERVER_ERROR: (
        "Prometheus answers with an error. Check its log, and that it answers queries: a Prometheus Agent "
        "answers none."
    ),
    Outcome.TOO_LARGE: (
        "Prometheus answers with more than 16 MiB or 20,000 series. Check that the matchers of the data "
        "source select windows_exporter alone, and remove long labels from its series."
    ),
    Outcome.UNREADABLE: (
        "The operator cannot read the answer. Check that the URL of the data source is that of the "
        "Prometheus HTTP API, without /api/v1."
    ),
    Outcome.NO_NUMBERS: (
        "Prometheus has no current numbers of the memory of the node. Check that it can scrape "
        "windows_exporter there, and that the collector memory is enabled."
    ),
    Outcome.NO_SERIES: (
        "Prometheus has no series of windows_exporter for the node, or more than one. Check that "
        "windows_exporter runs there and is scraped by one job, that its series have the labels in the "
        "matchers of the data source, and that `nodeLabel` is the label that has the name of the node."
    ),
}
"""What is wrong with the queries of a data source, and what to do. The other outcomes do not occur there."""


class PollError(Exception):
    """A poll gave no sample.

    The detail is what is known besides the sentence of ``outcome``: a few words for logs, of our own or of
    the TLS library, never from the answer.
    """

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(f"{outcome}: {detail}")
        self.outcome = outcome


_NUMBER: Final = re.compile(r"-?[0-9]{1,32}([.][0-9]{0,32})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
"""How Prometheus writes a finite number. ``float`` also reads what it never writes, such as ``1_000``."""


def reported_bytes(reported: float | None, *, is_zero_real: bool = False) -> int | None:
    """Return an amount of memory in bytes, None where it is unknown.

    Windows kubelets report 0 for what they do not measure, so 0 is unknown too. No machine, no pod that
    runs and no kernel uses 0 bytes. But of what is left of a machine nothing may be left: ``is_zero_real``.
    """
    if reported is None or not 0 <= reported < LARGEST or reported != int(reported):
        return None
    return int(reported) if reported or is_zero_real else None


def rate_of(reported: float | None) -> float | None:
    """Return a rate in events per second, None where it is unknown. 0 is a rate: nothing happens."""
    return reported if reported is not None and 0 <= reported < LARGEST else None


def number_in(text: str) -> float | None:
    """Read a number as Prometheus writes it; None for NaN, infinities, and what is no number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if abs(number) < LARGEST else None


SUMMARY_PATH: Final = "/stats/summary"
"""Needs the right to get nodes/stats."""

MAX_BODY_BYTES: Final = 2**20
"""Bytes of an answer. The summary of a node with 15 pods has 18 kB, and the largest nodes have 250 pods."""

COMMIT_CONTAINER: Final = "windows-global-commit-memory"
"""The name of the system container, SystemContainerWindowsGlobalCommitMemory of the Summary API."""

BROKEN: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises on foreign bytes: not JSON, wrong types, not UTF-8, or nested too deep."""

_Name = Annotated[str, msgspec.Meta(max_length=253)]
"""A name or UID of Kubernetes, which are no longer. Longer texts are not kept."""

_Time = Annotated[str, msgspec.Meta(max_length=64)]
"""A time of RFC 3339, which has at most 35 characters."""


MOST_PODS: Final = 1000
"""Pods of a node, of which a kubelet runs 110 by default. Two lists of a node are kept, so a hostile one with
the 37,000 that an answer has room for would take some 16 MB."""


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
    uid: _Name = ""


class _Pod(_Base):
    pod_ref: _PodRef | None = None
    memory: _Memory | None = None
    containers: list[_Container] | None = None


class _Summary(_Base):
    node: _Node


class _SummaryWithPods(_Base):
    node: _Node
    pods: Annotated[list[_Pod], msgspec.Meta(max_length=MOST_PODS)] | None = None


_summary: Final = msgspec.json.Decoder(_Summary)
_summary_with_pods: Final = msgspec.json.Decoder(_SummaryWithPods)


def parse_summary(
    body: bytes | bytearray, *, node: str, pods: bool = False
) -> tuple[MemorySample, dict[str, PodUsage] | None]:
    """Read the answer of the kubelet of ``node``: its sample, and its ``pods`` by their UIDs if asked.

    A kubelet before 1.31 has no commit container. It reports what is committed, and not the limit. The sample
    has the time of the older of its parts, so it is fresh only if all have advanced; without a time a part is
    unknown. A pod that is missing is unknown: HostProcess pods have no statistics.

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
    usage = _usage_of(told.pods or ()) if isinstance(told, _SummaryWithPods) else None
    memory = told.node.memory or _Memory()
    time = read_moment(memory.time)
    committed = available = limit = None
    if time is not None:
        committed, available = reported_bytes(memory.usage_bytes), reported_bytes(memory.available_bytes)
    if (commit := _commit_of(told.node.system_containers or ())) is not None:
        commit_time, committed, limit = commit
        time = commit_time if time is None else min(time, commit_time)
    sample = MemorySample(
        taken_at=None if time is None else time.timestamp(),
        commit_total=committed,
        commit_limit=limit,
        proxy_available=available,
        pods_commit=None if usage is None else commit_of_all(usage.values()),
    )
    return sample, usage


def _commit_of(containers: Iterable[_Container]) -> tuple[datetime, int, int] | None:
    """Return time, commit and limit of the one commit container; None if a part of it is unknown.

    The limit is what Windows can promise now: RAM and page file. It changes when the page file grows.
    """
    found = [each.memory for each in containers if each.name == COMMIT_CONTAINER]
    if len(found) != 1 or found[0] is None:
        return None
    time = read_moment(found[0].time)
    committed = reported_bytes(found[0].usage_bytes)
    # The kubelet computes it from the limit: 0 is a machine that can commit nothing more.
    available = reported_bytes(found[0].available_bytes, is_zero_real=True)
    if time is None or committed is None or available is None or committed + available >= LARGEST:
        return None
    return time, committed, committed + available


def _usage_of(told: Iterable[_Pod]) -> dict[str, PodUsage]:
    """Return the pods that have a UID, in the order of the UIDs. A UID that is there twice is of no pod."""
    found: dict[str, PodUsage | None] = {}
    for each in told:
        if each.pod_ref is not None and (uid := each.pod_ref.uid):
            memory = each.memory or _Memory()
            usage = PodUsage(_commit_of_pod(each), reported_bytes(memory.working_set_bytes))
            found[uid] = None if uid in found else usage
    return {uid: usage for uid, usage in sorted(found.items()) if usage is not None}


def _commit_of_pod(pod: _Pod) -> int | None:
    """Return what a pod has committed; None where it is unknown.

    A containerd without https://github.com/containerd/containerd/pull/12015 reports what the sandbox alone
    has committed. No pod has committed less than its containers, or than its private working set.
    """
    memory = pod.memory or _Memory()
    committed = reported_bytes(memory.usage_bytes)
    if committed is None:
        return None
    parts = [reported_bytes((each.memory or _Memory()).usage_bytes) for each in pod.containers or ()]
    known = sum(part for part in parts if part is not None)
    if known > committed:
        committed = reported_bytes(known) if None not in parts else None
    working_set = reported_bytes(memory.working_set_bytes) or 0
    return None if committed is None or committed < working_set else committed


CONFIGZ_PATH: Final = "/configz"
"""Needs the right to get nodes/configz, which kubelets ask for from 1.33 on."""

_SIGNAL: Final = "memory.available"

_PERCENTAGE: Final = re.compile(r"([0-9]{1,3})([.][0-9]{1,9})?%", re.ASCII)


class KubeletEviction(StrEnum):
    """Whether the kubelet has a threshold for memory.available.

    Before 1.31 a kubelet on Windows reads the threshold and never acts on it. Defaults must not be assumed:
    to list any hard threshold sets the others to zero, unless mergeDefaultEvictionSettings is true.
    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#hard-eviction-thresholds
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
