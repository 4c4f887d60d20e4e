"""Writes ``docs/reference/metrics.md`` from the table of metrics."""

from __future__ import annotations

import sys

from winpool.serve.definitions import DEFINITIONS
from winpool.serve.metrics import MAX_SERIES_PER_POOL

HEAD = f"""\
<!-- Generated from operator/winpool/serve/definitions.py. Do not edit; run: make generate -->
# Metrics

Served on `/metrics`, beside the usual `process_…` and `python_info` of the Prometheus client. Their
number grows with the pools, never with the nodes: each pool adds {MAX_SERIES_PER_POOL} series at most.

Values of labels are in CamelCase, as the API and `kubectl winpool` write them, also those that only metrics
have. `verb`, `resource` and `code` are as in Kubernetes' own metrics.

| Metric | Type | Labels | Meaning |
|---|---|---|---|
"""


def render() -> str:
    """Return the page."""
    rows = (
        f"| `{each.name}{'_total' if each.kind == 'counter' else ''}` | {each.kind} "
        f"| {', '.join(f'`{label}`' for label in each.labels) or '-'} | {each.help} |"
        for each in DEFINITIONS
    )
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.stdout.write(render())
