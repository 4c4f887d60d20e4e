"""The metrics of samples of memory and of evictions, a part of the table of all metrics (``definitions``)."""

from __future__ import annotations

from typing import Final

from winpool.serve.definition import Definition

SAMPLES: Final = Definition(
    "winpool_memory_samples",
    "counter",
    ("source", "outcome"),
    "Samples of the memory of single nodes that were asked for, by source (Kubelet, or Prometheus/ and the "
    "name of the data source) and outcome: Sampled, or why there is none.",
)
POLL_SECONDS: Final = Definition(
    "winpool_memory_poll_seconds",
    "histogram",
    ("source",),
    "Seconds that polls have taken, with any outcome. For Prometheus one poll is all queries for all nodes.",
)
OLDEST_SAMPLE: Final = Definition(
    "winpool_memory_oldest_sample_seconds",
    "gauge",
    ("source",),
    "Age of the oldest sample of a node that is fresh, which is two minutes at most. Nodes whose last sample "
    "is not fresh are unknown.",
)
WATCHED: Final = Definition(
    "winpool_memory_watched_nodes",
    "gauge",
    ("state",),
    "Nodes whose memory is watched, by state: watched, known (there is a fresh sample), hot (polled more "
    "often, being near the end of their memory). The states overlap.",
)
CAPABLE: Final = Definition(
    "winpool_memory_capable_nodes",
    "gauge",
    ("capability",),
    "Watched nodes by what their sources report: commit_limit (the kubelet, from 1.31 on), pod_commit (of "
    "hot nodes of pools that evict), paging (windows_exporter), kubelet_eviction and no_kubelet_eviction "
    "(the kubelet itself does or does not evict pods when memory runs out).",
)
EVICTIONS: Final = Definition(
    "winpool_memory_evictions",
    "counter",
    ("result",),
    "Requests to evict a pod from a node under memory pressure, by result: evicted, refused (by a "
    "PodDisruptionBudget, a policy or a webhook), gone (the pod no longer existed), failed (not carried out, "
    "for example because a right is missing or the API server has too many requests), unanswered (it is not "
    "known whether it is carried out).",
)

SAMPLE_DEFINITIONS: Final = (SAMPLES, POLL_SECONDS, OLDEST_SAMPLE, WATCHED, CAPABLE, EVICTIONS)
"""All of them, in the order of the page."""
