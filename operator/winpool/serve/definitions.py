"""The table of all metrics, and of ``docs/reference/metrics.md``: what is not in it is not served."""

from __future__ import annotations

from typing import Final

from winpool.serve.definition import Definition
from winpool.serve.memory_definitions import MEMORY_DEFINITIONS
from winpool.serve.sample_definitions import SAMPLE_DEFINITIONS
from winpool.serve.upgrade_definitions import UPGRADE_DEFINITIONS

NODES: Final = Definition(
    "winpool_nodes",
    "gauge",
    ("pool", "state"),
    "Nodes of the pool by state: selected, ready, up_to_date, up_to_date_and_ready, available, upgrade_due "
    "(known to run another release or an older revision of Windows than the spec asks for), pressured (under "
    "memory pressure). The states overlap.",
)
NODES_BY_BUILD: Final = Definition(
    "winpool_nodes_by_build",
    "gauge",
    ("pool", "build", "os_version"),
    "Nodes of the pool by build of Windows, for the ten builds with the most nodes; 'other' is the rest. "
    "os_version is empty where the build is not known.",
)
SUPPORT_END: Final = Definition(
    "winpool_os_support_end_timestamp_seconds",
    "gauge",
    ("pool", "os_version"),
    "Unix time at which the last day ends on which the Windows Server release is supported, for releases "
    "that nodes of the pool run.",
)
TAINT_MISSING: Final = Definition(
    "winpool_taint_missing_nodes",
    "gauge",
    ("pool",),
    "Nodes of the pool on which a taint of its spec is missing or has another value, also where it is held "
    "back on purpose. Startup taints do not count.",
)
OVERLAPPING: Final = Definition(
    "winpool_overlapping_nodes",
    "gauge",
    ("pool",),
    "Nodes that the pool selects and another pool selects too, or has.",
)
MISPLACED_PODS: Final = Definition(
    "winpool_misplaced_pods",
    "gauge",
    ("pool",),
    "Pods on nodes of the pool that cannot run on Windows, as far as there is evidence of it.",
)
MODE: Final = Definition(
    "winpool_mode",
    "gauge",
    ("pool", "mode"),
    "1 for the mode (Active, DryRun or Paused) of the pool's spec, 0 for the others. All are 0 where the "
    "spec cannot be read.",
)
CONDITION: Final = Definition(
    "winpool_status_condition",
    "gauge",
    ("pool", "type", "status"),
    "1 for the status (True, False or Unknown) that the pool's condition of this type has, 0 for the others.",
)
CONDITION_SINCE: Final = Definition(
    "winpool_status_condition_last_transition_timestamp_seconds",
    "gauge",
    ("pool", "type"),
    "Unix time at which the status of the condition last changed.",
)
GENERATION_LAG: Final = Definition(
    "winpool_observed_generation_lag",
    "gauge",
    ("pool",),
    "Generations of the pool's spec that its status does not tell of yet. 0 where it is current.",
)
RECONCILES: Final = Definition(
    "winpool_reconcile",
    "counter",
    ("result",),
    "Passes over a pool, by result: success or error.",
)
RECONCILE_SECONDS: Final = Definition(
    "winpool_reconcile_seconds",
    "counter",
    (),
    "Seconds spent in passes, waiting for the API server included.",
)
LAST_SUCCESS: Final = Definition(
    "winpool_last_success_timestamp_seconds",
    "gauge",
    (),
    "Unix time of the last pass that succeeded, 0 before the first.",
)
POD_PASSES: Final = Definition(
    "winpool_pod_passes",
    "counter",
    ("result",),
    "Passes over all pods of the cluster, by result: success or error. One that does not see all of them is "
    "an error.",
)
POD_PASS_SECONDS: Final = Definition(
    "winpool_pod_pass_seconds",
    "counter",
    (),
    "Seconds spent in passes over all pods, waiting for the API server included.",
)
PODS_SEEN: Final = Definition(
    "winpool_pods_seen",
    "gauge",
    (),
    "Pods that the last pass over all pods that succeeded has seen: those bound to a node that have not "
    "succeeded.",
)
LAST_POD_PASS: Final = Definition(
    "winpool_last_pod_pass_timestamp_seconds",
    "gauge",
    (),
    "Unix time at which the last pass over all pods that succeeded ended, 0 before the first.",
)
API_REQUESTS: Final = Definition(
    "winpool_api_requests",
    "counter",
    ("verb", "resource", "code"),
    "Requests to the API server, those of the Kopf feed not counted, by verb, resource and HTTP status "
    "('error' where no answer came, 'timeout' where none came in time).",
)
API_RETRIES: Final = Definition(
    "winpool_api_retries",
    "counter",
    (),
    "Requests to the API server that were sent again after a failure that may pass.",
)
API_IN_FLIGHT: Final = Definition(
    "winpool_api_requests_in_flight",
    "gauge",
    (),
    "Requests to the API server that wait for their answer now, watches and those of the Kopf feed not "
    "counted.",
)
WATCH_RESTARTS: Final = Definition(
    "winpool_watch_restarts",
    "counter",
    ("resource",),
    "Times that a watch was started again after it ended, by the resource watched.",
)
NODE_LISTS: Final = Definition(
    "winpool_node_lists", "counter", (), "Lists of all Windows nodes that were begun."
)
NODE_WATCHES: Final = Definition(
    "winpool_node_watches", "counter", (), "Watches of nodes that the API server has opened."
)
NODE_WATCH_EXPIRED: Final = Definition(
    "winpool_node_watch_expired",
    "counter",
    (),
    "Times that the API server had forgotten where the watch or the list of nodes was (410), so that all "
    "were listed anew.",
)
NODE_EVENTS: Final = Definition(
    "winpool_node_watch_events", "counter", (), "Events about nodes that the watch has brought."
)
NODE_STALE: Final = Definition(
    "winpool_node_stale",
    "counter",
    (),
    "What was told of a node and was older than what was known, and so left aside.",
)
NODE_UNREADABLE: Final = Definition(
    "winpool_node_unreadable",
    "counter",
    (),
    "Times that a node came that could not be read. It is kept as last seen, and the log names it.",
)
NODES_CONTACT_AGE: Final = Definition(
    "winpool_node_watch_age_seconds",
    "gauge",
    (),
    "Seconds since the node watch last heard from the API server. +Inf before the first time.",
)
EVENTS_POSTED: Final = Definition(
    "winpool_events_posted", "counter", (), "Events that the API server has taken."
)
EVENTS_DROPPED: Final = Definition(
    "winpool_events_dropped",
    "counter",
    ("cause",),
    "Events that were not posted, by cause: rate_limited (its pool has too many), cluster_rate_limited (all "
    "pools together have), queue_full, failed, stopped.",
)
GUARD_IN_FORCE: Final = Definition(
    "winpool_guard_in_force",
    "gauge",
    (),
    "1 while the admission policy stands that keeps kubelets from writing our keys on nodes, 0 while it does "
    "not.",
)
ACCESS_REVIEWS: Final = Definition(
    "winpool_access_reviews",
    "counter",
    ("result",),
    "Reviews of tokens that were sent to /metrics, by result: permitted, forbidden (the user of the token "
    "has no right), invalid (the token is of no user), failed (the API server did not say), rate_limited "
    "(not made: too many). Absent without --metrics-auth=token.",
)
TLS_EXPIRY: Final = Definition(
    "winpool_tls_certificate_expiry_timestamp_seconds",
    "gauge",
    (),
    "Unix time at which the certificate expires that /metrics is served with. Absent without TLS, and where "
    "the time cannot be read.",
)
TLS_RELOAD_ERRORS: Final = Definition(
    "winpool_tls_reload_errors",
    "counter",
    (),
    "Times that the files of this certificate were read and could not be used. Absent without TLS.",
)
LEADER: Final = Definition(
    "winpool_leader",
    "gauge",
    (),
    "1 while this process may write: it holds the Lease and its term lasts, or it runs without leader "
    "election. 0 while it stands by.",
)
LEASE_SKEW: Final = Definition(
    "winpool_lease_clock_skew_seconds",
    "gauge",
    (),
    "Seconds by which the clock of this process was ahead of that of the operator that holds the Lease, at "
    "its last renewal. No sample where no renewal of another operator was seen.",
)
SECOND_OPERATOR: Final = Definition(
    "winpool_second_operator",
    "gauge",
    (),
    "1 while another operator renews the Lease although this one runs without leader election, so that both "
    "write.",
)
CRD_LACKING_FIELDS: Final = Definition(
    "winpool_crd_lacking_fields",
    "gauge",
    (),
    "Fields that the CRD in the cluster lacks, as it is older. The issue CRDOutdated names them.",
)
READY: Final = Definition("winpool_ready", "gauge", (), "1 while the operator is ready, see /readyz.")
BUILD_INFO: Final = Definition("winpool_build_info", "gauge", ("version",), "1, with the operator's version.")

DEFINITIONS: Final = (
    NODES,
    NODES_BY_BUILD,
    SUPPORT_END,
    *MEMORY_DEFINITIONS,
    TAINT_MISSING,
    OVERLAPPING,
    MISPLACED_PODS,
    *UPGRADE_DEFINITIONS,
    MODE,
    CONDITION,
    CONDITION_SINCE,
    GENERATION_LAG,
    RECONCILES,
    RECONCILE_SECONDS,
    LAST_SUCCESS,
    POD_PASSES,
    POD_PASS_SECONDS,
    PODS_SEEN,
    LAST_POD_PASS,
    API_REQUESTS,
    API_RETRIES,
    API_IN_FLIGHT,
    WATCH_RESTARTS,
    NODE_LISTS,
    NODE_WATCHES,
    NODE_WATCH_EXPIRED,
    NODE_EVENTS,
    NODE_STALE,
    NODE_UNREADABLE,
    NODES_CONTACT_AGE,
    EVENTS_POSTED,
    EVENTS_DROPPED,
    GUARD_IN_FORCE,
    ACCESS_REVIEWS,
    TLS_EXPIRY,
    TLS_RELOAD_ERRORS,
    LEADER,
    LEASE_SKEW,
    SECOND_OPERATOR,
    CRD_LACKING_FIELDS,
    *SAMPLE_DEFINITIONS,
    READY,
    BUILD_INFO,
)
"""All of them, in the order of the page."""
