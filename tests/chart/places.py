"""Where each value of the chart is found in what it renders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.manifests import shipped_image
from winpool import __version__

IMAGE: Final = shipped_image()
DIGEST: Final = f"sha256:{'ab' * 32}"
POD: Final = ("spec", "template", "spec")
CONTAINER: Final = (*POD, "containers", 0)
NODE_AFFINITY: Final = (*POD, "affinity", "nodeAffinity")
EXPRESSIONS: Final = (
    *(*NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution"),
    *("nodeSelectorTerms", 0, "matchExpressions"),
)
EXPRESSION: Final = {"key": "example.com/infra", "operator": "In", "values": ["yes"]}
PREFERRED: Final = {"weight": 5, "preference": {"matchExpressions": [EXPRESSION]}}
TERM: Final = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
RULE: Final = {"to": [{"ipBlock": {"cidr": "192.0.2.7/32"}}], "ports": [{"port": 3128}]}
PEER: Final = {"podSelector": {"matchLabels": {"app": "scraper"}}}

Place = tuple[str | int, ...]

WHERE: Final[Mapping[str, tuple[Any, str, Place, Any]]] = {
    "image.repository": (
        "r.example:5000/a/winpool",
        "Deployment",
        (*CONTAINER, "image"),
        f"r.example:5000/a/winpool:{__version__}",
    ),
    "image.tag": ("0.9.9-rc.1", "Deployment", (*CONTAINER, "image"), f"{IMAGE}:0.9.9-rc.1"),
    "image.digest": (DIGEST, "Deployment", (*CONTAINER, "image"), f"{IMAGE}:{__version__}@{DIGEST}"),
    "image.pullPolicy": ("Always", "Deployment", (*CONTAINER, "imagePullPolicy"), "Always"),
    "image.pullSecrets": (
        ["a", "1"],
        "Deployment",
        (*POD, "imagePullSecrets"),
        [{"name": "a"}, {"name": "1"}],
    ),
    "replicas": (3, "Deployment", ("spec", "replicas"), 3),
    "resources": (
        {"requests": {"cpu": 1}},
        "Deployment",
        (*CONTAINER, "resources"),
        {"requests": {"cpu": 1, "memory": "160Mi"}, "limits": {"memory": "512Mi"}},
    ),
    "priorityClassName": ("0123", "Deployment", (*POD, "priorityClassName"), "0123"),
    "nodeSelector": ({"a": "true", "b": "1"}, "Deployment", (*POD, "nodeSelector"), {"a": "true", "b": "1"}),
    "tolerations": ([{"operator": "Exists"}], "Deployment", (*POD, "tolerations"), [{"operator": "Exists"}]),
    "affinity.nodeExpressions": ([EXPRESSION], "Deployment", (*EXPRESSIONS, 2), EXPRESSION),
    "affinity.preferredNodes": (
        [PREFERRED],
        "Deployment",
        (*NODE_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution"),
        [PREFERRED],
    ),
    "affinity.podAffinity": (
        {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "Deployment",
        (*POD, "affinity", "podAffinity"),
        {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    ),
    "affinity.podAntiAffinity": (
        {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
        "Deployment",
        (*POD, "affinity", "podAntiAffinity"),
        {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]},
    ),
    "log.format": (
        "text",
        "Deployment",
        (*CONTAINER, "env", 1),
        {"name": "WINPOOL_LOG_FORMAT", "value": "text"},
    ),
    "log.level": (
        "debug",
        "Deployment",
        (*CONTAINER, "env", 5),
        {"name": "WINPOOL_LOG_LEVEL", "value": "debug"},
    ),
    "metrics.auth": (
        "token",
        "Deployment",
        (*CONTAINER, "env", 5),
        {"name": "WINPOOL_METRICS_AUTH", "value": "token"},
    ),
    "metrics.tlsSecretName": (
        "winpool-tls",
        "Deployment",
        (*POD, "volumes", 0),
        {"name": "tls", "secret": {"secretName": "winpool-tls", "defaultMode": 0o440}},
    ),
    "networkPolicy.metricsFrom": ([PEER], "NetworkPolicy", ("spec", "ingress", 0, "from"), [PEER]),
    "networkPolicy.apiServerPorts": (
        [16443],
        "NetworkPolicy",
        ("spec", "egress", 0, "ports"),
        [{"port": 16443, "protocol": "TCP"}],
    ),
    "networkPolicy.extraEgress": ([RULE], "NetworkPolicy", ("spec", "egress", 2), RULE),
    "fence.allowNoExecute": (False, "ConfigMap", ("data", "allowNoExecute"), "false"),
    "extraArgs": (
        ["--pod-pass-seconds=1200"],
        "Deployment",
        (*CONTAINER, "args", 1),
        "--pod-pass-seconds=1200",
    ),
    "extraEnv": (
        [{"name": "HTTPS_PROXY", "value": "http://192.0.2.7:3128"}],
        "Deployment",
        (*CONTAINER, "env", 5),
        {"name": "HTTPS_PROXY", "value": "http://192.0.2.7:3128"},
    ),
}
"""For a value of its own: a value, the kind of the object that has it, where, and as what."""
