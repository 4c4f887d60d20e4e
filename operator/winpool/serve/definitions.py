"""Lists all metrics, for /metrics and ``docs/reference/metrics.md``: what is not in it is not served.

Values of labels are in CamelCase, as the API and ``kubectl winpool`` write them, also those that only metrics
have. ``verb``, ``resource`` and ``code`` are as in Kubernetes' own metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Literal, get_args

import msgspec

from winpool.api.conditions import ConditionType, Reason
from winpool.api.spec import Mode
from winpool.api.status import HELD_STATES
from winpool.api.upgrade import Gate, Trigger, UpgradeState
from winpool.loops import PassResult
from winpool.model.memory_report import LevelName
from winpool.model.pool import SurpriseKind
from winpool.model.pressure import Axis
from winpool.serve.access import Result
from winpool.status.status import BLOCKED_BY, UNKNOWN

Labels = tuple[str, ...]
Kind = Literal["gauge", "counter", "histogram"]


class Distribution(msgspec.Struct, frozen=True):
    """The value of a histogram: how many were at most so large, by the bound of the bucket, and their sum.

    The last bound is "+Inf".
    """

    buckets: tuple[tuple[str, float], ...]
    total: float


Value = float | Distribution


@dataclass(frozen=True, slots=True)
class Definition:
    """A metric: its name without the ``_total`` of counters, its labels, and what it means.

    The first label of a metric about pools is ``pool``, the pool's name. ``values`` has all values of each
    label but those that are names, versions or words of Kubernetes' own metrics.
    """

    name: str
    kind: Kind
    labels: Labels
    help: str
    values: Mapping[str, tuple[str, ...]] = field(compare=False)


def _metric(kind: Kind, metric: str, meaning: str, **values: Iterable[str]) -> Definition:
    """Return a row of the table; ``metric`` is its name, with labels in braces as Prometheus writes them."""
    name, _, labels = metric.rstrip("}").partition("{")
    told = {label: tuple(each) for label, each in values.items()}
    return Definition(name, kind, tuple(labels.split(",")) if labels else (), meaning, told)


_gauge = partial(_metric, "gauge")
_counter = partial(_metric, "counter")
_histogram = partial(_metric, "histogram")


NODES: Final = _gauge(
    "winpool_nodes{pool,state}",
    "Nodes of the pool by state: Selected, Ready, UpToDate, UpToDateAndReady, Available, UpgradeDue (known "
    "to run another release or an older revision of Windows than the spec asks for), Pressured (under memory "
    "pressure). The states overlap.",
    state=("Selected", "Ready", "UpToDate", "UpToDateAndReady", "Available", "UpgradeDue", "Pressured"),
)
NODES_BY_BUILD: Final = _gauge(
    "winpool_nodes_by_build{pool,build,os_version}",
    "Nodes of the pool by build of Windows, for the ten builds with the most nodes; 'Other' is the rest. "
    "os_version is empty where the build is not known.",
)
SUPPORT_END: Final = _gauge(
    "winpool_os_support_end_timestamp_seconds{pool,os_version}",
    "Unix time at which the last day ends on which the Windows Server release is supported, for releases "
    "that nodes of the pool run.",
)
RESERVED_MEMORY_MISMATCHED: Final = _gauge(
    "winpool_reserved_memory_mismatched_nodes{pool}",
    "Nodes of the pool whose kubelet holds back another amount of memory than the pool declares. 0 where it"
    " declares none.",
)
NODES_BY_MEMORY_LEVEL: Final = _gauge(
    "winpool_nodes_by_memory_level{pool,axis,level}",
    "Nodes of the pool by axis of memory (Commit or Physical) and its level: Normal, Warning, ProxyOnly, "
    "Soft, Hard or Unknown. Only for pools that have memoryPressure.",
    axis=Axis,
    level=(*get_args(LevelName), UNKNOWN),
)
SYSTEMIC_PRESSURE: Final = _gauge(
    "winpool_memory_systemic_pressure{pool}",
    "1 where more nodes of the pool are under memory pressure, or give no samples, than maxPressuredNodes "
    "allows, else 0. Only for pools that have memoryPressure.",
)
TAINT_MISSING: Final = _gauge(
    "winpool_taint_missing_nodes{pool}",
    "Nodes of the pool on which a taint of its spec is missing or has another value, also where it is held "
    "back on purpose. Startup taints do not count.",
)
OVERLAPPING: Final = _gauge(
    "winpool_overlapping_nodes{pool}",
    "Nodes that the pool selects and another pool selects too, or has.",
)
MISPLACED_PODS: Final = _gauge(
    "winpool_misplaced_pods{pool}",
    "Pods on nodes of the pool that cannot run on Windows, as far as there is evidence of it.",
)
UNSELECTED_PODS: Final = _gauge(
    "winpool_unselected_pods{pool}",
    "Pods in the cluster that select no OS and that a node of the pool may take, since no taint keeps them "
    "off: those of the issue UnselectedWorkloads. Absent until pods have been listed, and where the cluster "
    "has more different pods than the operator compares and it has found none.",
)
UNLIMITED_CONTAINERS: Final = _gauge(
    "winpool_unlimited_containers{pool}",
    "Containers on nodes of the pool without a memory limit: those of the issue MemoryLimitsMissing. Absent "
    "until pods have been listed, and where there are more different pods than the operator compares and it "
    "has found none.",
)
MEMORY_LIMIT_EXCESS: Final = _gauge(
    "winpool_memory_limit_excess_bytes{pool}",
    "By how much the memory limits of the pods on nodes of the pool exceed what the node has for pods "
    "(Allocatable), in sum over the nodes where they do. Pods of all namespaces count. Absent until pods "
    "have been listed.",
)
UPGRADE_NODES: Final = _gauge(
    "winpool_upgrade_nodes{pool,state}",
    "Nodes of the pool by state: UpToDate, Required (due, and may be upgraded now), Gated (due, and may "
    "not), Unknown (it is not known whether they are due), and where the operator upgrades nodes itself "
    "those of the label winpool.dev/upgrade-state. As all metrics of upgrades with the label pool, only for "
    "pools that have upgrade.",
    state=(*UpgradeState, UNKNOWN),
)
UPGRADE_DUE: Final = _gauge(
    "winpool_upgrade_due_nodes{pool,trigger}",
    "Nodes of the pool that are due for an upgrade, by trigger: OSVersion, OSRevision, Request, "
    "ReservedMemory or KubeletSkew. A node may be due for several.",
    trigger=Trigger,
)
UPGRADE_DUE_SINCE: Final = _gauge(
    "winpool_upgrade_due_since_timestamp_seconds{pool}",
    "Unix time since which nodes of the pool have been due for its target: the start of the entry of "
    "status.history that is InProgress. Absent while no node is due.",
)
GATE_CLOSED: Final = _gauge(
    "winpool_upgrade_gate_closed{pool,gate}",
    "1 where the gate keeps nodes of the pool from being upgraded, 0 where it does not. A gate that is "
    "judged node by node counts as soon as it keeps one node that is due.",
    gate=Gate,
)
UPGRADE_SLOTS: Final = _gauge(
    "winpool_upgrade_slots{pool,state}",
    "Slots of the pool, which count for maxUnavailable, by state: Reserved (the node may be upgraded), Begun "
    "(it is cordoned, not Ready or being deleted, or the operator has claimed it), Gone (it does not exist "
    "any more), Withdrawn (it may not be upgraded any more, and no other node for a minute).",
    state=HELD_STATES,
)
UPGRADE_BLOCKED: Final = _gauge(
    "winpool_upgrade_blocked_nodes{pool,reason}",
    "Nodes of the pool that were not drained within drain.timeoutSeconds, by what keeps them: "
    "VolumeAttached, or why pods do not leave. A node may count for several reasons. Unknown: nothing is "
    "known to keep them.",
    reason=BLOCKED_BY,
)
UPGRADE_STALLED: Final = _gauge(
    "winpool_upgrade_stalled_nodes{pool,reason}",
    "Nodes of the pool that are upgraded and stop the upgrades of others, by reason: SettleTimedOut (what "
    "was evicted from them is not Ready elsewhere in time, or they are not healthy), NodesUnhealthy (two or "
    "more are not Ready after their upgrade).",
    reason=(Reason.SETTLE_TIMED_OUT, Reason.NODES_UNHEALTHY),
)
DISRUPTIONS_LEFT: Final = _gauge(
    "winpool_upgrade_disruptions_left{pool}",
    "Nodes of the pool that may become unavailable beside those that are unavailable or have a slot, by "
    "maxUnavailable.",
)
DRAIN_EVICTIONS: Final = _counter(
    "winpool_upgrade_drain_evictions{result}",
    "Requests to evict a pod to drain its node for an upgrade, by result, as of winpool_memory_evictions; "
    "Forced: the pod was deleted, since it was not evicted in time (onTimeout: Force).",
    result=("Evicted", "Refused", "Gone", "Failed", "Unanswered", "Forced"),
)
DRAIN_SECONDS: Final = _histogram(
    "winpool_upgrade_drain_seconds",
    "Seconds from the cordon of a node to the time when no pod was left on it that had to leave, for each "
    "node that this process has drained.",
)
OVERRIDES: Final = _gauge(
    "winpool_upgrade_overrides{pool,state}",
    "Entries in upgrade.overrides of the pool by state: InForce or Expired.",
    state=("InForce", "Expired"),
)
SURPRISED: Final = _gauge(
    "winpool_upgrade_surprised_nodes{pool,reason}",
    "Nodes of the pool whose machine did something within the last hour that no one had announced, by the "
    "reason of the issue: SurpriseReboot or SurpriseOSChange.",
    reason=SurpriseKind,
)
SURPRISES: Final = _counter(
    "winpool_upgrade_surprises{reason}",
    "Times that the machine of a node did something that no one had announced, by the reason of the event: "
    "SurpriseReboot or SurpriseOSChange. Of nodes of all pools that have upgrade.",
    reason=SurpriseKind,
)
MODE: Final = _gauge(
    "winpool_mode{pool,mode}",
    "1 for the mode (Active, DryRun or Paused) of the pool's spec, 0 for the others. All are 0 where the "
    "spec cannot be read.",
    mode=Mode,
)
CONDITION: Final = _gauge(
    "winpool_status_condition{pool,type,status}",
    "1 for the status (True, False or Unknown) that the pool's condition of this type has, 0 for the others.",
    type=ConditionType,
    status=("True", "False", UNKNOWN),
)
CONDITION_SINCE: Final = _gauge(
    "winpool_status_condition_last_transition_timestamp_seconds{pool,type}",
    "Unix time at which the status of the condition last changed.",
    type=ConditionType,
)
GENERATION_LAG: Final = _gauge(
    "winpool_observed_generation_lag{pool}",
    "Generations of the pool's spec that its status does not tell of yet. 0 where it is current.",
)
RECONCILES: Final = _counter(
    "winpool_reconcile{result}",
    "Passes over a pool, by result: Success or Error.",
    result=get_args(PassResult),
)
RECONCILE_SECONDS: Final = _counter(
    "winpool_reconcile_seconds",
    "Seconds spent in passes, waiting for the API server included.",
)
LAST_SUCCESS: Final = _gauge(
    "winpool_last_success_timestamp_seconds",
    "Unix time of the last pass that succeeded, 0 before the first.",
)
POD_PASSES: Final = _counter(
    "winpool_pod_passes{result}",
    "Passes over all pods of the cluster, by result: Success or Error. One that does not see all of them is"
    " an Error.",
    result=get_args(PassResult),
)
POD_PASS_SECONDS: Final = _counter(
    "winpool_pod_pass_seconds",
    "Seconds spent in passes over all pods, waiting for the API server included.",
)
PODS_SEEN: Final = _gauge(
    "winpool_pods_seen",
    "Pods that the last pass over all pods that succeeded has seen: those bound to a node that have not "
    "succeeded.",
)
LAST_POD_PASS: Final = _gauge(
    "winpool_last_pod_pass_timestamp_seconds",
    "Unix time at which the last pass over all pods that succeeded ended, 0 before the first.",
)
API_REQUESTS: Final = _counter(
    "winpool_api_requests{verb,resource,code}",
    "Requests to the API server, those of the Kopf feed not counted, by verb, resource and HTTP status "
    "('error' where no answer came, 'timeout' where none came in time).",
)
API_RETRIES: Final = _counter(
    "winpool_api_retries",
    "Requests to the API server that were sent again after a failure that may pass.",
)
API_IN_FLIGHT: Final = _gauge(
    "winpool_api_requests_in_flight",
    "Requests to the API server that wait for their answer now, watches and those of the Kopf feed not "
    "counted.",
)
WATCH_RESTARTS: Final = _counter(
    "winpool_watch_restarts{resource}",
    "Times that a watch was started again after it ended, by the resource watched.",
)
NODE_LISTS: Final = _counter("winpool_node_lists", "Lists of all Windows nodes that were begun.")
NODE_WATCHES: Final = _counter(
    "winpool_node_watches",
    "Watches of nodes that the API server has opened.",
)
NODE_WATCH_EXPIRED: Final = _counter(
    "winpool_node_watch_expired",
    "Times that the API server had forgotten where the watch or the list of nodes was (410), so that all "
    "were listed anew.",
)
NODE_EVENTS: Final = _counter(
    "winpool_node_watch_events",
    "Events about nodes that the watch has brought.",
)
NODE_STALE: Final = _counter(
    "winpool_node_stale",
    "What was told of a node and was older than what was known, and so left aside.",
)
NODE_UNREADABLE: Final = _counter(
    "winpool_node_unreadable",
    "Times that a node came that could not be read. It is kept as last seen, and the log names it.",
)
NODES_CONTACT_AGE: Final = _gauge(
    "winpool_node_watch_age_seconds",
    "Seconds since the node watch last heard from the API server. +Inf before the first time.",
)
EVENTS_POSTED: Final = _counter("winpool_events_posted", "Events that the API server has taken.")
EVENTS_DROPPED: Final = _counter(
    "winpool_events_dropped{reason}",
    "Events that were not posted, by reason: RateLimited (its pool has too many), ClusterRateLimited (all "
    "pools together have), QueueFull, Failed, Stopped.",
    reason=("RateLimited", "ClusterRateLimited", "QueueFull", "Failed", "Stopped"),
)
GUARD_IN_FORCE: Final = _gauge(
    "winpool_guard_in_force",
    "1 while the admission policy stands that keeps kubelets from writing our keys on nodes, 0 while it "
    "does not.",
)
ACCESS_REVIEWS: Final = _counter(
    "winpool_access_reviews{result}",
    "Reviews of tokens that were sent to /metrics, by result: Permitted, Forbidden (the user of the token "
    "has no right), Invalid (the token is of no user), Failed (the API server did not say), RateLimited "
    "(not made: too many). Absent without --metrics-auth=token.",
    result=get_args(Result),
)
TLS_EXPIRY: Final = _gauge(
    "winpool_tls_certificate_expiry_timestamp_seconds",
    "Unix time at which the certificate expires that /metrics is served with. Absent without TLS, and where"
    " the time cannot be read.",
)
TLS_RELOAD_ERRORS: Final = _counter(
    "winpool_tls_reload_errors",
    "Times that the files of this certificate were read and could not be used. Absent without TLS.",
)
LEADER: Final = _gauge(
    "winpool_leader",
    "1 while this process may write: it holds the Lease and its term lasts, or it runs without leader "
    "election. 0 while it stands by.",
)
LEASE_SKEW: Final = _gauge(
    "winpool_lease_clock_skew_seconds",
    "Seconds by which the clock of this process was ahead of that of the operator that holds the Lease, at "
    "its last renewal. No sample where no renewal of another operator was seen.",
)
SECOND_OPERATOR: Final = _gauge(
    "winpool_second_operator",
    "1 while another operator renews the Lease although this one runs without leader election, so that both"
    " write.",
)
CRD_LACKING_FIELDS: Final = _gauge(
    "winpool_crd_lacking_fields",
    "Fields that the CRD in the cluster lacks, as it is older. The issue CRDOutdated names them.",
)
SAMPLES: Final = _counter(
    "winpool_memory_samples{source,result}",
    "Samples of the memory of single nodes that were asked for, by source (Kubelet, or Prometheus/ and the "
    "name of the data source) and result: Sampled, or why there is none.",
    result=(
        *("Sampled", "NoAddress", "RefusedAddress", "NoToken", "NoConnection", "Certificate", "Timeout"),
        *("Unauthorized", "Forbidden", "Redirected", "ServerError", "TooLarge", "Unreadable", "WrongNode"),
        *("NoNumbers", "NoSeries"),
    ),
)
POLL_SECONDS: Final = _histogram(
    "winpool_memory_poll_seconds{source}",
    "Seconds that polls have taken, with any result. For Prometheus one poll is all queries for all nodes.",
)
OLDEST_SAMPLE: Final = _gauge(
    "winpool_memory_oldest_sample_seconds{source}",
    "Age of the oldest sample of a node that is fresh, which is two minutes at most. Nodes whose last "
    "sample is not fresh are unknown.",
)
WATCHED: Final = _gauge(
    "winpool_memory_watched_nodes{state}",
    "Nodes whose memory is watched, by state: Watched, Known (there is a fresh sample), Hot (polled more "
    "often, being near the end of their memory). The states overlap.",
    state=("Watched", "Known", "Hot"),
)
CAPABLE: Final = _gauge(
    "winpool_memory_capable_nodes{capability}",
    "Watched nodes by what their sources report: CommitLimit (the kubelet, from 1.31 on), PodCommit (in "
    "pools that evict), Paging (windows_exporter), KubeletEviction and NoKubeletEviction (the "
    "kubelet itself does or does not evict pods when memory runs out).",
    capability=("CommitLimit", "PodCommit", "Paging", "KubeletEviction", "NoKubeletEviction"),
)
EVICTIONS: Final = _counter(
    "winpool_memory_evictions{result}",
    "Requests to evict a pod from a node under memory pressure, by result: Evicted, Refused (by a "
    "PodDisruptionBudget, a policy or a webhook), Gone (the pod no longer existed), Failed (not carried "
    "out, for example because a right is missing or the API server has too many requests), Unanswered (it "
    "is not known whether it is carried out).",
    result=("Evicted", "Refused", "Gone", "Failed", "Unanswered"),
)
READY: Final = _gauge("winpool_ready", "1 while the operator is ready, see /readyz.")
BUILD_INFO: Final = _gauge("winpool_build_info{version}", "1, with the operator's version.")

DEFINITIONS: Final = tuple(each for each in tuple(globals().values()) if isinstance(each, Definition))
"""All of them, in the order of the page."""
