"""The values of the Helm chart, as data: ``values.yaml``, its schema and its page are made from this table.

A default that an object of ``deploy`` has already is read from there, so that it is written in one place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from release.addresses import Addresses
from release.memory_values import memory_values
from release.pod_values import image_values, pod_values
from release.shapes import (
    ENDPOINT,
    ENV,
    LABEL_VALUES,
    PEER,
    PORT,
    SECRET_NAME,
    SETTING,
    choice,
    items,
    passed_on,
    text,
)
from release.value import Value

OPERATOR: Final = Path(__file__).parents[2] / "deploy" / "operator"

Object = dict[str, Any]

GROUPS: Final = {
    "image": "The image of the operator.",
    "resourceQuota": "The ResourceQuota winpool-critical-pods.",
    "affinity": "Where replicas run, in addition to what the chart asks for itself.",
    "log": "The log of the operator.",
    "metrics": "Who may read /metrics, and how.",
    "networkPolicy": "The NetworkPolicy winpool.",
    "memory": "What pools with memoryPressure need.",
    "rollout": "What an operator needs that drains nodes for upgrades.",
    "monitoring": "Objects for the Prometheus operator.",
    "fence": "What the operator may do to nodes.",
    "crd": "The CustomResourceDefinition windowsnodepools.winpool.dev.",
}
"""What the values of one name before the dot have in common."""


def values() -> tuple[Value, ...]:
    """Return all values, in the order of ``values.yaml``."""
    (image,) = _the("kustomization.yaml")["images"]
    deployment = _the("deployment.yaml")["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    settings = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    policy = _the("networkpolicy.yaml")["spec"]
    return (
        *image_values(image["newName"], pull_policy=container["imagePullPolicy"]),
        *pod_values(pod, replicas=deployment["replicas"], resources=container["resources"]),
        Value(
            path="log.format",
            default=settings["WINPOOL_LOG_FORMAT"],
            schema=choice("text", "json"),
            text="Format of the log: text for people, json for programs.",
        ),
        Value(
            path="log.level",
            default="info",
            schema=choice("debug", "info", "warning", "error"),
            text="Lowest level of messages to log.",
        ),
        *_metrics(),
        *_network(peers=policy["ingress"][0]["from"], ports=policy["egress"][0]["ports"]),
        *memory_values(),
        Value(
            path="rollout.enabled",
            default=False,
            schema={"type": "boolean"},
            text="Whether to give the operator what it needs to drain nodes for upgrades: the rights to "
            "evict pods, also those of kube-system, to set conditions of nodes, and to list volume "
            "attachments and the controllers of pods.",
        ),
        Value(
            path="rollout.force",
            default=False,
            schema={"type": "boolean"},
            text="Whether to give the operator the right to delete the pods that are left when the drain of "
            "a node has taken too long, whatever PodDisruptionBudgets allow. It uses the right only with "
            "--allow-force in extraArgs, and for pools with drain.onTimeout: Force. Has no effect without "
            "rollout.enabled.",
        ),
        *_monitoring(),
        Value(
            path="fence.allowNoExecute",
            default=True,
            schema={"type": "boolean"},
            text="Whether the operator may add NoExecute taints, which delete pods. With false, the API "
            "server refuses them whatever a pool says. With true, the chart writes nothing into the "
            "ConfigMap winpool-fence, where you may have forbidden them.",
        ),
        Value(
            path="crd.create",
            default=True,
            schema={"type": "boolean"},
            text="Whether the chart creates and updates the CRD. helm uninstall never deletes it, and "
            "neither does a change to false: deleting it would delete all pools.",
        ),
        Value(
            path="extraArgs",
            default=[],
            schema=items(SETTING),
            text="Further settings of the operator as flags in the form --name=value, such as "
            "--pod-pass-seconds=1200. All: python -m winpool run --help. Flags that other values set "
            "are refused here.",
        ),
        Value(
            path="extraEnv",
            default=[],
            schema=items(ENV),
            text="Further environment variables of the operator, such as HTTPS_PROXY and NO_PROXY. Names "
            "that begin with WINPOOL_ are refused: settings belong to extraArgs.",
        ),
    )


def _metrics() -> tuple[Value, ...]:
    return (
        Value(
            path="metrics.auth",
            default="none",
            schema=choice("none", "token"),
            text="Who may read /metrics. none: everyone who reaches the port. token: a client whose bearer "
            "token is of a user who may get the nonResourceURL /metrics (ClusterRole "
            "winpool-metrics-reader). The operator then has the right to review tokens. Set "
            "metrics.tlsSecretName too.",
        ),
        Value(
            path="metrics.tlsSecretName",
            default="",
            schema=SECRET_NAME,
            text="Secret of type kubernetes.io/tls in the namespace winpool-system. With it, /metrics is "
            "served by HTTPS, and the operator reads the certificate again when it changes. Empty: "
            "HTTP.",
        ),
    )


def _network(*, peers: list[Object], ports: list[Object]) -> tuple[Value, ...]:
    return (
        Value(
            path="networkPolicy.create",
            default=True,
            schema={"type": "boolean"},
            text="Whether to restrict who reaches the replicas and whom they reach.",
        ),
        Value(
            path="networkPolicy.metricsFrom",
            default=peers,
            schema=items(PEER),
            text="Who reaches the port of the metrics, as peers of a NetworkPolicy. Empty: no one.",
        ),
        Value(
            path="networkPolicy.apiServerPorts",
            default=[each["port"] for each in ports],
            schema={**items(PORT), "minItems": 1},
            text="Ports of the API server: that of the Service kubernetes and that behind it "
            "(kubectl get endpointslices -n default).",
        ),
        Value(
            path="networkPolicy.extraEgress",
            default=[],
            schema=items(passed_on()),
            text="Further rules for connections of the replicas, such as to a proxy, as egress rules of a "
            "NetworkPolicy.",
        ),
    )


def _monitoring() -> tuple[Value, ...]:
    return (
        Value(
            path="monitoring.prometheusOperator",
            default=False,
            schema={"type": "boolean"},
            text="Whether to create a PodMonitor and a PrometheusRule with the alerts. The CRDs of the "
            "Prometheus operator must be installed.",
        ),
        Value(
            path="monitoring.labels",
            default={},
            schema=LABEL_VALUES,
            text="Further labels of both, such as those that your Prometheus selects by.",
        ),
        Value(
            path="monitoring.endpoint",
            default={},
            schema=ENDPOINT,
            text="Further fields of the endpoint of the PodMonitor, such as interval, authorization and "
            "tlsConfig. Its port, path and scheme follow from the other values.",
        ),
        Value(
            path="monitoring.runbooks",
            default=Addresses.read().runbooks(),
            schema=text(r"^https?://[^\s#]+[^\s#/]$"),
            text="Where the runbooks of the alerts are, for clusters that reach a mirror only. The "
            "runbook_url of an alert is this, its name, and .html.",
        ),
    )


def _the(name: str) -> Object:
    document: Object = yaml.safe_load((OPERATOR / name).read_text())
    return document
