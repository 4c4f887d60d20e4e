"""Writes ``docs/reference/node-rules.md`` from the table of the rules about nodes.

``python -m gen.node_rules_reference`` prints it; a test compares.
"""

from __future__ import annotations

import sys
from typing import Final

from winpool.api.text import table
from winpool.features.diagnose.rules import LOG_CAUSES, RULES, Rule

FILE: Final = "docs/reference/node-rules.md"
"""Where the result is, from the root of the repository."""

HEAD: Final = """\
<!-- Generated from operator/winpool/features/diagnose/rules.py. Do not edit; run: make generate -->
# Why Windows nodes do not work

The causes that [`kubectl winpool diagnose`](../diagnose.md) knows. What it cannot read is unknown, and it
says so: a rule finds something only in what was read.

- Texts of Windows are in its language. A code such as `0xc0370101` is the same in all of them, so it is
  searched first.
- A pod waits if none of its containers runs minutes after it was created, or if the node has warned about it.
  Events about pods that run by now do not count, and neither do those about an earlier pod of the same name.
- Which pause image has a variant for which build is in the [support matrix](matrix.md). An image that is not
  there, such as that of a vendor or a mirror, is not judged.
- `spec.podCIDR` is judged only where pods get their addresses from it: where flannel runs, or where other
  nodes of the same pool have one. CNIs with ranges of their own need none.

| Severity | When |
|---|---|
| Error | The node does not work, or pods do not start on it |
| Warning | It works, and some pods will not, or it may be the cause of trouble |
"""

LEFT_OUT: Final = (
    ("N6", "`kubectl port-forward` to pods", "Which pause image a node uses is not in the API."),
    (
        "N7, N8, N9",
        "flags of kube-proxy, and whether it runs",
        "A script of its image starts it, or it is a service of the host: what it was started with is not in "
        "the API. If something is not explained, `diagnose` counts lines of its log.",
    ),
    (
        "N14",
        "MAC spoofing, exceptions of the CNI, ICMP, NodePorts from the node itself",
        "The API has none of it.",
    ),
    (
        "N16, N17",
        "settings that a kubelet ignores or refuses, and removed flags",
        "A kubelet that does not start answers nothing.",
    ),
    (
        "N19",
        "bad revisions of Windows",
        "The operator reports them: see the [support matrix](../support-matrix.md).",
    ),
    ("N20", "the node problem detector", "Its support of Windows is preliminary."),
)
"""What was looked at and is no rule: code, what it is about, and why it is none."""


def render() -> str:
    """Return the page."""
    head = ("Code", "What is read", "Finding", "Means", "Severity", "What to do", "Needs", "Sources")
    hints = "".join(f"- {cause}\n" for _, cause in LOG_CAUSES)
    left_out = [(", ".join(f"`{each}`" for each in codes.split(", ")), *rest) for codes, *rest in LEFT_OUT]
    return (
        f"{HEAD}\n## Rules\n\n{table(head, map(_cells, RULES))}\n"
        "## Lines of logs\n\nOf one node that does not work for a reason that no rule knows, `diagnose` "
        "counts the lines of the logs of kubelet, containerd and kube-proxy that say one of these. What is "
        "in a log may be over, so it is no finding. No line is shown.\n\n"
        f"{hints}\n## No rules\n\n{table(('Code', 'About', 'Why it is no rule'), left_out)}"
    )


def _cells(rule: Rule) -> tuple[str, ...]:

    return (
        f"`{rule.code}`",
        rule.about,
        rule.finding,
        rule.means,
        str(rule.severity),
        rule.fix,
        ", ".join(rule.needs),
        ", ".join(f"<{each}>" for each in rule.sources),
    )


if __name__ == "__main__":
    sys.stdout.write(render())
