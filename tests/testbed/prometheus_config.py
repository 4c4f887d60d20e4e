"""What a Prometheus of the tests scrapes, as its configuration file. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

FOUND: Final = "__meta_kubernetes_node_name"
"""The label with the name of a node that Prometheus' own discovery of Kubernetes nodes gives a target."""
RETENTION: Final = "1h"
"""Longer than any test. Queries look back five minutes."""
LONGEST_SCRAPE_SECONDS: Final = 10
"""The default of Prometheus. A scrape may not take longer than its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeJob:
    """A scrape configuration: exporters, and how their series name the node."""

    name: str
    """The value of the label ``job``, unless ``labels`` has another."""
    targets: Mapping[str, str]
    """Where the exporter of each node listens, as ``address:port``."""
    node_label: str | None = "node"
    """None: only a label of the series themselves can name the node."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Further labels of each target, such as the Prometheus operator's ``namespace``."""
    honor_labels: bool = False
    """Whether the labels of the series count where the target has the same ones."""


def render(jobs: Iterable[ScrapeJob], *, interval_seconds: int) -> str:
    """Return the configuration file. Each exporter is scraped once in so many seconds."""
    document = {
        "global": {
            "scrape_interval": f"{interval_seconds}s",
            "scrape_timeout": f"{min(interval_seconds, LONGEST_SCRAPE_SECONDS)}s",
        },
        "storage": {"tsdb": {"retention": {"time": RETENTION}}},
        "scrape_configs": [_scrape_config(job) for job in jobs],
    }
    return yaml.safe_dump(document, sort_keys=False)


def _scrape_config(job: ScrapeJob) -> dict[str, Any]:
    # The rule that people write for the nodes of a cluster.
    naming = {"source_labels": [FOUND], "target_label": job.node_label}
    return {
        "job_name": job.name,
        "honor_labels": job.honor_labels,
        "static_configs": [
            {"targets": [target], "labels": {FOUND: node, **job.labels}}
            for node, target in job.targets.items()
        ],
        "relabel_configs": [] if job.node_label is None else [naming],
    }
