"""Which series of a Prometheus are those of windows_exporter: by labels that Prometheus gives to the target.

Everyone whose metrics are scraped chooses the names of metrics, and most labels. The labels of the target,
such as ``job``, are of the configuration of Prometheus: a label of that name in the metrics becomes
``exported_job``, unless the configuration has ``honor_labels`` for that job.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

Matchers = Mapping[str, str]
"""The labels that a series must have, with exactly these values."""

DEFAULT_MATCHERS: Final[Matchers] = MappingProxyType({"job": "windows-exporter"})
"""The job that kube-prometheus-stack gives windows_exporter, whose rules and dashboards need that name.
https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml"""

MAX_MATCHERS: Final = 8
"""A job, a namespace, a cluster, a tenant, and as many again."""

MAX_LENGTH: Final = 128
"""Characters of a label or a value. A query has all of them twice, and must fit in the 8 KiB that proxies
accept for a URL by default."""

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
"""https://prometheus.io/docs/concepts/data_model/#metric-names-and-labels"""


def faults_of(matchers: Matchers) -> list[str]:
    """Return what is wrong with matchers of the settings, a sentence for each fault; [] where nothing is."""
    if not matchers:
        return ["it is empty, so series of every job would be believed; write {job: windows-exporter}"]
    if len(matchers) > MAX_MATCHERS:
        return [f"there are {len(matchers)}, and at most {MAX_MATCHERS} are possible"]
    return [
        fault for label, value in matchers.items() for fault in (*_of_label(label), *_of_value(label, value))
    ]


def selector_of(matchers: Matchers) -> str:
    """Return them as PromQL, in braces. A value is quoted, so that it is a value whatever it has in it."""
    return "{" + ",".join(f"{label}={_quoted(value)}" for label, value in sorted(matchers.items())) + "}"


def _of_label(label: str) -> list[str]:
    if len(label) > MAX_LENGTH or not _LABEL.fullmatch(label) or label.startswith("__"):
        return [
            f"{label[:MAX_LENGTH]!a} is not the name of a label; write letters, digits and '_', and neither "
            "a digit nor '__' first"
        ]
    return []


def _of_value(label: str, value: str) -> list[str]:
    # An empty value would match the series that lack the label.
    if not 0 < len(value) <= MAX_LENGTH or not value.isprintable():
        return [f"the value of {label[:MAX_LENGTH]!a} must have 1 to {MAX_LENGTH} printable characters"]
    return []


def _quoted(value: str) -> str:
    """Return a string literal of PromQL: https://prometheus.io/docs/prometheus/latest/querying/basics/."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
