"""Writes ``docs/reference/workload-rules.md`` from the table of the rules of the audit.

``python -m gen.workload_rules_reference`` prints it; a test compares.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from winpool.api.text import table
from winpool.features.audit.audit import IGNORE_ANNOTATION, server, severities
from winpool.features.audit.rules import DIFFERENT, NEWEST, OLDEST, PLACEMENT, REFUSED, Needs, Rule

FILE: Final = "docs/reference/workload-rules.md"
"""Where the result is, from the root of the repository."""

HEAD: Final = f"""\
<!-- Generated from operator/winpool/features/audit/rules.py. Do not edit; run: make generate -->
# What is different on Windows

What of a pod the API server refuses if the pod is for Windows, what the kubelet and Windows ignore, and what
means something else there than on Linux.
[`kubectl winpool audit`](../cli/audit.md) finds it in
manifests and in the cluster, and `kubectl winpool audit --explain CODE` prints a row of this page. The rows
hold for Kubernetes {OLDEST} to {NEWEST}.

- `containers[*]` are also `initContainers` and `ephemeralContainers`. The fields are those of a pod: in a
  Deployment they are under `spec.template`.
- A field counts if it is there, also with the value `false` or `{{}}`, unless the row says something else.
  `hostPID` and `hostIPC` count only if they are `true`, and `sysctls`, `volumeDevices` and `resourceClaims`
  only if they have items.
- A workload is for Windows by the first of these: `spec.os.name`; the node selector or required node affinity
  on `kubernetes.io/os` or `node.kubernetes.io/windows-build`, or that of its RuntimeClass; `windowsOptions`
  or the annotation `winpool.dev/windows-build`; a word such as `nanoserver` or `ltsc2022` in an image.
  Without any of them its OS is unknown, and only rules about the nodes and RuntimeClasses that it gets are
  about it.
- A row that needs more than a manifest says what. In a cluster `audit` reads it; for manifests `--pool`
  reads nodes and RuntimeClasses, and `--host-build` names Windows versions. What is not known is not judged,
  and the last line of the output says so.
- The annotation `{IGNORE_ANNOTATION}: "W13: only a cache"` of the object or of its pods keeps rules
  from being reported. In a file so does the comment `# {IGNORE_ANNOTATION}: W13: only a cache`, for the
  field in its line or after it, with all below it.

| Severity | When |
|---|---|
| Error | The API server refuses the object, the kubelet refuses the pod, or the pod cannot start |
| Warning | It is accepted, and ignored or different from Linux |
| Info | It works, and there is something to know |

| Known by | Means |
|---|---|
| live | A real API server (1.37.1) was asked with a dry run |
| source | It is in the source of Kubernetes 1.36.3 and 1.37.1 |
| documentation | A page of the documentation says it |
"""

SECTIONS: Final = (
    ("Placement", "On which nodes the pods are placed.", PLACEMENT),
    (
        "Refused with spec.os.name: windows",
        "Without `spec.os.name` the API server accepts these fields, and the column *On a Windows node* says "
        "what happens. A field that the API server drops is a Warning. R22 is about pods for Linux.",
        REFUSED,
    ),
    (
        "Different on Windows",
        "With and without `spec.os.name`.",
        DIFFERENT,
    ),
)

LEFT_OUT: Final = (
    ("P12", "images for Linux in pods for Windows", "No manifest says for which OS an image is."),
    (
        "R23",
        "resize of a running pod",
        "No manifest shows it. The API server refuses the subresource `resize` of pods with "
        "`spec.os.name: windows`.",
    ),
    (
        "W3",
        "names of Services with one dot, such as `api.shop`, which Windows does not complete",
        "It needs the Services of the cluster and the contents of ConfigMaps.",
    ),
    ("W17, W18", "`subPath`, and mounts of single files", "They work with containerd. Docker had faults."),
    (
        "W21",
        "PersistentVolumeClaims whose driver is not on the Windows nodes",
        "It needs the PersistentVolumes of the cluster and the drivers of its nodes.",
    ),
    ("W29", "`image` volumes", "Whether containerd mounts them on Windows is not established."),
    (
        "W30",
        "Secrets in files",
        "It is true of every pod: Windows has no tmpfs, so Secrets and tokens are on the disk of the node. "
        "Encrypt that, and restrict `C:\\var\\lib\\kubelet` by an ACL.",
    ),
    (
        "W31, W32",
        "`terminationMessagePath`, `terminationGracePeriodSeconds`",
        "They work with containerd. Docker had faults.",
    ),
    ("W35, W36", "requests of memory", "They are in W34."),
    ("W40", "swap, CPU manager, memory manager", "They are settings of the kubelet, and in no manifest."),
    (
        "V1, V4, V5, V6",
        "`sessionAffinity`, the number of endpoints, NodePorts, IPv6",
        "They need the endpoints of a Service, the builds of their nodes, and the network.",
    ),
    (
        "V2, V7",
        "`externalTrafficPolicy: Local`, the annotation `preserve-destination`",
        "They depend on what HNS on the node can do, which the API does not show.",
    ),
    ("V3", "`internalTrafficPolicy: Local`", "What Kubernetes before 1.36 does is not established."),
)
"""What was looked at and is no rule: code, what it is about, and why it is none."""


def render() -> str:
    """Return the page."""
    return HEAD + "".join(_section(*each) for each in SECTIONS) + _left_out()


def _left_out() -> str:
    rows = [(", ".join(f"`{code}`" for code in codes.split(", ")), *rest) for codes, *rest in LEFT_OUT]
    text = "What differs on Windows too, and is not reported."
    return f"\n## No rules\n\n{text}\n\n{table(('Code', 'About', 'Why it is no rule'), rows)}"


def _section(title: str, text: str, rules: Iterable[Rule]) -> str:
    head = (
        "Code",
        "Field",
        "On a Windows node",
        "API server",
        "Severity",
        "What to do",
        "Known by",
        "Sources",
    )
    return f"\n## {title}\n\n{text}\n\n{table(head, map(_cells, rules))}"


def _cells(rule: Rule) -> tuple[str, ...]:
    needs = "" if rule.needs is Needs.MANIFEST else f" Needs the {rule.needs}."
    if rule.better_with is not None:
        needs += f" More precise with the {rule.better_with}."
    return (
        f"`{rule.code}`",
        ", ".join(f"`{each}`" for each in rule.fields),
        rule.happens + needs,
        server(rule),
        severities(rule),
        rule.fix,
        ", ".join(rule.known),
        ", ".join(f"<{each}>" if each.startswith("https://") else f"`{each}`" for each in rule.sources),
    )


if __name__ == "__main__":
    sys.stdout.write(render())
